//! Maps the resources that rules name to kinds, by discovery.

use std::collections::BTreeSet;

use http::header::ACCEPT;
use k8s_openapi::api::admissionregistration::v1::NamedRuleWithOperations;
use kube::Client;
use kubeproof_runtime::sync_error::Error;
use serde_json::Value;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// After how many kinds of a rule no more are looked for.
const KINDS_MAX: usize = 10;

/// The name of a kind; ordered as upstream orders the kinds of a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupVersionKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl GroupVersionKind {
    /// The path of the OpenAPI document of the group version.
    pub(super) fn openapi_path(&self) -> String {
        let Self { group, version, .. } = self;
        match group.as_str() {
            "" => format!("/openapi/v3/api/{version}"),
            group => format!("/openapi/v3/apis/{group}/{version}"),
        }
    }
}

/// A served resource with its kind.
#[derive(Debug)]
struct Served {
    plural: String,
    singular: String,
    kind: GroupVersionKind,
}

/// The served resources, group by group.
#[derive(Debug)]
pub(super) struct RestMapper(Vec<Served>);

impl RestMapper {
    /// Reads what the server serves now.
    pub(super) async fn read(client: &Client) -> Result<Self, Error> {
        let mut served = Vec::new();
        for path in ["/api", "/apis"] {
            let groups = get(client, path, AGGREGATED).await?;
            add(&groups, &mut served);
        }
        Ok(Self(served))
    }

    /// Returns the kinds that the rules are about, in order; what has a wildcard is about none in
    /// particular.
    pub(super) fn kinds_of(&self, rules: &[NamedRuleWithOperations]) -> BTreeSet<GroupVersionKind> {
        let mut kinds = BTreeSet::new();
        for rule in rules {
            let groups = sorted(rule.api_groups.as_deref());
            let versions = sorted(rule.api_versions.as_deref());
            let has_wildcard = |names: &[&str]| names.iter().any(|name| name.contains('*'));
            if has_wildcard(&groups) || has_wildcard(&versions) {
                continue;
            }
            let mut resources = sorted(rule.resources.as_deref());
            resources.retain(|resource| !resource.contains(['*', '/']));
            let named = groups.iter().flat_map(|group| {
                let of_group = versions.iter().map(move |version| (*group, *version));
                let resources = &resources;
                of_group.flat_map(move |(group, version)| {
                    let one = move |resource: &&str| (group, version, resource.to_lowercase());
                    resources.iter().map(one)
                })
            });
            let found = named.flat_map(|(group, version, resource)| {
                let is_it = move |served: &&Served| {
                    // A rule that names no group may mean any: so do upstream's REST mappers.
                    (group.is_empty() || served.kind.group == group)
                        && served.kind.version == version
                        && (served.plural == resource || served.singular == resource)
                };
                self.0.iter().filter(is_it)
            });
            let mut count = 0;
            for served in found {
                kinds.insert(served.kind.clone());
                count += 1;
                if count == KINDS_MAX {
                    return kinds;
                }
            }
        }
        kinds
    }
}

fn sorted(names: Option<&[String]>) -> Vec<&str> {
    let names = names.unwrap_or_default().iter().map(String::as_str);
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}

/// Adds what an aggregated document of discovery lists.
fn add(groups: &Value, served: &mut Vec<Served>) {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for group in items(&groups["items"]) {
        for version in items(&group["versions"]) {
            for resource in items(&version["resources"]) {
                served.push(Served {
                    plural: text(&resource["resource"]),
                    singular: text(&resource["singularResource"]),
                    kind: GroupVersionKind {
                        group: text(&group["metadata"]["name"]),
                        version: text(&version["version"]),
                        kind: text(&resource["responseKind"]["kind"]),
                    },
                });
            }
        }
    }
}

/// Reads a document from the server.
pub(super) async fn get(client: &Client, path: &str, accept: &str) -> Result<Value, Error> {
    let request = http::Request::get(path).header(ACCEPT, accept);
    let request = request
        .body(Vec::new())
        .map_err(|error| Error::Refused(error.to_string()))?;
    Ok(client.request(request).await?)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    fn kinds(rules: &Value) -> Vec<String> {
        let group = |name: &str, version: &str, resources: &[[&str; 3]]| {
            let resources = resources.iter().map(|[plural, singular, kind]| {
                json!({"resource": plural, "singularResource": singular, "responseKind": {"kind": kind}})
            });
            let resources: Vec<Value> = resources.collect();
            let versions = json!([{"version": version, "resources": resources}]);
            json!({"metadata": {"name": name}, "versions": versions})
        };
        let deployment = ["deployments", "deployment", "Deployment"];
        let set = ["statefulsets", "statefulset", "StatefulSet"];
        let pod = ["pods", "pod", "Pod"];
        let event = ["events", "event", "Event"];
        let groups = json!({"items": [
            group("", "v1", &[pod, event]),
            group("apps", "v1", &[deployment, set]),
            group("apps", "v2", &[deployment]),
            group("events.k8s.io", "v1", &[event]),
        ]});
        let mut served = Vec::new();
        add(&groups, &mut served);
        let rules: Vec<NamedRuleWithOperations> = from_value(rules).unwrap();
        let kinds = RestMapper(served).kinds_of(&rules).into_iter();
        let shown = kinds.map(|own| format!("{}/{}/{}", own.group, own.version, own.kind));
        shown.collect()
    }

    fn rule(groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
        json!({"apiGroups": groups, "apiVersions": versions, "resources": resources})
    }

    #[test]
    fn rules_name_kinds_by_group_version_and_resource_in_the_order_of_names() {
        let both = ["statefulsets", "deployments"];
        let found = kinds(&json!([rule(&["apps"], &["v2", "v1"], &both)]));
        let wanted = [
            "apps/v1/Deployment",
            "apps/v1/StatefulSet",
            "apps/v2/Deployment",
        ];
        assert_eq!(found, wanted);
        let found = kinds(&json!([rule(
            &["apps"],
            &["v1"],
            &["Deployment", "deployments/scale"]
        )]));
        assert_eq!(found, ["apps/v1/Deployment"]);
        assert!(kinds(&json!([rule(&["apps"], &["v3"], &both)])).is_empty());
    }

    #[test]
    fn wildcards_name_no_kinds() {
        let none = [
            rule(&["*"], &["v1"], &["pods"]),
            rule(&["apps"], &["*", "v1"], &["deployments"]),
            rule(&["apps"], &["v1"], &["*", "*/scale"]),
        ];
        assert!(kinds(&json!(none)).is_empty());
    }

    #[test]
    fn resources_of_the_core_group_name_those_of_other_groups_too() {
        let found = kinds(&json!([rule(&[""], &["v1"], &["events", "pods"])]));
        assert_eq!(found, ["/v1/Event", "/v1/Pod", "events.k8s.io/v1/Event"]);
    }
}
