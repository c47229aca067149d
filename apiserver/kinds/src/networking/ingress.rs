//! Ingresses.

pub mod validation;

use crate::columns::Printable;
use crate::core::service::load_balancer;
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::status::FieldErrors;
use crate::{MetadataCheck, Strategy};

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

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(
                view.scalar("/spec/ingressClassName")
                    .unwrap_or_else(|| "<none>".to_owned())
            ),
            json!(hosts(view)),
            json!(load_balancer(view)),
            json!(if view.len("/spec/tls") > 0 {
                "80, 443"
            } else {
                "80"
            }),
            view.age(),
        ])
    }
}

/// The first three hosts, and how many rules there are beyond three, with a host or without.
fn hosts(view: Printable<'_>) -> String {
    const SHOWN: usize = 3;
    let mut hosts: Vec<&str> = Vec::new();
    let mut is_cut = false;
    for rule in view.items("/spec/rules") {
        is_cut |= hosts.len() == SHOWN;
        let host = rule.str("/host");
        if !is_cut && !host.is_empty() {
            hosts.push(host);
        }
    }
    match hosts.join(",") {
        shown if shown.is_empty() => "*".to_owned(),
        shown if is_cut => format!("{shown} + {} more...", view.len("/spec/rules") - SHOWN),
        shown => shown,
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

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
