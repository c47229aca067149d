//! What to warn of in the spec of a pod or of a pod template.

use std::collections::BTreeMap;

use serde_json::Value;

use super::checks::{entries, items, text};
use crate::schema::quantity::Quantity;
use crate::status::FieldPath;

/// Sources of volumes that nothing mounts any more.
pub(super) const GONE_SOURCES: [(&str, &str); 9] = [
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Nothing of a valid spec is refused for these.
pub(super) fn warn_of_pod_spec(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (key, _) in entries(&spec["nodeSelector"]) {
        if let Some(instead) = renamed_label(key) {
            let path = path.child("nodeSelector").key(key);
            warnings.push(format!("{path}: {instead}"));
        }
    }
    let mut names = BTreeMap::new();
    for (index, secret) in items(&spec["imagePullSecrets"]).enumerate() {
        let path = path.child("imagePullSecrets").index(index);
        let name = text(&secret["name"]);
        if name.is_empty() {
            warnings.push(format!("{path}: invalid empty name {name:?}"));
        } else if names.insert(name, index).is_some() {
            warnings.push(format!("{path}: duplicate name {name:?}"));
        }
    }
    warn_of_volumes(&spec["volumes"], &path.child("volumes"), warnings);
    for list in ["initContainers", "containers"] {
        for (index, container) in items(&spec[list]).enumerate() {
            warn_of_container(container, &path.child(list).index(index), warnings);
        }
    }
}

fn renamed_label(key: &str) -> Option<String> {
    let (since, instead) = match key {
        "beta.kubernetes.io/arch" => ("v1.14", "kubernetes.io/arch"),
        "beta.kubernetes.io/os" => ("v1.14", "kubernetes.io/os"),
        "failure-domain.beta.kubernetes.io/region" => ("v1.17", "topology.kubernetes.io/region"),
        "failure-domain.beta.kubernetes.io/zone" => ("v1.17", "topology.kubernetes.io/zone"),
        "beta.kubernetes.io/instance-type" => ("v1.17", "node.kubernetes.io/instance-type"),
        _ => return None,
    };
    Some(format!("deprecated since {since}; use {instead:?} instead"))
}

fn warn_of_container(container: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for half in ["limits", "requests"] {
        for resource in ["memory", "ephemeral-storage"] {
            let own = &container["resources"][half][resource];
            let amount = own.as_str().and_then(|own| Quantity::parse(own).ok());
            if amount.is_some_and(|own| own.to_i64().is_none()) {
                let path = path.child("resources").child(half).key(resource);
                let own = text(own);
                warnings.push(format!(
                    "{path}: fractional byte value {own:?} is invalid, must be an integer"
                ));
            }
        }
    }
    let mut names = BTreeMap::new();
    for (index, variable) in items(&container["env"]).enumerate() {
        let name = text(&variable["name"]);
        if names.insert(name, index).is_some() {
            let path = path.child("env").index(index);
            warnings.push(format!("{path}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
}

fn warn_of_volumes(volumes: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (index, volume) in items(volumes).enumerate() {
        let path = path.index(index);
        for (source, why) in GONE_SOURCES {
            if !volume[source].is_null() {
                warnings.push(format!("{}: {why}", path.child(source)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_deprecated_or_odd_is_warned_of() {
        let spec = json!({
            "nodeSelector": {"beta.kubernetes.io/os": "linux"},
            "volumes": [{"name": "v", "rbd": {}}],
            "containers": [{"env": [{"name": "A"}, {"name": "A"}],
                "resources": {"requests": {"memory": "100500m"}}}],
        });
        let mut warnings = Vec::new();
        warn_of_pod_spec(&spec, &FieldPath::new("spec"), &mut warnings);
        let want = [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
            "spec.containers[0].resources.requests[memory]: fractional byte value \"100500m\" is invalid, must be an integer",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        ];
        assert_eq!(warnings, want);
    }
}
