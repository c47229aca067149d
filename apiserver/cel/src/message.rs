//! Message literals: the objects and JSON patches that mutations of admission policies make.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kubeproof_machinery::json::{Map, Value as Json};

use super::{
    time,
    types::Type,
    value::{Key, Message, Object, Value},
};

/// The function for keys within the paths of JSON patches.
pub(super) const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// The type of the whole object; the type of a part appends the path to that part.
pub(super) const OBJECT: &str = "Object";

/// The type of an operation of a JSON patch.
pub(super) const PATCH: &str = "JSONPatch";

impl Message {
    /// Types within that are not named after the path to them.
    fn misplaced(&self, path: &str, faults: &mut Vec<String>) {
        let name = self.type_name();
        if name != path {
            faults.push(format!(
                "unexpected type name {name:?}, expected {path:?}, which matches field name path \
                 from root Object type"
            ));
        }
        for (field, value) in self.fields() {
            misplaced_within(value, &format!("{path}.{field}"), faults);
        }
    }
}

fn misplaced_within(value: &Value, path: &str, faults: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Object::Message(message) = &**object {
                message.misplaced(path, faults);
            }
        }
        Value::List(list) => {
            let items = list.items.iter();
            items.for_each(|item| misplaced_within(item, path, faults));
        }
        Value::Map(map) => {
            let values = map.entries.values();
            values.for_each(|value| misplaced_within(value, path, faults));
        }
        _ => {}
    }
}

/// Whether there are literals of a type of this name.
pub(super) fn is_declared(name: &str) -> bool {
    name == OBJECT || name == PATCH || name.starts_with("Object.")
}

/// The type of a field of a declared type.
pub(super) fn field_type(name: &str, field: &str) -> Option<Type> {
    match (name, field) {
        (PATCH, "op" | "path" | "from") => Some(Type::String),
        (PATCH, "value") => Some(Type::Dyn),
        (PATCH, _) => None,
        _ => Some(Type::Dyn),
    }
}

/// Escapes a key for the path of a JSON patch.
pub(super) fn escaped_key(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the object that a literal describes, which is part of the whole object.
///
/// # Errors
/// Describes the part of the literal that is not valid.
pub(super) fn configuration(value: &Value) -> Result<Json, String> {
    check_places(value)?;
    to_json(value)
}

/// Returns the operations of a JSON patch.
///
/// # Errors
/// The value is not a list of operations.
pub(super) fn operations(value: &Value) -> Result<Vec<Json>, String> {
    let Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    list.items.iter().map(operation).collect()
}

fn operation(value: &Value) -> Result<Json, String> {
    let message = match value {
        Value::Object(object) => match &**object {
            Object::Message(message) if message.type_name() == PATCH => Some(message),
            _ => None,
        },
        _ => None,
    };
    let Some(message) = message else {
        return Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got \
             element of {}",
            value.type_name()
        ));
    };
    let text = |field: &str| match message.field(field) {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut operation = Map::new();
    operation.insert("op", text("op").into());
    operation.insert("path", text("path").into());
    if !text("from").is_empty() {
        operation.insert("from", text("from").into());
    }
    if let Some(value) = message.field("value") {
        if let Value::Object(object) = value
            && let Object::Message(part) = &**object
        {
            let mut faults = Vec::new();
            part.misplaced(part.type_name(), &mut faults);
            mismatch(&faults)?;
        }
        let value = to_json(value).map_err(|why| {
            format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"
            )
        })?;
        operation.insert("value", value);
    }
    Ok(Json::Object(operation))
}

fn check_places(value: &Value) -> Result<(), String> {
    let mut faults = Vec::new();
    misplaced_within(value, OBJECT, &mut faults);
    mismatch(&faults)
}

fn mismatch(faults: &[String]) -> Result<(), String> {
    match faults {
        [] => Ok(()),
        faults => Err(format!("type mismatch: {}", faults.join("\n"))),
    }
}

/// A value as data.
fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::String(text) => Json::from(&**text),
        Value::Bytes(bytes) => STANDARD.encode(bytes).into(),
        Value::Duration(nanos) => time::show_duration(*nanos).into(),
        Value::Timestamp(time) => time::show_timestamp(*time).into(),
        Value::List(list) => {
            let items: Result<Vec<Json>, String> = list.items.iter().map(to_json).collect();
            items?.into()
        }
        Value::Map(map) => {
            let mut fields = Map::new();
            for (key, value) in &*map.entries {
                let Key::String(name) = key else {
                    let key = key.value();
                    return Err(format!(
                        "map key {key} is of type {}, not string",
                        key.type_name()
                    ));
                };
                fields.insert(name.to_string(), to_json(value)?);
            }
            Json::Object(fields)
        }
        Value::Preserved(json) => (**json).clone(),
        Value::Object(object) => match &**object {
            Object::Message(message) => {
                let mut fields = Map::new();
                for (name, value) in message.fields() {
                    fields.insert(name.to_string(), to_json(value)?);
                }
                Json::Object(fields)
            }
            other => return Err(format!("unsupported type {}", other.type_name())),
        },
        other => return Err(format!("unsupported type {}", other.type_name())),
    })
}
