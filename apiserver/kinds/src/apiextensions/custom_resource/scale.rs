//! Where a custom resource has its replicas.

use crate::json::{Map, SmolStr, Value};
use crate::schema::number::printed_float;

/// The paths of a `scale` subresource.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// The replicas wanted, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// The replicas there are.
    pub status_replicas: String,
    /// The label selector, as text; may be empty.
    pub label_selector: String,
}

impl ScalePaths {
    /// Reads the paths of `subresources.scale`; `None` unless it is an object.
    pub fn parse(scale: &Value) -> Option<Self> {
        let text = |field: &str| scale[field].as_str().unwrap_or_default().to_owned();
        scale.is_object().then(|| Self {
            spec_replicas: text("specReplicasPath"),
            status_replicas: text("statusReplicasPath"),
            label_selector: text("labelSelectorPath"),
        })
    }
}

/// The names on the way of a simple path.
pub fn names(path: &str) -> Vec<&str> {
    path.strip_prefix('.').unwrap_or(path).split('.').collect()
}

/// The value at a simple path, if it exists; nothing exists below null.
///
/// # Errors
/// The path leads through a value that is not an object.
pub fn nested<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    let mut way = String::new();
    for name in names(path) {
        way.push('.');
        way.push_str(name);
        if value.is_null() {
            return Ok(None);
        }
        let Some(fields) = value.as_object() else {
            return Err(format!(
                "{way} accessor error: {} is of the type {}, expected map[string]interface{{}}",
                shown(value),
                go_type(value)
            ));
        };
        match fields.get(name) {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// The integer at a simple path.
///
/// # Errors
/// When there is something else.
pub fn integer(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(integer) => Ok(Some(integer)),
            None => Err(mistyped(path, value, "int64")),
        },
    }
}

/// The text at a simple path.
///
/// # Errors
/// When there is something else.
pub fn text<'v>(object: &'v Value, path: &str) -> Result<Option<&'v str>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(value) => Err(mistyped(path, value, "string")),
    }
}

/// Sets the value at a simple path.
///
/// # Errors
/// The path leads through a value that is not an object.
pub fn set(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let mut place = object;
    let mut way = String::new();
    for name in names(path) {
        let fields = place.as_object_mut().ok_or_else(|| {
            format!("value cannot be set because {way} is not a map[string]interface{{}}")
        })?;
        way.push('.');
        way.push_str(name);
        place = fields
            .entry(name)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    *place = value;
    Ok(())
}

fn mistyped(path: &str, value: &Value, expected: &str) -> String {
    let path = names(path).join(".");
    format!(
        ".{path} accessor error: {} is of the type {}, expected {expected}",
        shown(value),
        go_type(value)
    )
}

/// A value as Go's `%v` prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => printed_float(float),
            _ => number.to_string(),
        },
        Value::Bool(value) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&SmolStr, &Value)| format!("{name}:{}", shown(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
