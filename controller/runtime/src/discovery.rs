//! The resources that a server offers, for controllers that act on all of them.

mod classic;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Request;
use http::header::ACCEPT;
use kube::api::DynamicObject;
use kube::core::discovery::ApiResource;
use kube::core::discovery::v2::{
    ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery,
};
use kube::{Api, Client};

use crate::decode_cache::recent::{Remembered, Shards};
use crate::store::ObjectKey;

/// Bytes of the documents that a shard remembers.
const REMEMBERED_BYTES_MAX: usize = 256 * 1024;

static RECENT: Shards<Known, REMEMBERED_BYTES_MAX> = Shards::new();

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
#[derive(Clone, Debug, Default)]
pub struct PreferredResources {
    /// By group and plural name.
    pub resources: Vec<Arc<APIResource>>,
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
        self.resources.extend(chosen.into_values().map(Arc::new));
    }

    /// Adds groups, and sorts the resources.
    fn add_all(&mut self, groups: impl IntoIterator<Item = APIGroupDiscovery>) {
        for group in groups {
            self.add(group);
        }
        self.resources.sort_by(|one, other| {
            let (one, other) = (&one.resource, &other.resource);
            (&one.group, &one.plural).cmp(&(&other.group, &other.plural))
        });
    }
}

/// The documents of `/api` and `/apis`, and the resources in them.
#[derive(Clone)]
struct Known {
    /// Both documents.
    text: Arc<str>,
    /// None if there are no groups in them.
    preferred: Option<Arc<PreferredResources>>,
}

impl Remembered for Known {
    fn text(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Known {
    /// # Errors
    /// A document is no list of groups.
    fn read(documents: [&str; 2]) -> serde_json::Result<Self> {
        let mut groups = Vec::new();
        for document in documents {
            let document: APIGroupDiscoveryList = serde_json::from_str(document)?;
            groups.extend(document.items);
        }
        let preferred = (!groups.is_empty()).then(|| {
            let mut preferred = PreferredResources::default();
            preferred.add_all(groups);
            Arc::new(preferred)
        });
        Ok(Self {
            text: documents.concat().into(),
            preferred,
        })
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
    let documents = [
        document(client, "/api").await?,
        document(client, "/apis").await?,
    ];
    let [core, named] = [&documents[0], &documents[1]].map(String::as_str);
    let known = RECENT.get_or_read(documents.concat().as_bytes(), || Known::read([core, named]));
    if let Some(preferred) = known.map_err(kube::Error::SerdeError)?.preferred {
        return Ok(Arc::unwrap_or_clone(preferred));
    }
    // A server from before aggregated discovery answers with its documents of old.
    let mut preferred = PreferredResources::default();
    let groups = classic::groups(client, &mut preferred.failed).await?;
    preferred.add_all(groups);
    Ok(preferred)
}

/// The document at `path`, aggregated if the server can do that.
async fn document(client: &Client, path: &str) -> Result<String, kube::Error> {
    let request = Request::get(path).header(ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2);
    let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await
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

    /// A client of a server with `pods` in the core group, and with apples that are called `kind`.
    fn client(kind: &'static str) -> Client {
        let answer = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (name, resource) = match request.uri().path() {
                "/api" => ("", resource("pods", "Pod")),
                _ => ("example.io", resource("apples", kind)),
            };
            let versions = json!([{ "version": "v1", "resources": [resource] }]);
            let group = json!({ "metadata": { "name": name }, "versions": versions });
            let text = json!({ "items": [group] }).to_string();
            let body = kube::client::Body::from(text.into_bytes());
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        });
        Client::new(answer, "default")
    }

    #[tokio::test]
    async fn documents_that_are_as_before_are_not_read_again() {
        let mut found = Vec::new();
        for kind in ["Apple", "Apple", "Fruit"] {
            let preferred = server_preferred_resources(&client(kind)).await.unwrap();
            assert_eq!(kinds_of(&preferred), ["pods v1", "apples example.io/v1"]);
            assert!(preferred.resources[1].is("example.io", kind));
            found.push(preferred.resources);
        }
        assert!(Arc::ptr_eq(&found[0][1], &found[1][1]));
        assert!(!Arc::ptr_eq(&found[0][0], &found[2][0]));
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
