//! CustomResourceDefinitions. `apiextensions` serves the resources that they declare.

pub mod approval;
pub mod conditions;
pub mod finalizer;
mod formats;
mod validation;

use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, default};
use crate::status::FieldErrors;
use crate::{Context, Strategy};

pub use validation::webhook_client::validate as validate_webhook_client;

/// The API group of definitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// The resource of definitions.
pub const PLURAL: &str = "customresourcedefinitions";

/// The strategy of `customresourcedefinitions`.
#[derive(Debug)]
pub struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validates_finalizers(&self) -> bool {
        false
    }

    fn storage_prefix(&self, resource: &GroupResource) -> String {
        format!("{}/{}", resource.group, resource.resource)
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, definition: &mut Value) {
        default_spec(definition);
        if is_empty(&definition["status"]["storedVersions"])
            && let Some(stored) = storage_version(definition)
        {
            let stored = json!([stored]);
            child_mut(definition, "status").insert("storedVersions", stored);
        }
    }

    fn prepare_for_create(&self, definition: &mut Value, _context: Context<'_>) {
        add_stored_version(definition);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value, _context: Context<'_>) {
        add_stored_version(new);
    }

    fn validate(&self, definition: &Value) -> FieldErrors {
        validation::create(definition)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::update(new, old)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        validation::status_update(new)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        formats::warnings(new, old)
    }

    fn begin_deletion(&self, definition: &Value, now: &str) -> Option<Value> {
        Some(finalizer::begin(definition, now))
    }
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

fn default_spec(definition: &mut Value) {
    let spec = child_mut(definition, "spec");
    if !spec.contains_key("conversion") {
        spec.insert("conversion", json!({ "strategy": "None" }));
    }
    if let Some(service) = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut)
    {
        default(service, "port", 443);
    }
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if kind.is_empty() {
        return;
    }
    let (singular, list_kind) = (kind.to_lowercase(), format!("{kind}List"));
    default(names, "singular", singular);
    default(names, "listKind", list_kind);
}

/// The version that objects are stored in.
fn storage_version(definition: &Value) -> Option<&str> {
    let mut versions = definition["spec"]["versions"].as_array()?.iter();
    versions.find(|version| version["storage"] == true)?["name"].as_str()
}

/// Objects may have been stored in the storage version from now on.
fn add_stored_version(definition: &mut Value) {
    let Some(storage) = storage_version(definition).map(str::to_owned) else {
        return;
    };
    let status = child_mut(definition, "status");
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(stored) = stored.as_array_mut()
        && !stored.iter().any(|version| *version == *storage)
    {
        stored.push(storage.into());
    }
}
