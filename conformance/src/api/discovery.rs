//! What a server serves, by its aggregated discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, USER_AGENT};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use kube::core::discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery, APIVersionDiscovery};
use parking_lot::Mutex;

use super::{ApiError, Resource};

/// Servers since 1.30 have it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What the last server of this process told, by path: the next one tells the same as a rule, which is
/// not to be read again for each of many small clusters.
static READ: Mutex<BTreeMap<&'static str, (Bytes, Groups)>> = Mutex::new(BTreeMap::new());

/// The resources of each group's preferred version, and those of all its others.
#[derive(Clone, Default)]
struct Groups {
    preferred: Vec<Arc<Resource>>,
    others: Vec<Arc<Resource>>,
}

/// The resources that `client`'s server serves. Those of preferred versions come first: a resource's
/// names are those of the first that has them.
///
/// # Errors
/// [`ApiError`] when the server does not tell.
pub(super) async fn resources(client: &kube::Client) -> Result<Vec<Arc<Resource>>, ApiError> {
    let core = groups(client, "/api").await?;
    let named = groups(client, "/apis").await?;
    let parts = [core.preferred, named.preferred, core.others, named.others];
    Ok(parts.concat())
}

async fn groups(client: &kube::Client, path: &'static str) -> Result<Groups, ApiError> {
    let request = Request::get(path)
        .header(USER_AGENT, super::USER_AGENT)
        .header(ACCEPT, AGGREGATED);
    let request = request.body(Body::empty()).expect("the path is a URI");
    let response = client.send(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        let why = String::from_utf8_lossy(&body);
        let refused = Status::failure(&why, "Failed to discover").with_code(status.as_u16());
        let refused = serde_json::from_slice(&body).unwrap_or(refused);
        return Err(ApiError::Refused(Box::new(refused)));
    }
    let read = READ.lock().get(path).cloned();
    if let Some((_, groups)) = read.filter(|(told, _)| *told == body) {
        return Ok(groups);
    }
    let groups = Groups::read(&body).map_err(kube::Error::SerdeError)?;
    READ.lock().insert(path, (body, groups.clone()));
    Ok(groups)
}

impl Groups {
    fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let list: APIGroupDiscoveryList = serde_json::from_slice(body)?;
        let mut groups = Self::default();
        for group in list.items {
            let name = group.metadata.and_then(|metadata| metadata.name);
            let name = name.unwrap_or_default();
            let mut versions = group.versions.into_iter().map(|of| version(&name, of));
            let preferred = versions.next().into_iter().flatten();
            groups.preferred.extend(preferred);
            groups.others.extend(versions.flatten());
        }
        Ok(groups)
    }
}

fn version(group: &str, discovered: APIVersionDiscovery) -> Vec<Arc<Resource>> {
    let version = discovered.version.unwrap_or_default();
    let group_version = match group {
        "" => version,
        group => format!("{group}/{version}"),
    };
    let resources = discovered.resources.into_iter();
    let resources = resources.filter_map(|found| resource(&group_version, found));
    resources.collect()
}

fn resource(group_version: &str, discovered: APIResourceDiscovery) -> Option<Arc<Resource>> {
    let singular = discovered.singular_resource.filter(|name| !name.is_empty());
    Some(Arc::new(Resource::new(
        group_version.to_owned(),
        discovered.resource?,
        discovered.response_kind?.kind?,
        singular.into_iter().chain(discovered.short_names),
        discovered.scope.as_deref() == Some("Namespaced"),
    )))
}
