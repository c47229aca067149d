//! Events: one resource in two shapes, that of the core group, which is stored, and that of
//! `events.k8s.io`, which renames half of the fields.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Strategy;
use crate::meta::GroupVersionResource;
use crate::meta::object::{child_mut, meta};
use crate::meta::validation::qualified_name;
use crate::status::{FieldErrors, FieldPath};

/// The group whose events are stored as those of the core group.
pub(crate) const GROUP: &str = "events.k8s.io";

/// The names of a field, in the core group and in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Bytes that the short texts of an event may have, and its message.
const SHORT_BYTES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Event;

impl Strategy for Event {
    fn is_garbage_collected(&self) -> bool {
        false
    }

    fn validate(&self, event: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let is_new = event["apiVersion"] != "v1";
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let namespace = meta(event, "namespace");
        let about = if is_new {
            "regarding"
        } else {
            "involvedObject"
        };
        let about = event[about]["namespace"].as_str().unwrap_or_default();
        let timed = !event["eventTime"].is_null();
        let strange = match (about, timed) {
            ("", true) => !matches!(namespace, "default" | "kube-system"),
            ("", false) => namespace != "default",
            (about, false) => about != namespace,
            (_, true) => false,
        };
        if strange {
            let path = FieldPath::new("involvedObject.namespace");
            errors.invalid(&path, &about.into(), "does not match event.namespace");
        }
        if timed {
            let reporter = match is_new {
                true => "reportingController",
                false => "reportingComponent",
            };
            if text(reporter).is_empty() {
                errors.required(&FieldPath::new(reporter), "");
            }
            for fault in qualified_name(text(reporter)) {
                errors.invalid(&FieldPath::new(reporter), &text(reporter).into(), &fault);
            }
            for field in ["reportingInstance", "action", "reason"] {
                if text(field).is_empty() {
                    errors.required(&FieldPath::new(field), "");
                }
                too_long(field, text(field), SHORT_BYTES_MAX, &mut errors);
            }
            let message = text(if is_new { "note" } else { "message" });
            too_long("message", message, MESSAGE_BYTES_MAX, &mut errors);
        } else if is_new {
            errors.required(&FieldPath::new("eventTime"), "");
        }
        if is_new && !matches!(text("type"), "Normal" | "Warning") {
            let detail = format!("has invalid value: {}", text("type"));
            errors.invalid(&FieldPath::new("type"), &"".into(), &detail);
        }
        errors
    }
}

fn too_long(field: &str, text: &str, max: usize, errors: &mut FieldErrors) {
    if text.len() > max {
        let detail = format!("can have at most {max} characters");
        errors.invalid(&FieldPath::new(field), &"".into(), &detail);
    }
}

/// A stored object as requests for `gvr` see it.
pub(crate) fn shown<'a>(gvr: &GroupVersionResource, stored: &'a Value) -> Cow<'a, Value> {
    if gvr.group != GROUP {
        return Cow::Borrowed(stored);
    }
    let mut event = stored.clone();
    let fields = child_fields(&mut event);
    for (core, own) in RENAMED {
        if let Some(value) = fields.remove(core) {
            fields.insert(own.to_owned(), value);
        }
    }
    // Where the core group writes an empty text, this one leaves it out.
    for field in ["reportingController", "reportingInstance"] {
        if fields.get(field).is_some_and(|text| text == "") {
            fields.remove(field);
        }
    }
    event["apiVersion"] = format!("{GROUP}/v1").into();
    Cow::Owned(event)
}

/// An object of `gvr` as it is stored.
pub(crate) fn stored(gvr: &GroupVersionResource, mut object: Value) -> Value {
    if gvr.group != GROUP {
        return object;
    }
    let fields = child_fields(&mut object);
    for (core, own) in RENAMED {
        if let Some(value) = fields.remove(own) {
            fields.insert(core.to_owned(), value);
        }
    }
    for (field, empty) in [
        ("involvedObject", json!({})),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        fields.entry(field).or_insert(empty);
    }
    object["apiVersion"] = "v1".into();
    object
}

fn child_fields(object: &mut Value) -> &mut serde_json::Map<String, Value> {
    child_mut(object, "metadata");
    object.as_object_mut().expect("an event is an object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_the_way_through_storage() {
        let gvr = GroupVersionResource {
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: "events".to_owned(),
        };
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "note": "text", "regarding": {"kind": "Pod"}, "reportingController": "x.io/c",
            "deprecatedCount": 3, "deprecatedSource": {}, "reason": "R",
        });
        let core = stored(&gvr, event.clone());
        assert_eq!(
            (&core["apiVersion"], &core["message"]),
            (&json!("v1"), &json!("text"))
        );
        assert_eq!(
            (&core["count"], &core["reportingInstance"]),
            (&json!(3), &json!(""))
        );
        assert_eq!(*shown(&gvr, &core), event);
    }
}
