//! Discovery with a request for each group version, in the form of the aggregated documents.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResourceList, ObjectMeta};
use kube::Client;
use kube::core::discovery::v2::{
    APIGroupDiscovery, APIResourceDiscovery, APIVersionDiscovery, GroupVersionKind,
};

use super::GroupVersion;
use crate::sync_error::Error;

/// Reads all groups; group versions whose documents cannot be read are put into `failed`.
///
/// # Errors
///
/// The groups cannot be read.
pub(super) async fn groups(
    client: &Client,
    failed: &mut BTreeMap<GroupVersion, String>,
) -> Result<Vec<APIGroupDiscovery>, kube::Error> {
    let mut groups = Vec::new();
    let mut core = Vec::new();
    for version in client.list_core_api_versions().await?.versions {
        let document = client.list_core_api_resources(&version).await;
        let gv = GroupVersion {
            group: String::new(),
            version,
        };
        core.extend(read(gv, document, failed));
    }
    groups.push(group("", core));
    for described in client.list_api_groups().await?.groups {
        let preferred = described.preferred_version.map(|own| own.version);
        let mut versions = described.versions;
        // The others stay in their order.
        versions.sort_by_key(|own| Some(&own.version) != preferred.as_ref());
        let mut own = Vec::new();
        for version in versions {
            let document = client
                .list_api_group_resources(&version.group_version)
                .await;
            let gv = GroupVersion {
                group: described.name.clone(),
                version: version.version,
            };
            own.extend(read(gv, document, failed));
        }
        groups.push(group(&described.name, own));
    }
    Ok(groups)
}

fn group(name: &str, versions: Vec<APIVersionDiscovery>) -> APIGroupDiscovery {
    APIGroupDiscovery {
        metadata: Some(ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        }),
        versions,
    }
}

fn read(
    gv: GroupVersion,
    document: Result<APIResourceList, kube::Error>,
    failed: &mut BTreeMap<GroupVersion, String>,
) -> Option<APIVersionDiscovery> {
    let list = match document {
        Ok(list) => list,
        Err(error) => {
            failed.insert(gv, Error::from(error).to_string());
            return None;
        }
    };
    let resources = list.resources.into_iter();
    let resources = resources.filter(|resource| !resource.name.contains('/'));
    let resources = resources.map(|resource| APIResourceDiscovery {
        resource: Some(resource.name),
        response_kind: Some(GroupVersionKind {
            kind: Some(resource.kind),
            ..GroupVersionKind::default()
        }),
        scope: resource.namespaced.then(|| "Namespaced".to_owned()),
        verbs: resource.verbs,
        ..APIResourceDiscovery::default()
    });
    Some(APIVersionDiscovery {
        version: Some(gv.version),
        resources: resources.collect(),
        freshness: None,
    })
}
