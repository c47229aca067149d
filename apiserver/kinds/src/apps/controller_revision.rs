//! ControllerRevisions.

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::status::{FieldErrors, FieldPath};
use crate::{MetadataCheck, Strategy};

#[derive(Debug)]
pub(crate) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn validate(&self, revision: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if revision["revision"]
            .as_i64()
            .is_some_and(|number| number < 0)
        {
            let detail = "must be greater than or equal to 0";
            errors.invalid(&FieldPath::new("revision"), &revision["revision"], detail);
        }
        if revision["data"].is_null() {
            errors.required(&FieldPath::new("data"), "data is mandatory");
        } else if !revision["data"].is_object() {
            let detail = "data must be a valid JSON object";
            errors.required(&FieldPath::new("data"), detail);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        if new["data"] != old["data"] {
            errors.invalid(&FieldPath::new("data"), &new["data"], "field is immutable");
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut owners = view.items("/metadata/ownerReferences");
        let controller = owners.find(|owner| owner.bool("/controller")).map(|owner| {
            let group = owner
                .str("/apiVersion")
                .split_once('/')
                .map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            let kind = owner.str("/kind").to_lowercase();
            format!("{kind}{dot}{group}/{}", owner.str("/name"))
        });
        Some(vec![
            view.name(),
            json!(controller.unwrap_or_else(|| "<none>".to_owned())),
            json!(view.int("/revision")),
            view.age(),
        ])
    }
}
