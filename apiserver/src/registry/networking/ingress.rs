//! Ingresses.

pub(crate) mod validation;

use serde_json::Value;

use crate::meta::GroupResource;
use crate::registry::{MetadataCheck, Strategy};
use crate::status::FieldErrors;

const CLASS: &str = "kubernetes.io/ingress.class";

#[derive(Debug)]
pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn storage_prefix(&self, _resource: &GroupResource) -> String {
        "ingress".to_owned()
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn validate(&self, ingress: &Value) -> FieldErrors {
        validation::validate_new(ingress)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::validate_changed(new, old)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        validation::validate_status(new)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = !new["metadata"]["annotations"][CLASS].is_null();
        let classed = !new["spec"]["ingressClassName"].is_null();
        if old.is_some() || !annotated || classed {
            return Vec::new();
        }
        let warning = format!(
            "annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"
        );
        vec![warning]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_annotation_is_warned_of_where_the_field_is_not_set() {
        let ingress =
            |spec: Value| json!({"metadata": {"annotations": {CLASS: "x"}}, "spec": spec});
        let warnings = |spec: Value| Ingress.warnings(&ingress(spec), None).len();
        assert_eq!(warnings(json!({})), 1);
        assert_eq!(warnings(json!({"ingressClassName": "x"})), 0);
    }
}
