use std::time::Duration;

use serde_json::{Value, json};

use super::quantity::Quantity;
use super::*;
use crate::meta::{GroupVersion, GroupVersionKind};

fn kind(api_version: &str, kind: &str) -> &'static Arc<Object> {
    let GroupVersion { group, version } = GroupVersion::parse(api_version).unwrap();
    let gvk = GroupVersionKind {
        group,
        version,
        kind: kind.to_owned(),
    };
    builtin(&gvk).unwrap_or_else(|| panic!("no built-in {gvk:?}"))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

fn decode(value: &Value, validation: FieldValidation) -> Result<Decoded, DecodeError> {
    let object = kind(text(value, "apiVersion"), text(value, "kind"));
    let json = decode_json(object, value.to_string().as_bytes(), validation);
    assert_eq!(json, decode_value(object, value.clone(), validation));
    json
}

fn normalized(value: &Value) -> Value {
    decode(value, FieldValidation::Strict).unwrap().value
}

fn error(api_version: &str, kind: &str, fields: Value) -> String {
    let mut value = json!({ "apiVersion": api_version, "kind": kind });
    for (key, field) in fields.as_object().unwrap() {
        value[key] = field.clone();
    }
    decode(&value, FieldValidation::Ignore)
        .unwrap_err()
        .to_string()
}

#[test]
fn every_type_compiles() {
    fn visit(schema: &Schema, seen: &mut Vec<*const Object>) {
        match schema {
            Schema::Array(array) => visit(&array.items, seen),
            Schema::Map(map) => visit(&map.values, seen),
            Schema::Object(object) if !seen.contains(&Arc::as_ptr(object)) => {
                seen.push(Arc::as_ptr(object));
                for field in object.fields() {
                    assert_eq!(
                        field.list_map_keys.is_empty(),
                        field.list_type != Some(ListType::Map),
                        "{}.{}",
                        object.name,
                        field.name
                    );
                    visit(&field.schema, seen);
                }
            }
            _ => {}
        }
    }
    let mut seen = Vec::new();
    for object in builtin::kinds() {
        visit(&Schema::Object(Arc::clone(object)), &mut seen);
    }
    assert!(seen.len() > 450, "{}", seen.len());
}
#[test]
fn a_stateful_set_gets_the_zero_values_that_go_encodes() {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "web", "labels": {}, "creationTimestamp": null },
        "spec": {
            "replicas": 0,
            "serviceName": "",
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "containers": [{ "name": "c", "image": "i", "stdin": false, "args": [] }],
                    "securityContext": {},
                },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": { "resources": { "requests": { "storage": "1024Mi" } } },
            }],
        },
    });
    let want = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "web" } },
            "serviceName": "",
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "containers": [{ "name": "c", "image": "i", "resources": {} }],
                    "securityContext": {},
                },
            },
            "updateStrategy": {},
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": { "resources": { "requests": { "storage": "1Gi" } } },
                "status": {},
            }],
        },
        "status": { "replicas": 0 },
    });
    let got = normalized(&set);
    assert_eq!(
        got["spec"]["volumeClaimTemplates"],
        want["spec"]["volumeClaimTemplates"]
    );
    println!("{got:#}");
    assert_eq!(normalized(&got), got);
}

#[test]
fn index_is_fast() {
    let start = std::time::Instant::now();
    kind("v1", "Pod");
    println!("{:?}", start.elapsed());
    kind("v1", "Pod").fields();
    println!("{:?}", start.elapsed());
    let _ = Duration::ZERO;
}
