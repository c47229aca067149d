//! The secrets that pods refer to, and whether their service accounts allow it.

use crate::json::Value;
use crate::meta::object::name;

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// The paths at which volumes name secrets.
const SECRETS_OF_VOLUMES: [&str; 9] = [
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/flexVolume/secretRef/name",
    "/rbd/secretRef/name",
    "/secret/secretName",
    "/scaleIO/secretRef/name",
    "/iscsi/secretRef/name",
    "/storageos/secretRef/name",
    "/csi/nodePublishSecretRef/name",
];

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The first secret of a pod that its account should list and does not, as a fault.
pub(super) fn secret_fault(account: &Value, spec: &Value) -> Option<String> {
    let is_enforced = &account["metadata"]["annotations"][ENFORCE];
    if !["1", "t", "T", "true", "TRUE", "True"].contains(&is_enforced.as_str()?) {
        return None;
    }
    let listed = |field: &str, own: &Value| items(&account[field]).any(|o| o["name"] == *own);
    let rest = format!(
        "is not allowed because service account {} does not reference that",
        name(account)
    );
    let text = |own: &Value| own.as_str().unwrap_or_default().to_owned();
    for volume in items(&spec["volumes"]) {
        let own = &volume["secret"]["secretName"];
        if !volume["secret"].is_null() && !listed("secrets", own) {
            let own = text(own);
            return Some(format!(
                "volume with secret.secretName=\"{own}\" {rest} secret"
            ));
        }
    }
    for (list, kind) in [
        ("initContainers", "init container"),
        ("containers", "container"),
    ] {
        for container in items(&spec[list]) {
            for (at, own) in secrets_of_container(container) {
                if !listed("secrets", own) {
                    let (container, own) = (text(&container["name"]), text(own));
                    return Some(format!(
                        "{kind} {container} with {at} referencing secret.secretName=\"{own}\" {rest} secret"
                    ));
                }
            }
        }
    }
    for (index, own) in items(&spec["imagePullSecrets"]).enumerate() {
        if !listed("imagePullSecrets", &own["name"]) {
            let own = text(&own["name"]);
            return Some(format!(
                "imagePullSecrets[{index}].name=\"{own}\" {rest} imagePullSecret"
            ));
        }
    }
    None
}

/// The secrets in a container's environment, each after the path of its reference.
fn secrets_of_container(container: &Value) -> Vec<(String, &Value)> {
    let of_variables = items(&container["env"]).filter_map(|variable| {
        let own = variable["valueFrom"]["secretKeyRef"].get("name")?;
        let name = variable["name"].as_str().unwrap_or_default();
        Some((format!("envVar {name}"), own))
    });
    let of_sources = items(&container["envFrom"])
        .filter_map(|source| Some(("envFrom".to_owned(), source["secretRef"].get("name")?)));
    of_variables.chain(of_sources).collect()
}

/// Whether a pod names any secret.
pub(super) fn refers_to_secrets(spec: &Value) -> bool {
    let mut volumes = items(&spec["volumes"]);
    let in_volume = |volume: &Value| {
        SECRETS_OF_VOLUMES
            .iter()
            .any(|place| volume.pointer(place).is_some_and(Value::is_string))
            || items(&volume["projected"]["sources"]).any(|source| !source["secret"].is_null())
    };
    let mut containers = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| items(&spec[list]));
    items(&spec["imagePullSecrets"]).next().is_some()
        || containers.any(|container| !secrets_of_container(container).is_empty())
        || volumes.any(in_volume)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn an_account_lists_the_secrets_of_its_pods() {
        let rest = "is not allowed because service account a does not reference that";
        let of = |name: &str| json!({"secretKeyRef": {"name": name, "key": "k"}});
        let table = [
            (json!({}), None),
            (
                json!({
                    "volumes": [{"secret": {"secretName": "s"}}, {"configMap": {}}],
                    "containers": [{"env": [{"name": "E", "valueFrom": of("s")}]}],
                    "imagePullSecrets": [{"name": "p"}],
                }),
                None,
            ),
            (
                json!({"volumes": [{"secret": {"secretName": "x"}}]}),
                Some(format!("volume with secret.secretName=\"x\" {rest} secret")),
            ),
            (
                json!({"initContainers": [{"name": "c", "env": [{"name": "E", "valueFrom": of("x")}]}]}),
                Some(format!(
                    "init container c with envVar E referencing secret.secretName=\"x\" {rest} secret"
                )),
            ),
            (
                json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
                Some(format!(
                    "container c with envFrom referencing secret.secretName=\"x\" {rest} secret"
                )),
            ),
            (
                json!({"imagePullSecrets": [{"name": "s"}]}),
                Some(format!(
                    "imagePullSecrets[0].name=\"s\" {rest} imagePullSecret"
                )),
            ),
        ];
        let account = |is_enforced: &str| {
            json!({
                "metadata": {"name": "a", "annotations": {ENFORCE: is_enforced}},
                "secrets": [{"name": "s"}],
                "imagePullSecrets": [{"name": "p"}],
            })
        };
        for (spec, fault) in table {
            assert_eq!(secret_fault(&account("true"), &spec), fault, "{spec}");
            assert_eq!(secret_fault(&account("no"), &spec), None, "{spec}");
        }
    }

    #[test]
    fn pods_name_secrets_in_many_places() {
        let table = [
            (json!({"volumes": [{"csi": {"driver": "d"}}]}), false),
            (
                json!({"volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}]}),
                true,
            ),
            (
                json!({"volumes": [{"projected": {"sources": [{"secret": {}}]}}]}),
                true,
            ),
            (
                json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
                true,
            ),
            (json!({"imagePullSecrets": [{"name": "s"}]}), true),
        ];
        for (spec, is_so) in table {
            assert_eq!(refers_to_secrets(&spec), is_so, "{spec}");
        }
    }
}
