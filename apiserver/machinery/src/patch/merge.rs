//! JSON merge patch (RFC 7396).

use super::discard_nulls;
use super::document::{self, Members, Node, Slot};
use crate::json::{Map, Value};

/// Applies `patch` to the document `current`; `None` if it is not a patch.
///
/// A list is not a patch either, but upstream returns it as the result.
pub(super) fn apply(patch: &str, current: &str) -> Option<String> {
    let outcome = match document::members(patch) {
        Some(patch) => {
            let mut members = document::members(current)?;
            merge(&mut members, patch);
            Node::Object(members)
        }
        None => {
            let mut items = Node::Array(document::items(patch)?);
            items.prune_nulls();
            items
        }
    };
    let mut text = String::new();
    outcome.write(&mut text);
    Some(text)
}

/// Merges `patch` into the fields of an object, with the outcome of [`apply`].
pub(super) fn merge_fields(fields: &mut Map, patch: Map) {
    for (name, mut value) in patch {
        if value.is_null() {
            fields.remove(&name);
            continue;
        }
        match (fields.get_mut(&name), &mut value) {
            (Some(Value::Object(held)), Value::Object(patch)) => {
                merge_fields(held, std::mem::take(patch));
            }
            (Some(held @ Value::Object(_)), _) => *held = value,
            _ => {
                discard_nulls(&mut value);
                fields.insert(name, value);
            }
        }
    }
}

fn merge(members: &mut Members, patch: Members) {
    for (name, value) in patch {
        let Some(value) = value else {
            members.remove(&name);
            continue;
        };
        let held = members.entry(name).or_default();
        merge_value(held, value);
    }
}

fn merge_value(held: &mut Slot, mut patch: Node) {
    let Some(members) = held.as_mut().and_then(Node::object) else {
        patch.prune_nulls();
        *held = Some(patch);
        return;
    };
    // A list that replaces an object keeps its nulls, one that replaces anything else does not, as
    // far as objects in it have them.
    match patch.object() {
        Some(patch) => merge(members, std::mem::take(patch)),
        None => *held = Some(patch),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use crate::json::json;
    use crate::meta::GroupVersionKind;
    use crate::patch::{self, Outcome, PatchType, Patched};
    use crate::schema::{FieldValidation, builtin, decode_json};

    #[test]
    fn a_patch_merged_into_the_object_has_the_outcome_of_one_merged_into_its_text() {
        let current = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "a", "labels": { "a": "b", "c": "" }, "creationTimestamp": "2024-01-01T00:00:00Z" },
            "spec": { "containers": [{ "name": "c", "resources": { "limits": { "cpu": "1" } } }], "priority": 1 },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let schema = builtin(&GroupVersionKind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
        });
        let schema = schema.expect("a built-in kind");
        for (patch, is_direct) in [
            (r#"{}"#, true),
            (
                r#"{"metadata":{"labels":{"a":null,"d":"e","f":null}}}"#,
                true,
            ),
            (
                r#"{"metadata":{"labels":null,"annotations":{"x":null}}}"#,
                true,
            ),
            (r#"{"metadata":null,"status":{}}"#, true),
            (
                r#"{"status":{"conditions":[{"type":"A","status":"B","reason":null}],"phase":""}}"#,
                true,
            ),
            (
                r#"{"status":{"podIP":"1.2.3.4","startTime":"2024-01-01T00:00:00Z"}}"#,
                true,
            ),
            (
                r#"{"status":{"startTime":"2024-01-01T01:00:00+01:00"}}"#,
                false,
            ),
            (
                r#"{"spec":{"nodeSelector":{"a":null},"priority":2147483647}}"#,
                true,
            ),
            (r#"{"spec":{"priority":2147483648}}"#, false),
            (r#"{"spec":{"priority":"1"}}"#, false),
            (r#"{"spec":{"containers":[]}}"#, true),
            (r#"{"spec":{"containers":[null]}}"#, true),
            (
                r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"1000m"}}}]}}"#,
                false,
            ),
            (r#"{"spec":{"containers":{}}}"#, false),
            (r#"{"spec":{"unknown":1}}"#, false),
            (r#"{"Spec":{"priority":2}}"#, false),
            (r#"{"spec":{"priority":2,"priority":3}}"#, false),
            (r#"{"kind":"Other","apiVersion":"v2"}"#, true),
            (r#"{"metadata":{"name":"a\n\u00e9\\"}}"#, true),
            (r#"{"metadata":{"name":"\ud800"}}"#, false),
            ("[]", false),
            ("{", false),
        ] {
            let merged = patch::merged(patch.as_bytes(), current.clone(), schema);
            assert_eq!(merged.is_some(), is_direct, "{patch}");
            let Some(merged) = merged else { continue };
            let (live, validation) = (Cow::Borrowed(&current), FieldValidation::Warn);
            let body = patch.as_bytes();
            let applied = patch::apply(PatchType::Merge, body, live, Some(schema), validation);
            let Patched { outcome, faults } = applied.unwrap();
            let Outcome::Text(text) = outcome else {
                panic!("{patch}: a merge patch changes the text");
            };
            let decoded = decode_json(schema, text.as_bytes(), FieldValidation::Warn).unwrap();
            assert_eq!(decoded.value, merged, "{patch}");
            assert_eq!(
                (faults, decoded.warnings),
                (Vec::new(), Vec::new()),
                "{patch}"
            );
        }
    }
}
