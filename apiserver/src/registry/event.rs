//! Events of the core group.

use serde_json::Value;

use super::Strategy;
use super::checks::text;
use crate::meta::object::namespace;
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(super) struct Event;

impl Strategy for Event {
    fn allows_create_on_update(&self) -> bool {
        true
    }

    /// An event stands in the namespace of what it is about, or in `default` if that has none.
    fn validate(&self, event: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let about = &event["involvedObject"];
        let group = text(&event["apiVersion"]).starts_with("events.k8s.io/");
        let own = namespace(event);
        let other = text(&about["namespace"]);
        let matches = if other.is_empty() {
            own == "default"
        } else {
            other == own
        };
        if !group && !matches {
            let path = FieldPath::new("involvedObject.namespace");
            errors.invalid(&path, &other.into(), "does not match event.namespace");
        }
        errors
    }
}
