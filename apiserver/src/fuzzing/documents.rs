//! Selectors, paths, patches, applies, and bodies in other encodings than JSON.

use std::borrow::Cow;

use super::{lines, object};
use crate::field_manager::{FieldManager, Force, Writer};
use crate::json::{Value, json};
use crate::meta::GroupVersionKind;
use crate::meta::selector::{FieldSelector, LabelSelector};
use crate::patch::{self, Outcome, PatchType};
use crate::registry::json_path::JsonPath;
use crate::schema::{self, FieldValidation, protobuf};
use crate::yaml::decode::Yaml;
use crate::yaml::encode as yaml;

/// A time at which something is applied.
const NOW: &str = "2024-01-01T00:00:00Z";

/// A kind whose schema has lists of all types.
fn pod() -> GroupVersionKind {
    GroupVersionKind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    }
}

/// Checks the query parameter `labelSelector`: a printed selector is parsed as the same selector.
pub(super) fn label_selector(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let labels = json!({ "app": "web", "tier": "3", "a.b/c": "" });
    if let Ok(selector) = LabelSelector::parse(&text) {
        let printed = selector.as_selector_string();
        let again = LabelSelector::parse(&printed).expect("what is printed is a selector");
        assert_eq!(
            selector.matches(&labels),
            again.matches(&labels),
            "{printed}"
        );
    }
    if let Some(selector) = object(Some(&text)) {
        let selector = LabelSelector::from_object(&selector);
        let _ = selector.map(|selector| selector.matches(&labels));
    }
}

/// Checks the query parameter `fieldSelector`: a printed selector is parsed as the same selector.
pub(super) fn field_selector(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(selector) = FieldSelector::parse(&text) {
        let name = |field: &str| if field == "metadata.name" { "web" } else { "" };
        selector.matches(|field| name(field).into());
        let printed = selector.to_string();
        let again = FieldSelector::parse(&printed).expect("what is printed is a selector");
        // The order is that of the escaped terms.
        let has = |term| again.terms().contains(term);
        assert!(selector.terms().iter().all(has), "{printed}");
    }
}

/// A JSONPath, and an object that it is followed in.
pub(super) fn json_path(data: &[u8]) {
    let mut lines = lines(data);
    let path = lines.next().and_then(JsonPath::parse);
    if let (Some(path), Some(object)) = (path, object(lines.next())) {
        let _ = path.find(&object);
    }
}

pub(super) fn json_patch(data: &[u8]) {
    patched(data, PatchType::Json);
}

pub(super) fn merge_patch(data: &[u8]) {
    patched(data, PatchType::Merge);
}

pub(super) fn strategic_merge_patch(data: &[u8]) {
    patched(data, PatchType::StrategicMerge);
}

/// An object and a patch of it.
fn patched(data: &[u8], patch_type: PatchType) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let current = parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (Some(current), Some(body)) = (object(current), parts.next()) else {
        return;
    };
    let pod = schema::builtin(&pod()).expect("pods are built in");
    let merged = match patch_type {
        PatchType::Merge => patch::merged(body, current.clone(), pod),
        _ => None,
    };
    let current = Cow::Owned(current);
    let outcome = patch::apply(patch_type, body, current, Some(pod), FieldValidation::Warn);
    match outcome.map(|patched| patched.outcome) {
        Ok(Outcome::Text(text)) => {
            let decoded = schema::decode_json(pod, text.as_bytes(), FieldValidation::Strict);
            if let Some(merged) = merged {
                assert_eq!(decoded.expect("it is plain").value, merged);
            }
        }
        Ok(Outcome::Fields(object)) => {
            let _ = schema::convert(pod, object);
        }
        Err(_) => assert_eq!(merged, None, "what is merged has no fault"),
    }
}

/// Configurations that two managers apply in turn, or write as an update if they are not applied.
pub(super) fn apply(data: &[u8]) {
    let gvk = pod();
    let mut live: Option<Value> = None;
    for (turn, line) in lines(data).take(8).enumerate() {
        let Some(mut applied) = object(Some(line)) else {
            return;
        };
        let writer = Writer {
            field_manager: ["kubectl", "controller"][turn % 2],
            user_agent: "",
            subresource: "",
        };
        let schema = schema::builtin(&gvk).cloned();
        let manager = FieldManager::new(&gvk, schema.filter(|_| turn < 4), &writer, &[]);
        let force = if turn % 3 == 2 { Force::Yes } else { Force::No };
        match (manager.apply(live.as_ref(), &applied, force, NOW), &live) {
            (Ok(merged), _) => live = Some(merged),
            (Err(_), Some(held)) => {
                manager.update(held, &mut applied, NOW);
                live = Some(applied);
            }
            (Err(_), None) => {}
        }
    }
}

/// Checks a body in YAML: the written form of its value is read as the same value.
pub(super) fn yaml(data: &[u8]) {
    let Ok(read) = Yaml::parse(data) else {
        return;
    };
    let value = numbers_of_go(&read.json);
    if !value.is_object() {
        return;
    }
    let again = Yaml::parse(yaml::to_string(&value).as_bytes());
    let again = again.expect("what is written as YAML is YAML");
    assert_eq!(value, numbers_of_go(&again.json));
}

/// The JSON form of a YAML document with the numbers of objects: floats beyond 64 bits with a sign.
fn numbers_of_go(json: &[u8]) -> Value {
    fn visit(value: &mut Value) {
        match value {
            Value::Number(number) if number.as_i64().is_none() => *value = number.as_f64().into(),
            Value::Array(items) => items.iter_mut().for_each(visit),
            Value::Object(fields) => fields.values_mut().for_each(visit),
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(json).expect("YAML is read into JSON");
    visit(&mut value);
    value
}

/// A body in protobuf, of kinds whose types refer to themselves or inline others.
pub(super) fn protobuf(data: &[u8]) {
    let message = protobuf::envelope(data).map_or(data, |envelope| envelope.raw);
    let definitions = GroupVersionKind {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
    };
    for gvk in [pod(), definitions] {
        let schema = schema::builtin(&gvk).expect("the kind is built in");
        if let Ok(value) = protobuf::decode(schema, message) {
            let _ = schema::convert(schema, value);
        }
    }
}
