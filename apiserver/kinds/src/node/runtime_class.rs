//! RuntimeClasses.

use crate::columns::Printable;
use crate::core::node::deprecated_labels;
use crate::core::pod::container::validate_resources;
use crate::core::pod::placement::validate_tolerations;
use crate::go_struct::shown;
use crate::json::{Value, json};
use crate::meta::validation::{dns1123_label, validate_immutable, validate_labels};
use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::unstructured::{entries, items, text};
use crate::validation::invalid_each;
use crate::{MetadataCheck, Strategy};

/// The strategy of RuntimeClasses.
#[derive(Debug)]
pub struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn validates_finalizers(&self) -> bool {
        false
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn validate(&self, class: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("handler");
        let handler = text(&class["handler"]);
        if handler.is_empty() {
            errors.required(&path, "");
        } else {
            invalid_each(dns1123_label(handler), &handler.into(), &path, &mut errors);
        }
        if !class["overhead"]["podFixed"].is_null() {
            let limits = json!({ "limits": class["overhead"]["podFixed"] });
            validate_resources(&limits, &FieldPath::new("overhead"), &mut errors);
        }
        let path = FieldPath::new("scheduling.nodeSelector");
        validate_labels(class["scheduling"].get("nodeSelector"), &path, &mut errors);
        let path = FieldPath::new("scheduling.tolerations");
        let tolerations = &class["scheduling"]["tolerations"];
        validate_tolerations(tolerations, &path, &mut errors);
        let mut seen = Vec::new();
        for (index, own) in items(tolerations).enumerate() {
            let key = ["key", "operator", "value", "effect"].map(|field| text(&own[field]));
            if seen.contains(&key) {
                let message = format!("Duplicate value: {}", shown("Toleration", own));
                errors.push(CauseReason::Duplicate, &path.index(index), message);
            }
            seen.push(key);
        }
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (key, _) in entries(&new["scheduling"]["nodeSelector"]) {
            if let Some(why) = deprecated_labels::deprecation(key) {
                warnings.push(format!("scheduling.nodeSelector: {why}"));
            }
        }
        warnings
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let path = FieldPath::new("handler");
        validate_immutable(&new["handler"], &old["handler"], &path, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![view.name(), json!(view.str("/handler")), view.age()])
    }
}
