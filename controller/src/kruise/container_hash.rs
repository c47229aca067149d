//! Hashes of containers and of claim templates, as Go computes them over a dump of their JSON.
//!
//! Source: openkruise/kruise pkg/util/containermeta and pkg/util/volumeclaimtemplate, with
//! `DeepHashObject` of Kubernetes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim};
use kube::ResourceExt;
use kubeproof_runtime::decode;
use kubeproof_runtime::pod::Pod;
use serde_json::{Value, json};

use crate::workload::history::go_json;

/// Variables that the injection of sidecars changes.
const EXCLUDED_VARIABLES: [&str; 2] = ["SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"];

/// The part of a pod's metadata from which a variable is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetadataField {
    Labels,
    Annotations,
}

/// For each variable of `container` that is read from a label or an annotation: its name, the field,
/// and the key.
pub(crate) fn metadata_variables(
    container: &Container,
) -> impl Iterator<Item = (&str, MetadataField, &str)> {
    let variables = container.env.iter().flatten();
    variables.filter_map(|variable| {
        if variable
            .value
            .as_deref()
            .is_some_and(|value| !value.is_empty())
            || EXCLUDED_VARIABLES.contains(&variable.name.as_str())
        {
            return None;
        }
        let path = &variable.value_from.as_ref()?.field_ref.as_ref()?.field_path;
        let (field, key) = path.strip_suffix("']")?.split_once("['")?;
        let field = match field {
            "metadata.labels" => MetadataField::Labels,
            "metadata.annotations" => MetadataField::Annotations,
            _ => return None,
        };
        Some((variable.name.as_str(), field, key))
    })
}

/// The hash of what the variables of `container` are when they are read from the metadata of `pod`.
#[must_use]
pub(crate) fn of_metadata_variables(container: &Container, pod: &Pod) -> u32 {
    of_variables(container, |_, field, key| {
        let map: &BTreeMap<String, String> = match field {
            MetadataField::Labels => pod.labels(),
            MetadataField::Annotations => pod.annotations(),
        };
        map.get(key).map(String::as_str)
    })
}

/// Hashes the values of these variables as of the start of the container; `started` has them by
/// name.
#[must_use]
pub(crate) fn of_started_variables(
    container: &Container,
    started: &BTreeMap<String, String>,
) -> u32 {
    of_variables(container, |name, _, _| {
        started.get(name).map(String::as_str)
    })
}

fn of_variables<'a>(
    container: &'a Container,
    value: impl Fn(&str, MetadataField, &'a str) -> Option<&'a str>,
) -> u32 {
    let mut variables: Vec<Value> = metadata_variables(container)
        .map(
            |(name, field, key)| match value(name, field, key).filter(|value| !value.is_empty()) {
                Some(value) => json!({"name": name, "value": value}),
                None => json!({"name": name}),
            },
        )
        .collect();
    variables.sort_by_key(|variable| variable["name"].to_string());
    let list = match variables.is_empty() {
        // A nil slice of Go.
        true => Value::Null,
        false => Value::Array(variables),
    };
    deep_hash(&go_json(&list))
}

/// The hash by which a kubelet detects that a container has to restart.
#[must_use]
pub(crate) fn plain(container: &Container) -> u32 {
    let picked = json!({"image": container.image, "name": container.name});
    deep_hash(&go_json(&picked))
}

/// The hash of claim templates: of their names and specs, whatever their order.
#[must_use]
pub(crate) fn of_claim_templates(templates: &[PersistentVolumeClaim]) -> u32 {
    let mut sorted: Vec<&PersistentVolumeClaim> = templates.iter().collect();
    sorted.sort_by_key(|template| template.name_any());
    let claims: Vec<String> = sorted
        .into_iter()
        .map(|template| {
            // Fields in the order of Go's struct, which is not that of the alphabet.
            let mut spec = json!({});
            if let Some(stated) = &template.spec {
                spec = decode::to_value(stated).expect("a claim's spec is JSON");
            }
            let spec = in_order(
                &spec,
                &[
                    "accessModes",
                    "selector",
                    "resources",
                    "volumeName",
                    "storageClassName",
                    "volumeMode",
                    "dataSource",
                    "dataSourceRef",
                    "volumeAttributesClassName",
                ],
            );
            format!(
                r#"{{"metadata":{{"name":{},"creationTimestamp":null}},"spec":{spec},"status":{{}}}}"#,
                Value::from(template.name_any())
            )
        })
        .collect();
    match claims.is_empty() {
        true => deep_hash("null"),
        false => deep_hash(&format!("[{}]", claims.join(","))),
    }
}

/// The fields of `object` that are there, in this order.
fn in_order(object: &Value, fields: &[&str]) -> String {
    let present = fields.iter().filter_map(|field| {
        let value = object.get(*field)?;
        // Limits come before requests in both orders.
        Some(format!("{}:{}", Value::from(*field), go_json(value)))
    });
    format!("{{{}}}", present.collect::<Vec<_>>().join(","))
}

/// 32-bit FNV-1a of how Go's spew prints the bytes of `json`.
fn deep_hash(json: &str) -> u32 {
    let bytes: Vec<String> = json.bytes().map(|byte| byte.to_string()).collect();
    let printed = format!("([]uint8)[{}]", bytes.join(" "));
    printed.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn template(name: &str, limit: &str, request: &str) -> PersistentVolumeClaim {
        from_value(json!({
            "metadata": {"name": name, "labels": {"not": "hashed"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources":
                {"limits": {"storage": limit}, "requests": {"storage": request}}},
        }))
        .unwrap()
    }

    /// Vectors of `volume_templates_hash_test.go`.
    #[test]
    fn claim_templates_hash_as_upstream_has_it() {
        let (one, two) = (
            template("pvc-1", "2Gi", "1Gi"),
            template("pvc-2", "4Gi", "2Gi"),
        );
        assert_eq!(of_claim_templates(&[]), 86_995_377);
        assert_eq!(
            of_claim_templates(std::slice::from_ref(&one)),
            1_129_974_074
        );
        assert_eq!(of_claim_templates(&[one.clone(), two.clone()]), 510_584_408);
        assert_eq!(of_claim_templates(&[two, one]), 510_584_408);
    }

    #[test]
    fn only_variables_from_metadata_count() {
        let container: Container = from_value(json!({"name": "c", "image": "i", "env": [
            {"name": "PLAIN", "value": "x"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['l']"}}},
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}}},
        ]}))
        .unwrap();
        let found: Vec<_> = metadata_variables(&container).collect();
        assert_eq!(
            found,
            [
                ("L", MetadataField::Labels, "l"),
                ("A", MetadataField::Annotations, "a")
            ]
        );
        let pod = |label: &str| -> Pod {
            from_value(json!({"metadata": {"labels": {"l": label, "o": "x"}}})).unwrap()
        };
        let hash = |label| of_metadata_variables(&container, &pod(label));
        assert_eq!(hash("1"), hash("1"));
        assert_ne!(hash("1"), hash("2"));
    }
}
