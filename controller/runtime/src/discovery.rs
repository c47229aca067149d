//! The resources that a server offers, for controllers that act on all of them.

mod classic;

use std::collections::BTreeMap;

use crate::store::ObjectKey;
use kube::api::DynamicObject;
use kube::core::discovery::ApiResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use kube::{Api, Client};

/// A resource in its preferred version.
#[derive(Clone, Debug)]
pub struct APIResource {
    /// Group, version, kind and plural name.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    verbs: Vec<String>,
}

impl APIResource {
    /// Whether the server lists `verb` for this kind.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|supported| supported == verb)
    }

    /// The objects of this kind in `namespace`, or all of them if it has no namespaces.
    pub fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// The API for the object `key`.
    pub fn api_of(&self, client: &Client, key: &ObjectKey) -> Api<DynamicObject> {
        self.api(client, &key.namespace)
    }

    /// Whether nothing owns objects of this kind, which expire by themselves.
    pub fn is_event(&self) -> bool {
        self.is("", "Event") || self.is("events.k8s.io", "Event")
    }

    /// Whether this is the kind `kind` of `group`, in any version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.resource.group == group && self.resource.kind == kind
    }

    /// The group and the preferred version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.resource.group.clone(),
            version: self.resource.version.clone(),
        }
    }
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersion {
    group: String,
    version: String,
}

impl std::fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            return f.write_str(&self.version);
        }
        write!(f, "{}/{}", self.group, self.version)
    }
}

/// The result of a discovery, which may lack some group versions.
#[derive(Debug, Default)]
pub struct PreferredResources {
    /// By group and plural name.
    pub resources: Vec<APIResource>,
    /// The group versions that could not be read, with the reasons.
    pub failed: BTreeMap<GroupVersion, String>,
}

impl PreferredResources {
    /// Describes the group versions that could not be read, in client-go's words.
    pub fn failure(&self) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let failed = self.failed.iter();
        let mut failed: Vec<String> = failed.map(|(gv, error)| format!("{gv}: {error}")).collect();
        failed.sort();
        Some(format!(
            "unable to retrieve the complete list of server APIs: {}",
            failed.join(", ")
        ))
    }

    /// Adds a group; its versions are in the order of preference.
    fn add(&mut self, group: APIGroupDiscovery) {
        let name = group.metadata.and_then(|own| own.name).unwrap_or_default();
        let mut chosen: BTreeMap<String, APIResource> = BTreeMap::new();
        for version in group.versions {
            let gv = GroupVersion {
                group: name.clone(),
                version: version.version.unwrap_or_default(),
            };
            if version.freshness.as_deref() == Some("Stale") {
                let error = format!("stale GroupVersion discovery: {gv}");
                self.failed.insert(gv, error);
                continue;
            }
            for resource in version.resources {
                if let Some(kind) = kind(&gv, resource) {
                    let plural = kind.resource.plural.clone();
                    chosen.entry(plural).or_insert(kind);
                }
            }
        }
        self.resources.extend(chosen.into_values());
    }
}

/// The kind that `resource` describes; None for a parent of subresources that has no kind itself.
fn kind(gv: &GroupVersion, resource: APIResourceDiscovery) -> Option<APIResource> {
    let kind = resource.response_kind.and_then(|kind| kind.kind)?;
    Some(APIResource {
        resource: ApiResource {
            group: gv.group.clone(),
            version: gv.version.clone(),
            api_version: gv.to_string(),
            kind,
            plural: resource.resource.unwrap_or_default(),
        },
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        verbs: resource.verbs,
    })
}

/// Lists all kinds, each in the preferred version of its group, or else in the first that has it,
/// as client-go's `ServerPreferredResources` does. A group version that cannot be read is noted.
///
/// # Errors
///
/// The groups cannot be read.
pub async fn server_preferred_resources(
    client: &Client,
) -> Result<PreferredResources, kube::Error> {
    let core = client.list_core_api_versions_aggregated().await?;
    let named = client.list_api_groups_aggregated().await?;
    let mut preferred = PreferredResources::default();
    let mut groups = core.items;
    groups.extend(named.items);
    if groups.is_empty() {
        // A server from before aggregated discovery answers with its documents of old.
        groups = classic::groups(client, &mut preferred.failed).await?;
    }
    for group in groups {
        preferred.add(group);
    }
    preferred.resources.sort_by(|one, other| {
        let (one, other) = (&one.resource, &other.resource);
        (&one.group, &one.plural).cmp(&(&other.group, &other.plural))
    });
    Ok(preferred)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::from_value;

    fn resource(plural: &str, kind: &str) -> Value {
        json!({
            "resource": plural, "scope": "Namespaced", "verbs": ["list", "delete"],
            "responseKind": { "group": "", "version": "", "kind": kind },
        })
    }

    fn group(versions: Value) -> APIGroupDiscovery {
        let group = json!({ "metadata": { "name": "example.io" }, "versions": versions });
        from_value(group).unwrap()
    }

    fn kinds_of(preferred: &PreferredResources) -> Vec<String> {
        let kinds = preferred.resources.iter().map(|kind| &kind.resource);
        kinds
            .map(|kind| format!("{} {}", kind.plural, kind.api_version))
            .collect()
    }

    #[test]
    fn each_kind_is_taken_in_the_best_version_that_it_has() {
        let mut preferred = PreferredResources::default();
        preferred.add(group(json!([
            { "version": "v2", "resources": [resource("apples", "Apple")] },
            { "version": "v1", "resources": [
                resource("apples", "Apple"),
                resource("pears", "Pear"),
                { "resource": "parents", "scope": "Namespaced", "verbs": [] },
            ] },
        ])));
        let expected = ["apples example.io/v2", "pears example.io/v1"];
        assert_eq!(kinds_of(&preferred), expected);
        assert_eq!(preferred.failure(), None);
    }

    #[test]
    fn a_version_that_failed_is_noted_and_hides_no_other() {
        let mut preferred = PreferredResources::default();
        preferred.add(group(json!([
            { "version": "v2", "freshness": "Stale", "resources": [resource("apples", "Apple")] },
            { "version": "v1", "freshness": "Current", "resources": [resource("pears", "Pear")] },
        ])));
        assert_eq!(kinds_of(&preferred), ["pears example.io/v1"]);
        assert_eq!(
            preferred.failure().unwrap(),
            "unable to retrieve the complete list of server APIs: example.io/v2: stale \
             GroupVersion discovery: example.io/v2"
        );
    }
}
