//! Conversion of a map of fields into a type, without JSON between them.
//!
//! Upstream converts the result of a strategic merge patch in this way. Its errors name neither the
//! field nor the struct of a wrong value. It visits fields in declaration order, truncates numbers
//! and reads `1.0` as an integer.

mod plain;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::decode::{Decoded, FieldValidation, decode_scalar, decode_value};
use super::{Object, Schema};
use crate::json::{Map, Value};
pub use plain::decoded as plain;

/// Converts the fields `value` into a kind; the warnings are the unknown fields, sorted.
///
/// # Errors
///
/// Describes the first value of a wrong type.
pub fn convert(object: &Arc<Object>, mut value: Value) -> Result<Decoded, String> {
    // Most objects have nothing to convert.
    if let Some(value) = plain(object, &mut value) {
        return Ok(Decoded {
            value,
            warnings: Vec::new(),
        });
    }
    let mut walk = Walk {
        path: String::new(),
        unknown: Vec::new(),
    };
    let value = walk.fields(object, value)?;
    let decoded = decode_value(object, value, FieldValidation::Ignore);
    let Decoded { value, .. } = decoded.map_err(|error| error.to_string())?;
    walk.unknown.sort();
    Ok(Decoded {
        value,
        warnings: walk.unknown,
    })
}

struct Walk {
    path: String,
    unknown: Vec<String>,
}

impl Walk {
    fn at<T>(&mut self, step: &str, visit: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let visited = visit(self);
        self.path.truncate(length);
        visited
    }

    fn fields(&mut self, object: &Object, value: Value) -> Result<Value, String> {
        let fields = match value {
            Value::Object(fields) => fields,
            other => return Err(format!("cannot restore struct from: {}", go_kind(&other))),
        };
        let mut declared = Vec::with_capacity(fields.len());
        let mut unknown = Vec::new();
        for (name, value) in fields {
            match object.position(&name) {
                Some(at) => declared.push((at, name, value)),
                None => unknown.push(name),
            }
        }
        declared.sort_unstable_by_key(|(at, ..)| *at);
        let mut converted = Map::new();
        for (at, name, value) in declared {
            let schema = &object.fields()[at].schema;
            let value = self.at(&name, |walk| walk.value(schema, value))?;
            converted.insert(name, value);
        }
        for name in unknown {
            let fault = self.at(&name, |walk| format!("unknown field \"{}\"", walk.path));
            self.unknown.push(fault);
        }
        Ok(Value::Object(converted))
    }

    fn value(&mut self, schema: &Schema, value: Value) -> Result<Value, String> {
        if value.is_null() {
            return Ok(value);
        }
        match schema {
            Schema::Any => Ok(value),
            Schema::Bool | Schema::Int32 | Schema::Int64 | Schema::Float | Schema::String(_) => {
                scalar(schema, value)
            }
            Schema::Object(object) => self.fields(object, value),
            Schema::Map(map) => match value {
                // Keys of maps are not part of the path to an unknown field.
                Value::Object(entries) => {
                    let entry = |(key, value)| Ok((key, self.value(&map.values, value)?));
                    Ok(Value::Object(
                        entries
                            .into_iter()
                            .map(entry)
                            .collect::<Result<_, String>>()?,
                    ))
                }
                other => Err(format!("cannot restore map from {}", go_kind(&other))),
            },
            Schema::Array(array) => match value {
                Value::Array(items) => {
                    let mut converted = Vec::with_capacity(items.len());
                    for (index, item) in items.into_iter().enumerate() {
                        let step = format!("[{index}]");
                        converted.push(self.at(&step, |walk| walk.value(&array.items, item))?);
                    }
                    Ok(Value::Array(converted))
                }
                other => Err(format!("cannot restore slice from {}", go_kind(&other))),
            },
            Schema::Bytes if value.is_array() => Err("unrecognized type: uint8".to_owned()),
            Schema::Bytes if !value.is_string() => {
                Err(format!("cannot restore slice from {}", go_kind(&value)))
            }
            Schema::Bytes => decode_scalar(schema, value)
                .map_err(|error| format!("error decoding from json: {error}")),
            Schema::Raw => Ok(value),
            Schema::Time
            | Schema::MicroTime
            | Schema::Quantity
            | Schema::IntOrString
            | Schema::JsonSchemaOr(_) => {
                decode_scalar(schema, value).map_err(|error| error.to_string())
            }
        }
    }
}

/// A value of one of Go's own types.
fn scalar(schema: &Schema, value: Value) -> Result<Value, String> {
    let refuse = |value: &Value| {
        let from = go_kind(value);
        let to = schema.go_type();
        match (schema, value) {
            // Go converts between these, but not as JSON does.
            (Schema::String(_), Value::Number(number)) if !number.is_f64() => {
                Err(format!("cannot convert {from} to {to}"))
            }
            (Schema::Int32 | Schema::Int64, Value::Number(_)) => {
                Err(format!("cannot convert {from} to {to}"))
            }
            (Schema::String(_), _) => Err("unrecognized type: string".to_owned()),
            _ => Err(format!("unrecognized type: {to}")),
        }
    };
    let integer = match &value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Some(integer),
            (None, Some(float)) if float.trunc() == float => Some(truncated(float)),
            _ => None,
        },
        _ => None,
    };
    match (schema, &value, integer) {
        (Schema::String(_), Value::String(_), _)
        | (Schema::Bool, Value::Bool(_), _)
        | (Schema::Float, Value::Number(_), _) => Ok(value),
        (Schema::Int64, _, Some(integer)) => Ok(integer.into()),
        (Schema::Int32, _, Some(integer)) => Ok(low_half(integer).into()),
        _ => refuse(&value),
    }
}

/// A number as an integer; beyond their range Go has the least one.
#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn truncated(float: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&float) {
        float as i64
    } else {
        i64::MIN
    }
}

/// The low half of an integer, as Go's conversion to 32 bits keeps it.
#[expect(clippy::cast_possible_truncation, reason = "so does Go's conversion")]
fn low_half(integer: i64) -> i32 {
    integer as i32
}

/// The kind of a decoded JSON value, as Go's reflection names it.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
