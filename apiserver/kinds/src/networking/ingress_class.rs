//! IngressClasses.

use super::ingress::validation::validate_reference;
use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default};
use crate::meta::validation::{dns1123_label, validate_domain_prefixed_path, validate_immutable};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::text;
use crate::validation::{invalid_each, one_of};
use crate::{MetadataCheck, Strategy};

const DEFAULT_ANNOTATION: &str =
    "/metadata/annotations/ingressclass.kubernetes.io~1is-default-class";
const CONTROLLER_BYTES_MAX: usize = 250;

#[derive(Debug)]
pub(crate) struct IngressClass;

impl Strategy for IngressClass {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, class: &mut Value) {
        let spec = child_mut(class, "spec");
        if let Some(parameters) = spec.get_mut("parameters").and_then(Value::as_object_mut) {
            default(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &class["spec"];
        let controller = path.child("controller");
        if text(&spec["controller"]).len() > CONTROLLER_BYTES_MAX {
            errors.too_long(&controller, CONTROLLER_BYTES_MAX);
        }
        validate_domain_prefixed_path(text(&spec["controller"]), &controller, &mut errors);
        let parameters = &spec["parameters"];
        if parameters.is_null() {
            return errors;
        }
        let path = path.child("parameters");
        validate_reference(parameters, &path, &mut errors);
        let scope = text(&parameters["scope"]);
        let scopes = ["Cluster", "Namespace"];
        one_of(
            &parameters["scope"],
            &path.child("scope"),
            &scopes,
            &mut errors,
        );
        let path = path.child("namespace");
        let namespaced = !parameters["namespace"].is_null();
        if scope == "Namespace" && !namespaced {
            errors.required(&path, "`parameters.scope` is set to 'Namespace'");
        } else if scope == "Cluster" && namespaced {
            errors.forbidden(&path, "`parameters.scope` is set to 'Cluster'");
        } else if scope == "Namespace" {
            let own = &parameters["namespace"];
            invalid_each(dns1123_label(text(own)), own, &path, &mut errors);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let controller = |class: &Value| text(&class["spec"]["controller"]).into();
        let path = FieldPath::new("spec.controller");
        validate_immutable(&controller(new), &controller(old), &path, &mut errors);
        errors.extend(self.validate(new));
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let of = |parameters: Printable<'_>| {
            let group = parameters.scalar("/apiGroup");
            let group = group.map_or_else(String::new, |group| format!(".{group}"));
            format!(
                "{}{group}/{}",
                parameters.str("/kind"),
                parameters.str("/name")
            )
        };
        let parameters = view.at("/spec/parameters");
        let parameters = parameters.map_or_else(|| "<none>".to_owned(), of);
        let is_default = view.str(DEFAULT_ANNOTATION) == "true";
        let mark = if is_default { " (default)" } else { "" };
        Some(vec![
            json!(format!("{}{mark}", view.str("/metadata/name"))),
            json!(view.str("/spec/controller")),
            json!(parameters),
            view.age(),
        ])
    }
}
