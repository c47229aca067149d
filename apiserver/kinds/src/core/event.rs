//! Events: one resource in two shapes, that of the core group, which is stored, and that of
//! `events.k8s.io`, which renames half of the fields.

use std::borrow::Cow;

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::EVENTS_GROUP;
use crate::meta::object::{child_mut, meta};
use crate::meta::validation::{FIELD_IMMUTABLE, NameRule, qualified_name};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::text;
use crate::validation::invalid_as;
use crate::{MetadataCheck, SelectableField, Strategy, go_struct};

/// The group whose events are stored as those of the core group.
pub const GROUP: &str = EVENTS_GROUP;

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

/// Fields that an update of an `events.k8s.io` event may not change, with upstream's names for
/// them, in upstream's order, which has the reason twice.
const KEPT: [(&str, &str); 14] = [
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Bytes that the short texts of an event may have, and its message.
const SHORT_BYTES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 1024;

/// An event of the core group, or of `events.k8s.io`, whose rules are stricter.
#[derive(Debug)]
pub struct Event {
    /// Whether the rules are those of `events.k8s.io`.
    pub strict: bool,
}

impl Strategy for Event {
    fn is_stored_version(&self, _version: &str) -> bool {
        !self.strict
    }

    fn convert_from_storage<'a>(&self, _version: &str, stored: &'a Value) -> Cow<'a, Value> {
        if !self.strict {
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

    fn convert_to_storage(&self, _version: &str, mut object: Value) -> Value {
        if !self.strict {
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

    fn selectable_field(&self, name: &str) -> Option<SelectableField> {
        (name == "source").then_some(SelectableField {
            paths: &["source.component", "reportingComponent"],
            default: "",
        })
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn validates_new_metadata(&self) -> bool {
        self.strict
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        match self.strict {
            true => &[MetadataCheck::ObjectMetaUpdate],
            false => &[],
        }
    }

    fn is_garbage_collected(&self) -> bool {
        false
    }

    fn name_rule(&self) -> NameRule {
        match self.strict {
            true => NameRule::DnsSubdomain,
            false => NameRule::PathSegment,
        }
    }

    fn validate(&self, event: &Value) -> FieldErrors {
        let mut errors = self.validate_any(event);
        if !self.strict {
            return errors;
        }
        validate_series(event, &mut errors);
        if event["eventTime"].is_null() {
            errors.required(&FieldPath::new("eventTime"), "");
        }
        let kind = text(&event["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            let detail = format!("has invalid value: {kind}");
            errors.invalid(&FieldPath::new("type"), &"".into(), &detail);
        }
        let source = &event["deprecatedSource"];
        let count = event["deprecatedCount"].as_i64().unwrap_or(0);
        // The second of a pair is upstream's name of the field.
        for (is_set, shown) in [
            (
                !event["deprecatedFirstTimestamp"].is_null(),
                "firstTimestamp",
            ),
            (!event["deprecatedLastTimestamp"].is_null(), "lastTimestamp"),
            (count != 0, "count"),
            (
                ["component", "host"]
                    .iter()
                    .any(|own| !text(&source[*own]).is_empty()),
                "source",
            ),
        ] {
            if is_set {
                errors.invalid(&FieldPath::new(shown), &"".into(), "needs to be unset");
            }
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate_any(new);
        if !self.strict {
            return errors;
        }
        if new["series"] != old["series"] {
            validate_series(new, &mut errors);
        }
        for (field, shown) in KEPT {
            let (now, before) = (&new[field], &old[field]);
            if now == before {
                continue;
            }
            let path = FieldPath::new(shown);
            match shown {
                "involvedObject" | "source" | "related" => {
                    let kind = match shown {
                        "source" => "EventSource",
                        _ => "ObjectReference",
                    };
                    let shown = match now {
                        Value::Null if shown == "related" => "null".to_owned(),
                        now => go_struct::shown(kind, now),
                    };
                    invalid_as(&path, &shown, FIELD_IMMUTABLE, &mut errors);
                }
                "count" => {
                    let count = now.as_i64().unwrap_or(0).into();
                    errors.invalid(&path, &count, FIELD_IMMUTABLE);
                }
                _ if now.is_null() && !before.is_string() => {}
                "eventTime" | "firstTimestamp" | "lastTimestamp" => {
                    errors.invalid(&path, now, FIELD_IMMUTABLE);
                }
                _ => errors.invalid(&path, &text(now).into(), FIELD_IMMUTABLE),
            }
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        // Each field has a name in core/v1 and another in events.k8s.io/v1.
        let either = |core: &'static str, new: &'static str| {
            if view.get(core).is_some() { core } else { new }
        };
        let since = |pointer: &str| view.time(pointer).map(|_| view.since(pointer));
        let first = since(either("/firstTimestamp", "/deprecatedFirstTimestamp"))
            .unwrap_or_else(|| view.since("/eventTime"));
        let last = since(either("/lastTimestamp", "/deprecatedLastTimestamp"));
        let (last, count) = match view.get("/series") {
            Some(_) => (
                view.since("/series/lastObservedTime"),
                view.int("/series/count"),
            ),
            None => (
                last.unwrap_or_else(|| first.clone()),
                match view.int(either("/count", "/deprecatedCount")) {
                    0 => 1,
                    count => count,
                },
            ),
        };
        let regarding = either("/involvedObject", "/regarding");
        let about = |field: &str| view.str(&format!("{regarding}/{field}"));
        let kind = about("kind").to_lowercase();
        let object = match about("name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        Some(vec![
            json!(last),
            json!(view.str("/type")),
            json!(view.str("/reason")),
            json!(object),
            json!(about("fieldPath")),
            json!(printed_source(view)),
            json!(view.str(either("/message", "/note")).trim()),
            json!(first),
            json!(count),
            view.name(),
        ])
    }
}

impl Event {
    /// Faults of an event of either group.
    fn validate_any(&self, event: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let namespace = meta(event, "namespace");
        let about = match self.strict {
            true => "regarding",
            false => "involvedObject",
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
            let reporter = match self.strict {
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
            let message = text(if self.strict { "note" } else { "message" });
            too_long("message", message, MESSAGE_BYTES_MAX, &mut errors);
        }
        errors
    }
}

/// One of a row of events says how many there were, and when the last of them was.
fn validate_series(event: &Value, errors: &mut FieldErrors) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        let path = FieldPath::new("series.count");
        errors.invalid(&path, &"".into(), "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        errors.required(&FieldPath::new("series.lastObservedTime"), "");
    }
}

fn too_long(field: &str, text: &str, max: usize, errors: &mut FieldErrors) {
    if text.len() > max {
        let detail = format!("can have at most {max} characters");
        errors.invalid(&FieldPath::new(field), &"".into(), &detail);
    }
}

fn child_fields(object: &mut Value) -> &mut crate::json::Map {
    child_mut(object, "metadata");
    object.as_object_mut().expect("an event is an object")
}

/// Returns the source of an event. Each part comes from `source`, or from the reporting fields if
/// `source` lacks it.
fn printed_source(view: Printable<'_>) -> String {
    let first = |pointers: &[&str]| {
        let mut texts = pointers.iter().map(|pointer| view.str(pointer));
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    };
    // In core/v1 the field is `reportingComponent`; in events.k8s.io/v1 it is
    // `reportingController`.
    let component = first(&[
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    let instance = first(&[
        "/source/host",
        "/deprecatedSource/host",
        "/reportingInstance",
    ]);
    match instance {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_group_asks_for_more() {
        let event = |more: Value| {
            let mut event = json!({"metadata": {"namespace": "default"}, "type": "Normal",
                "eventTime": "2024-01-01T00:00:00.000000Z", "reason": "R", "action": "A",
                "reportingController": "a.io/c", "reportingInstance": "i", "note": "n",
                "regarding": {"kind": "Pod", "namespace": "default"}});
            for (field, value) in more.as_object().unwrap() {
                event[field] = value.clone();
            }
            event
        };
        let strict = Event { strict: true };
        let fields = |errors: FieldErrors| -> Vec<String> {
            errors
                .causes()
                .iter()
                .map(|own| own.field.clone())
                .collect()
        };
        let old = event(json!({}));
        for (more, created, updated) in [
            (json!({}), vec![], vec![]),
            (
                json!({"series": {"count": 1}}),
                vec!["series.count", "series.lastObservedTime"],
                vec!["series.count", "series.lastObservedTime"],
            ),
            (
                json!({"deprecatedCount": 1, "deprecatedSource": {"host": "h"}}),
                vec!["count", "source"],
                vec!["source", "count"],
            ),
            (json!({"reason": "S"}), vec![], vec!["reason", "reason"]),
            (
                json!({"note": "m", "type": "Odd"}),
                vec!["type"],
                vec!["message", "type"],
            ),
        ] {
            let new = event(more.clone());
            assert_eq!(fields(strict.validate(&new)), created, "{more}");
            assert_eq!(
                fields(strict.validate_update(&new, &old)),
                updated,
                "{more}"
            );
        }
    }

    #[test]
    fn an_event_survives_the_way_through_storage() {
        let strict = Event { strict: true };
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "note": "text", "regarding": {"kind": "Pod"}, "reportingController": "x.io/c",
            "deprecatedCount": 3, "deprecatedSource": {}, "reason": "R",
        });
        let core = strict.convert_to_storage("v1", event.clone());
        assert_eq!(
            (&core["apiVersion"], &core["message"]),
            (&json!("v1"), &json!("text"))
        );
        assert_eq!(
            (&core["count"], &core["reportingInstance"]),
            (&json!(3), &json!(""))
        );
        assert_eq!(*strict.convert_from_storage("v1", &core), event);
    }
}
