//! `bootstrap.txt`: the objects that a server holds right after its start.

use std::collections::BTreeSet;

use anyhow::ensure;

use super::Inputs;
use super::json::Json;

/// The resources that have such objects, in the order in which they get their revisions.
const RESOURCES: [&str; 16] = [
    "/v1/namespaces",
    "/v1/services",
    "/v1/endpoints",
    "/v1/configmaps",
    "scheduling.k8s.io/v1/priorityclasses",
    "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "networking.k8s.io/v1/servicecidrs",
    "networking.k8s.io/v1/ipaddresses",
    "discovery.k8s.io/v1/endpointslices",
    "coordination.k8s.io/v1/leases",
    "apiregistration.k8s.io/v1/apiservices",
    "rbac.authorization.k8s.io/v1/clusterroles",
    "rbac.authorization.k8s.io/v1/clusterrolebindings",
    "rbac.authorization.k8s.io/v1/roles",
    "rbac.authorization.k8s.io/v1/rolebindings",
];
/// Resources whose objects are left out: component statuses are not stored, and events are what
/// happened.
const LEFT_OUT: [&str; 3] = [
    "/v1/componentstatuses",
    "/v1/events",
    "events.k8s.io/v1/events",
];

/// Set by the store of the server that reads the file.
const SYSTEM_FIELDS: [&str; 4] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
];
/// The host that the objects say the server runs on, and the name of its lease, a hash of that.
const HOST: &str = "kubeproof";
const IDENTITY: &str = "apiserver-quvjjwpcwp2x54zk4buuejqstu";
/// The address on which the imported objects say that the server listens.
const ADDRESS: &str = "172.18.0.2";
const PORT: u16 = 6443;

const JSON: &str = "application/json";
const HOST_LABEL: &str = "kubernetes.io/hostname";

const FORMAT: &str = "\
# A line @group/version/resource, then its objects, one a line. Placeholders: <time> and <date> of
# the start, <uid>.
";

/// Returns the text of the file.
///
/// # Errors
/// The server does not answer, publishes no endpoints, or has objects of other resources.
pub(crate) fn generate(inputs: &Inputs) -> anyhow::Result<String> {
    let mut lists = Vec::new();
    for resource in RESOURCES {
        lists.push(list(inputs, resource)?);
    }
    for (resource, list) in RESOURCES.iter().zip(&lists) {
        ensure!(
            !list.is_empty(),
            "the server has no {resource}; was it started as CONTRIBUTING.md shows?"
        );
    }
    ensure_complete(inputs)?;
    let at = |resource: &str| RESOURCES.iter().position(|own| *own == resource);
    let masks = Masks::new(
        &lists[at("coordination.k8s.io/v1/leases").unwrap_or_default()],
        &lists[at("/v1/endpoints").unwrap_or_default()],
    );
    if let Some(roles) = at("rbac.authorization.k8s.io/v1/clusterroles") {
        aggregate(&mut lists[roles]);
    }
    let provenance = inputs.provenance("the lists of a server that was started just before");
    let mut text = format!("# {provenance}\n{FORMAT}");
    for (resource, list) in RESOURCES.iter().zip(lists) {
        text.push_str(&format!("@{resource}\n"));
        for mut object in list {
            masks.apply(&mut object);
            text.push_str(&format!("{object}\n"));
        }
    }
    Ok(text)
}

/// The objects of a resource, with their kind and without what the store sets.
fn list(inputs: &Inputs, resource: &str) -> anyhow::Result<Vec<Json>> {
    let (group_version, plural) = resource.rsplit_once('/').unwrap_or_default();
    let path = match group_version.strip_prefix('/') {
        Some(version) => format!("/api/{version}/{plural}"),
        None => format!("/apis/{group_version}/{plural}"),
    };
    let document = inputs.server.document(&path, JSON)?;
    let kind = document.text("kind").trim_end_matches("List");
    let api_version = document.text("apiVersion");
    let objects = document.items("items").iter().map(|item| {
        let mut fields = vec![
            ("kind".to_owned(), kind.into()),
            ("apiVersion".to_owned(), api_version.into()),
        ];
        fields.extend(item.fields().iter().cloned());
        let mut object = Json::Object(fields);
        if let Some(metadata) = object.get_mut("metadata") {
            metadata.remove(&SYSTEM_FIELDS);
        }
        object
    });
    Ok(objects.collect())
}

