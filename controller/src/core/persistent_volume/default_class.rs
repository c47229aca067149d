//! Claims that name no storage class: they get the default one as soon as there is one.
//!
//! Source: `pkg/controller/volume/persistentvolume/pv_controller.go` (`assignDefaultStorageClass`), `pkg/volume/util/storageclass.go`
//! (`GetDefaultClass`).

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;

/// The annotation of a claim that names its class as well.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotations of a class that make it the default.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Returns whether a claim names no class, not even the empty one.
pub(super) fn is_unnamed(claim: &PersistentVolumeClaim) -> bool {
    let spec = claim.spec.as_ref();
    let annotations = claim.metadata.annotations.as_ref();
    spec.is_none_or(|spec| spec.storage_class_name.is_none())
        && annotations.is_none_or(|annotations| !annotations.contains_key(BETA_CLASS))
}

/// Returns whether a class is the default, or one of several.
pub(super) fn is_default(class: &StorageClass) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| {
        let values = IS_DEFAULT.iter().map(|key| annotations.get(*key));
        values.flatten().any(|value| value == "true")
    })
}

/// Returns the name of the default class: of several the newest, and of equally old ones the first by name.
pub(super) fn default_class<'c>(
    classes: impl Iterator<Item = &'c StorageClass>,
) -> Option<&'c str> {
    let newest = classes
        .filter(|class| is_default(class))
        .min_by_key(|class| {
            let created = class.metadata.creation_timestamp.as_ref();
            let created = created.map(|created| created.0);
            (Reverse(created), class.metadata.name.as_deref())
        });
    newest?.metadata.name.as_deref()
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_newest_default_is_the_one() {
        let class = |name: &str, day: u8, key: &str, value: &str| -> StorageClass {
            let created = format!("2026-01-0{day}T00:00:00Z");
            let metadata = json!({ "name": name, "creationTimestamp": created, "annotations": { key: value } });
            from_value(json!({ "metadata": metadata, "provisioner": "p" })).unwrap()
        };
        let [ga, beta] = IS_DEFAULT;
        let classes = [
            class("a", 1, ga, "true"),
            class("c", 2, ga, "true"),
            class("b", 2, beta, "true"),
            class("d", 3, ga, "false"),
        ];
        assert_eq!(default_class(classes.iter()), Some("b"));
        assert_eq!(default_class(classes[..1].iter()), Some("a"));
        assert_eq!(default_class(classes[3..].iter()), None);
    }

    #[test]
    fn the_empty_class_is_a_name() {
        let claim = |spec: Value, annotations: Value| {
            let claim = json!({ "metadata": { "annotations": annotations }, "spec": spec });
            is_unnamed(&from_value(claim).unwrap())
        };
        assert!(claim(json!({}), json!({})));
        assert!(!claim(json!({ "storageClassName": "" }), json!({})));
        assert!(!claim(json!({}), json!({ BETA_CLASS: "" })));
    }
}
