//! Namespaces.

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, is_terminating, meta_mut, name};
use crate::meta::validation::{NameRule, validate_finalizer_name};
use crate::rest::SubresourceRest;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::default_text;
use crate::{Context, MetadataCheck, Strategy};

/// The finalizer in `spec` that the namespace controller takes away.
const KUBERNETES: &str = "kubernetes";

/// The strategy of Namespaces.
#[derive(Debug)]
pub struct Namespace;

impl Strategy for Namespace {
    fn deletes_in_two_steps(&self) -> bool {
        true
    }

    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        match name {
            "status" => Some(SubresourceRest::Status),
            "finalize" => Some(SubresourceRest::Finalize(validate_finalize)),
            _ => None,
        }
    }

    fn has_table(&self, subresource: &str) -> bool {
        subresource != "finalize"
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsLabel
    }

    fn default(&self, namespace: &mut Value) {
        default_text(child_mut(namespace, "status"), "phase", "Active");
        let own = name(namespace).to_owned();
        if !own.is_empty() {
            let labels = child_mut(&mut namespace["metadata"], "labels");
            labels.insert("kubernetes.io/metadata.name", own.into());
        }
    }

    /// A generated name is not known when defaults are set.
    fn canonicalize(&self, namespace: &mut Value) {
        self.default(namespace);
    }

    fn validate(&self, namespace: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for finalizer in finalizers(namespace) {
            let path = FieldPath::new("spec.finalizers");
            validate_finalizer_name(finalizer, &path, &mut errors);
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (phase, detail) = match is_terminating(new) {
            false => (
                "Active",
                "may only be 'Active' if `deletionTimestamp` is empty",
            ),
            true => (
                "Terminating",
                "may only be 'Terminating' if `deletionTimestamp` is not empty",
            ),
        };
        let own = new["status"]["phase"].as_str().unwrap_or_default();
        if own != phase {
            errors.invalid(&FieldPath::new("status.Phase"), &own.into(), detail);
        }
        errors
    }

    fn prepare_for_create(&self, namespace: &mut Value, _context: Context<'_>) {
        let spec = child_mut(namespace, "spec");
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|own| own == KUBERNETES)
        {
            finalizers.push(KUBERNETES.into());
        }
        namespace["status"] = json!({ "phase": "Active" });
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        crate::meta::object::copy_field(&mut new["spec"], &old["spec"], "finalizers");
    }

    fn is_held(&self, namespace: &Value) -> bool {
        finalizers(namespace).next().is_some()
    }

    fn prepare_for_termination(&self, namespace: &mut Value) {
        child_mut(namespace, "status").insert("phase", "Terminating".into());
        meta_mut(namespace).remove("deletionGracePeriodSeconds");
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.str("/status/phase")),
            view.age(),
        ])
    }
}

/// Returns the finalizers in a namespace's spec.
fn finalizers(namespace: &Value) -> impl Iterator<Item = &str> {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    finalizers.into_iter().flatten().filter_map(Value::as_str)
}

/// Faults of a namespace after `/finalize`.
fn validate_finalize(namespace: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (index, finalizer) in finalizers(namespace).enumerate() {
        let path = FieldPath::new("spec.finalizers").index(index);
        validate_finalizer_name(finalizer, &path, &mut errors);
    }
    errors
}
