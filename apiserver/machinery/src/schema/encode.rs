//! JSON in the order of Go's struct fields, as a real server writes it.

mod answer;

use super::builtin::{json_schema_props, written_type};
use super::number::write_json;
use super::{Object, Schema};
use crate::json::{Map, Value, may_need_escape};
use crate::meta::fields::{FIELDS_V1, resting, unfolded};

pub use answer::write_answer;

/// The bytes that a string in JSON has to escape, or may have to.
static MAY_NEED_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = u8::MAX;
    loop {
        table[byte as usize] = matches!(byte, ..b' ' | b'"' | b'\\') || may_need_escape(byte);
        if byte == 0 {
            break table;
        }
        byte -= 1;
    }
};

/// The first fields of every object.
const TYPE_META: [&str; 2] = ["kind", "apiVersion"];

/// Writes an object of any kind: `kind` and `apiVersion` first, the rest in the order of its type's
/// fields, or sorted when the type is not built in.
///
/// Answers how long the part up to and including `kind` and `apiVersion` is.
pub fn write_object(text: &mut Vec<u8>, object: &Value) -> usize {
    let Value::Object(fields) = object else {
        write_plain(text, object);
        return 0;
    };
    text.push(b'{');
    for name in TYPE_META {
        if let Some(value) = fields.get(name) {
            write_field(text, name, value, &Schema::Any);
        }
    }
    let head = text.len();
    match type_of(object) {
        Some(schema) => write_fields(text, fields, schema, &TYPE_META),
        None => {
            let object = unfolded(object);
            for (name, value) in object.as_object().into_iter().flatten() {
                if !TYPE_META.contains(&name.as_str()) {
                    write_field(text, name, value, &Schema::Any);
                }
            }
        }
    }
    close(text, b'}');
    head
}

pub(super) fn type_of(object: &Value) -> Option<&'static Object> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    written_type(api_version, object["kind"].as_str()?).map(|object| &**object)
}

/// Writes the fields that `object` declares, in declaration order, then all other fields.
///
/// `skip` names fields that are already written.
fn write_fields(text: &mut Vec<u8>, fields: &Map, object: &Object, skip: &[&str]) {
    let declared = object.fields();
    let mut placed = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        if !skip.contains(&name.as_str()) {
            let place = object.position(name).unwrap_or(declared.len());
            placed.push((place, name, value));
        }
    }
    // A stable sort: undeclared fields stay in the order of their names.
    placed.sort_by_key(|(place, ..)| *place);
    for (place, name, value) in placed {
        match declared.get(place) {
            Some(field) => write_declared(text, name, value, &field.schema),
            None => write_field(text, name, value, &Schema::Any),
        }
    }
}

/// Writes a field of a Go type, whose name has nothing to escape.
fn write_declared(text: &mut Vec<u8>, name: &str, value: &Value, schema: &Schema) {
    if name == FIELDS_V1
        && let (Schema::Raw, Some(json)) = (schema, resting(value))
    {
        text.extend_from_slice(b"\"fieldsV1\":");
        text.extend_from_slice(json.as_bytes());
        text.push(b',');
        return;
    }
    text.push(b'"');
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\":");
    write(text, value, schema);
    text.push(b',');
}

fn write_field(text: &mut Vec<u8>, name: &str, value: &Value, schema: &Schema) {
    write_text(text, name);
    text.push(b':');
    write(text, value, schema);
    text.push(b',');
}

fn write(text: &mut Vec<u8>, value: &Value, schema: &Schema) {
    match (value, schema) {
        (Value::Object(fields), Schema::Object(object)) => {
            text.push(b'{');
            write_fields(text, fields, object, &[]);
            close(text, b'}');
        }
        (Value::Object(fields), Schema::JsonSchemaOr(_)) => {
            text.push(b'{');
            write_fields(text, fields, json_schema_props(), &[]);
            close(text, b'}');
        }
        (Value::Object(entries), Schema::Map(values)) => {
            text.push(b'{');
            for (name, value) in entries {
                write_field(text, name, value, &values.values);
            }
            close(text, b'}');
        }
        (Value::Array(items), Schema::Array(array)) => {
            text.push(b'[');
            for item in items {
                write(text, item, &array.items);
                text.push(b',');
            }
            close(text, b']');
        }
        _ => write_plain(text, value),
    }
}

fn close(text: &mut Vec<u8>, bracket: u8) {
    if text.last() == Some(&b',') {
        text.pop();
    }
    text.push(bracket);
}

fn write_plain(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(string) => write_text(text, string),
        value => write_json(text, value),
    }
}

fn write_text(text: &mut Vec<u8>, string: &str) {
    // Without an early end: few strings have anything to escape.
    let escapes = |found, byte| found | MAY_NEED_ESCAPE[usize::from(byte)];
    if !string.bytes().fold(false, escapes) {
        text.push(b'"');
        text.extend_from_slice(string.as_bytes());
        text.push(b'"');
    } else {
        write_json(text, string);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn encoded(value: &Value) -> String {
        let mut text = Vec::new();
        write_object(&mut text, value);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn built_in_kinds_are_written_in_the_order_of_their_fields() {
        let value = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "data": { "b": "2", "a": "1" },
            "metadata": { "uid": "u", "namespace": "ns", "name": "a", "labels": {} },
        });
        assert_eq!(
            encoded(&value),
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u","labels":{}},"data":{"a":"1","b":"2"}}"#
        );
    }

    #[test]
    fn nothing_is_lost_whatever_the_kind() {
        for value in [
            json!({ "kind": "Foo", "apiVersion": "example.com/v1", "a": [1, { "c": 1, "b": [] }] }),
            json!({ "kind": "Pod", "apiVersion": "v1", "nope": { "x": null }, "spec": { "nope": 1, "hostname": "h" } }),
            json!({}),
            json!({ "kind": "Status", "apiVersion": "v1", "details": { "name": "a", "kind": "b" } }),
        ] {
            assert_eq!(
                serde_json::from_str::<Value>(&encoded(&value)).unwrap(),
                value
            );
        }
    }
}
