//! The server's resources, and how arguments name them.
//!
//! Source: client-go `restmapper/{discovery,shortcut}.go`, apimachinery `pkg/runtime/schema/group_version.go`.

use kube::api::ApiResource;
use kubeproof_machinery::json::Value;

use super::connection::Connection;
use super::failure::Failure;

const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A resource in one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) api: ApiResource,
    pub(super) is_namespaced: bool,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    verbs: Vec<String>,
    /// Whether the version is the first of its group that has the resource.
    is_preferred: bool,
}

impl Resource {
    fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// What precedes names in tables of several resources, such as `deployment.apps/`.
    pub(super) fn prefix(&self) -> String {
        let kind = self.api.kind.to_lowercase();
        match self.api.group.as_str() {
            "" => format!("{kind}/"),
            group => format!("{kind}.{group}/"),
        }
    }
}

/// The resources of a server: the legacy group first, each group's preferred version first.
pub(super) struct Resources(Vec<Resource>);

impl Resources {
    pub(super) async fn of(connection: &Connection) -> Result<Self, Failure> {
        let mut resources = Vec::new();
        for path in ["/api", "/apis"] {
            let groups = connection.read(path, ACCEPT).await?.json()?;
            read(&groups, &mut resources);
        }
        Ok(Self(resources))
    }

    /// Returns the resources of an argument: one, or those of a category such as `all`.
    pub(super) fn named(&self, argument: &str) -> Result<Vec<&Resource>, Failure> {
        if let Some(resource) = self.one(argument) {
            return Ok(vec![resource]);
        }
        let in_category = |resource: &&Resource| {
            let is_in = resource.categories.iter().any(|name| name == argument);
            is_in && resource.is_preferred && resource.has_verb("list")
        };
        let found: Vec<&Resource> = self.0.iter().filter(in_category).collect();
        match found.is_empty() {
            false => Ok(found),
            true => {
                let name = argument.split('.').next().unwrap_or_default();
                Err(Failure::error(format_args!(
                    "the server doesn't have a resource type {name:?}"
                )))
            }
        }
    }

    /// Finds `RESOURCE`, `RESOURCE.GROUP` or `RESOURCE.VERSION.GROUP`. A group may be shortened.
    fn one(&self, argument: &str) -> Option<&Resource> {
        let argument = argument.to_lowercase();
        let (name, rest) = match argument.split_once('.') {
            None => return self.first(|resource| resource.is_called(&argument)),
            Some(parts) => parts,
        };
        if let Some((version, group)) = rest.split_once('.') {
            let versioned = self.first(|resource| {
                let api = &resource.api;
                let is_version = api.version == version && api.group == group;
                is_version.then(|| resource.is_called(name)).flatten()
            });
            if versioned.is_some() {
                return versioned;
            }
        }
        self.first(|resource| {
            let rank = resource.is_called(name)?;
            match &resource.api.group {
                group if *group == rest => Some(rank),
                group if group.starts_with(rest) => Some(rank + 2),
                _ => None,
            }
        })
    }

    /// Returns the first resource of the lowest rank.
    fn first(&self, rank: impl Fn(&Resource) -> Option<u8>) -> Option<&Resource> {
        let ranked = self.0.iter().filter_map(|one| Some((rank(one)?, one)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, one)| one)
    }

    /// Returns the resource of an object's kind.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        let is = |one: &&Resource| one.api.api_version == api_version && one.api.kind == kind;
        self.0.iter().find(is)
    }
}

impl Resource {
    /// Ranks a name, in small letters: names precede short names.
    fn is_called(&self, name: &str) -> Option<u8> {
        if name == self.api.plural || name == self.singular {
            return Some(0);
        }
        self.short_names
            .iter()
            .any(|short| short == name)
            .then_some(1)
    }
}

/// Reads an `APIGroupDiscoveryList`.
fn read(groups: &Value, resources: &mut Vec<Resource>) {
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| each(value).iter().map(text).collect::<Vec<String>>();
    for group in each(&groups["items"]) {
        let name = text(&group["metadata"]["name"]);
        let first = resources.len();
        for version in each(&group["versions"]) {
            let version_name = text(&version["version"]);
            for resource in each(&version["resources"]) {
                let plural = text(&resource["resource"]);
                let kind = text(&resource["responseKind"]["kind"]);
                let is_new = |known: &Resource| known.api.plural != plural;
                let is_preferred = resources[first..].iter().all(is_new);
                let api_version = match name.as_str() {
                    "" => version_name.clone(),
                    group => format!("{group}/{version_name}"),
                };
                resources.push(Resource {
                    singular: match text(&resource["singularResource"]) {
                        singular if singular.is_empty() => kind.to_lowercase(),
                        singular => singular,
                    },
                    api: ApiResource {
                        group: name.clone(),
                        version: version_name.clone(),
                        api_version,
                        kind,
                        plural,
                    },
                    is_namespaced: resource["scope"] == "Namespaced",
                    short_names: texts(&resource["shortNames"]),
                    categories: texts(&resource["categories"]),
                    verbs: texts(&resource["verbs"]),
                    is_preferred,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    fn resources() -> Resources {
        let of = |plural: &str, kind: &str, more: Value| {
            let mut resource = json!({"resource": plural, "responseKind": {"kind": kind},
                "scope": "Namespaced", "singularResource": kind.to_lowercase(), "verbs": ["get", "list"]});
            let fields = more.as_object().unwrap().clone();
            resource.as_object_mut().unwrap().extend(fields);
            resource
        };
        let pods = of(
            "pods",
            "Pod",
            json!({"shortNames": ["po"], "categories": ["all"]}),
        );
        let events = of("events", "Event", json!({"shortNames": ["ev"]}));
        let scalers = of("scalers", "Scaler", json!({"categories": ["all"]}));
        let mut found = Vec::new();
        read(
            &json!({"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [pods, events]}]}]}),
            &mut found,
        );
        read(
            &json!({"items": [
                {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [events]}]},
                {"metadata": {"name": "scale.io"}, "versions": [
                    {"version": "v2", "resources": [scalers]}, {"version": "v1", "resources": [scalers]}]},
            ]}),
            &mut found,
        );
        Resources(found)
    }

    fn named(argument: &str) -> Vec<String> {
        let resources = resources();
        let found = resources.named(argument).unwrap();
        let name = |one: &&Resource| format!("{} {}", one.api.plural, one.api.api_version);
        found.iter().map(name).collect()
    }

    #[test]
    fn a_resource_has_many_names() {
        for name in ["pods", "pod", "po", "Pod", "pods.v1.", "PODS"] {
            assert_eq!(named(name), ["pods v1"], "{name}");
        }
        for name in [
            "scaler",
            "scalers.scale.io",
            "scaler.scale",
            "scalers.v2.scale.io",
        ] {
            assert_eq!(named(name), ["scalers scale.io/v2"], "{name}");
        }
        assert_eq!(named("scalers.v1.scale.io"), ["scalers scale.io/v1"]);
        assert_eq!(named("events"), ["events v1"]);
        assert_eq!(named("ev.events.k8s.io"), ["events events.k8s.io/v1"]);
        assert_eq!(named("all"), ["pods v1", "scalers scale.io/v2"]);
        let failure = resources().named("foo.bar").map(drop).unwrap_err();
        assert_eq!(
            failure.0,
            "error: the server doesn't have a resource type \"foo\""
        );
    }
}