/// Checks that no resource but those of the file has objects.
fn ensure_complete(inputs: &Inputs) -> anyhow::Result<()> {
    let groups = inputs.server.document("/apis", JSON)?;
    let groups = groups
        .items("groups")
        .iter()
        .flat_map(|group| group.items("versions"));
    let mut group_versions: BTreeSet<String> = groups
        .map(|version| version.text("groupVersion").to_owned())
        .collect();
    group_versions.insert("/v1".to_owned());
    for group_version in group_versions {
        let path = match group_version.strip_prefix('/') {
            Some(version) => format!("/api/{version}"),
            None => format!("/apis/{group_version}"),
        };
        let resources = inputs.server.document(&path, JSON)?;
        for own in resources.items("resources") {
            let resource = format!("{group_version}/{}", own.text("name"));
            let known =
                RESOURCES.contains(&resource.as_str()) || LEFT_OUT.contains(&resource.as_str());
            if known || !own.texts("verbs").contains(&"list") {
                continue;
            }
            let objects = list(inputs, &resource)?;
            ensure!(
                objects.is_empty(),
                "the server has {} objects of {resource}: a new section of bootstrap.txt, or not a fresh server",
                objects.len()
            );
        }
    }
    Ok(())
}

/// Values that differ between servers and starts, which the file must not show.
struct Masks {
    host: String,
    identity: String,
    address: String,
    port: u64,
}

impl Masks {
    fn new(leases: &[Json], endpoints: &[Json]) -> Self {
        let metadata = leases.iter().find_map(|lease| lease.get("metadata"));
        let host = metadata.and_then(|own| Some(own.get("labels")?.text(HOST_LABEL).to_owned()));
        let identity = metadata.map(|own| own.text("name").to_owned());
        let subset = endpoints
            .iter()
            .find_map(|own| own.items("subsets").first());
        let address = subset.and_then(|own| Some(own.items("addresses").first()?.text("ip")));
        let port = subset.and_then(|own| match own.items("ports").first()?.get("port")? {
            Json::Number(port) => port.as_u64(),
            _ => None,
        });
        Self {
            host: host.unwrap_or_default(),
            identity: identity.unwrap_or_default(),
            address: address.unwrap_or_default().to_owned(),
            port: port.unwrap_or_default(),
        }
    }

    fn apply(&self, object: &mut Json) {
        object.for_each_text(&mut |text| self.mask(text));
        self.mask_port(object);
        let is_config_map = object.text("kind") == "ConfigMap";
        if let Some(data) = object.get_mut("data").filter(|_| is_config_map) {
            data.for_each_text(&mut |text| {
                if is_date(text) {
                    "<date>".clone_into(text);
                }
            });
        }
    }

    fn mask(&self, text: &mut String) {
        let advertised = format!("{}:{}", self.address, self.port);
        let holder = text
            .strip_prefix(&self.identity)
            .filter(|_| !self.identity.is_empty());
        if let Some(rest) = holder {
            // The holder of the lease is the identity, `_`, and the uid of the process.
            let rest = if rest.is_empty() { "" } else { "_<uid>" };
            *text = format!("{IDENTITY}{rest}");
        } else if *text == self.host {
            HOST.clone_into(text);
        } else if *text == self.address {
            ADDRESS.clone_into(text);
        } else if *text == advertised {
            *text = format!("{ADDRESS}:{PORT}");
        } else if is_time(text) {
            "<time>".clone_into(text);
        }
    }

    /// Replaces the port in `port` and `targetPort`.
    fn mask_port(&self, value: &mut Json) {
        match value {
            Json::Array(items) => items.iter_mut().for_each(|item| self.mask_port(item)),
            Json::Object(fields) => {
                for (name, value) in fields {
                    let is =
                        matches!(value, Json::Number(port) if port.as_u64() == Some(self.port));
                    match is && ["port", "targetPort"].contains(&name.as_str()) {
                        true => *value = Json::Number(PORT.into()),
                        false => self.mask_port(value),
                    }
                }
            }
            _ => {}
        }
    }
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && is_date(&text[..text.floor_char_boundary(10)]) && text.ends_with('Z')
}

fn is_date(text: &str) -> bool {
    let shape = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c });
    shape.collect::<String>() == "0000-00-00"
}

