//! Namespaces.

use serde_json::{Value, json};

use super::{Context, Strategy};
use crate::meta::object::{child_mut, meta_mut, name};
use crate::meta::validation::NameRule;

/// The finalizer in `spec` that the namespace controller takes away.
const KUBERNETES: &str = "kubernetes";

#[derive(Debug)]
pub(super) struct Namespace;

impl Strategy for Namespace {
    fn name_rule(&self) -> NameRule {
        NameRule::DnsLabel
    }

    fn default(&self, namespace: &mut Value) {
        let own = name(namespace).to_owned();
        if !own.is_empty() {
            let labels = child_mut(&mut namespace["metadata"], "labels");
            labels.insert("kubernetes.io/metadata.name".to_owned(), own.into());
        }
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
        namespace["spec"]["finalizers"]
            .as_array()
            .is_some_and(|held| !held.is_empty())
    }

    fn prepare_for_termination(&self, namespace: &mut Value) {
        child_mut(namespace, "status").insert("phase".to_owned(), "Terminating".into());
        meta_mut(namespace).remove("deletionGracePeriodSeconds");
    }
}