/// Fills in the rules of roles that collect those of others, as a cluster's controller manager does:
/// in the order of the names, each rule once, until nothing changes.
fn aggregate(roles: &mut [Json]) {
    loop {
        let before = roles.to_vec();
        for role in roles.iter_mut() {
            let Some(rule) = role.get("aggregationRule") else {
                continue;
            };
            let selectors = rule.items("clusterRoleSelectors").iter();
            let wanted: Vec<Json> = selectors
                .filter_map(|own| own.get("matchLabels").cloned())
                .collect();
            let mut rules: Vec<Json> = Vec::new();
            for other in before.iter().filter(|other| is_selected(other, &wanted)) {
                let new = other.items("rules").iter();
                for rule in new {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
            role.set("rules", Json::Array(rules));
        }
        if before == roles {
            return;
        }
    }
}

fn is_selected(role: &Json, selectors: &[Json]) -> bool {
    let labels = role
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"));
    let Some(labels) = labels else {
        return false;
    };
    selectors.iter().any(|wanted| {
        let mut wanted = wanted.fields().iter();
        wanted.all(|(name, value)| labels.get(name) == Some(value))
    })
}

#[cfg(test)]
mod tests {
    use super::super::server::Canned;
    use super::super::tree::Files;
    use super::*;

    const LEASE: &str = r#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":[
        {"metadata":{"name":"apiserver-abc","uid":"1","labels":{"kubernetes.io/hostname":"harbor"},
            "annotations":{"kubernetes.io/peer-advertise-address":"10.9.8.7:8443"}},
         "spec":{"holderIdentity":"apiserver-abc_1234","renewTime":"2026-01-02T03:04:05.000006Z"}}]}"#;
    const ENDPOINTS: &str = r#"{"kind":"EndpointsList","apiVersion":"v1","items":[
        {"metadata":{"name":"kubernetes","creationTimestamp":"2026-01-02T03:04:05Z"},
         "subsets":[{"addresses":[{"ip":"10.9.8.7"}],"ports":[{"port":8443}]}]}]}"#;

    /// A server with one object `x` of each resource of the file.
    fn server() -> Canned {
        let mut server = Canned::default().with("/apis", r#"{"groups":[]}"#).with(
            "/api/v1",
            r#"{"resources":[{"name":"pods","verbs":["list"]},{"name":"events","verbs":["list"]}]}"#,
        );
        for resource in RESOURCES {
            let path = match resource.strip_prefix('/') {
                Some(core) => format!("/api/{core}"),
                None => format!("/apis/{resource}"),
            };
            let list =
                r#"{"kind":"ThingList","apiVersion":"v1","items":[{"metadata":{"name":"x"}}]}"#;
            server = server.with(&path, list);
        }
        server
            .with("/api/v1/pods", r#"{"kind":"PodList","items":[]}"#)
            .with("/apis/coordination.k8s.io/v1/leases", LEASE)
            .with("/api/v1/endpoints", ENDPOINTS)
    }

    #[test]
    fn what_a_server_calls_itself_and_when_it_started_is_masked() {
        let server = server();
        let text = generate(&Inputs::of(&server, &Files::with(&[]))).unwrap();
        let lease = r#"@coordination.k8s.io/v1/leases
{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"apiserver-quvjjwpcwp2x54zk4buuejqstu","labels":{"kubernetes.io/hostname":"kubeproof"},"annotations":{"kubernetes.io/peer-advertise-address":"172.18.0.2:6443"}},"spec":{"holderIdentity":"apiserver-quvjjwpcwp2x54zk4buuejqstu_<uid>","renewTime":"<time>"}}
@"#;
        assert!(text.contains(lease), "{text}");
        let endpoints = r#"@/v1/endpoints
{"kind":"Endpoints","apiVersion":"v1","metadata":{"name":"kubernetes"},"subsets":[{"addresses":[{"ip":"172.18.0.2"}],"ports":[{"port":6443}]}]}
@"#;
        assert!(text.contains(endpoints), "{text}");
    }

    #[test]
    fn objects_of_other_resources_are_not_lost() {
        let pods = r#"{"kind":"PodList","items":[{"metadata":{"name":"p"}}]}"#;
        let server = server().with("/api/v1/pods", pods);
        let error = generate(&Inputs::of(&server, &Files::with(&[]))).unwrap_err();
        assert!(
            error.to_string().contains("1 objects of /v1/pods"),
            "{error}"
        );
    }

    #[test]
    fn a_server_without_endpoints_is_refused() {
        let server = server().with(
            "/api/v1/endpoints",
            r#"{"kind":"EndpointsList","items":[]}"#,
        );
        let error = generate(&Inputs::of(&server, &Files::with(&[]))).unwrap_err();
        assert!(error.to_string().contains("no /v1/endpoints"), "{error}");
    }

    #[test]
    fn aggregated_roles_have_the_rules_of_those_they_select() {
        let role = |name: &str, label: &str, rules: &str, selects: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","labels":{{"to":"{label}"}}}},"rules":{rules},
                "aggregationRule":{{"clusterRoleSelectors":[{{"matchLabels":{{"to":"{selects}"}}}}]}}}}"#
            );
            Json::parse(&text).unwrap()
        };
        let mut plain = role("c", "edit", r#"["read","write"]"#, "");
        plain.remove(&["aggregationRule"]);
        let mut more = role("d", "admin", r#"["write","own"]"#, "");
        more.remove(&["aggregationRule"]);
        let mut roles = [
            role("a", "", "null", "admin"),
            role("b", "admin", "null", "edit"),
            plain,
            more,
        ];
        aggregate(&mut roles);
        assert_eq!(roles[0].texts("rules"), ["read", "write", "own"]);
        assert_eq!(roles[1].texts("rules"), ["read", "write"]);
    }
}
