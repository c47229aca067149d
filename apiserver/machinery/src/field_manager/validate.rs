//! Whether an applied configuration fits the schema, in the words of structured-merge-diff.

use std::collections::BTreeSet;

use super::path::PathElement;
use super::typed::Shape;
use crate::json::{Map, Number, Value};
use crate::schema::{Field, Object, Schema};
use crate::status::quoted;

/// A fault and where it is.
struct Fault {
    path: String,
    message: String,
}

/// Checks the types and the declared fields of `value`, and that items are unique.
///
/// # Errors
/// All faults, in one text.
pub(super) fn validate(shape: Shape<'_>, value: &Value) -> Result<(), String> {
    let mut faults = Vec::new();
    if let Shape::Struct(object) = shape {
        let mut walk = Walk {
            path: String::new(),
            faults: &mut faults,
        };
        match value {
            Value::Object(entries) => walk.fields(object, entries),
            Value::Null => {}
            other => walk.expected("map", &shown(other)),
        }
    }
    let text = |fault: &Fault| match fault.path.as_str() {
        "" => fault.message.clone(),
        path => format!("{path}: {}", fault.message),
    };
    match faults.as_slice() {
        [] => Ok(()),
        [fault] => Err(text(fault)),
        faults => {
            let lines: Vec<String> = faults
                .iter()
                .map(|fault| format!("  {}", text(fault)))
                .collect();
            Err(format!("errors:\n{}", lines.join("\n")))
        }
    }
}

struct Walk<'f> {
    path: String,
    faults: &'f mut Vec<Fault>,
}

impl Walk<'_> {
    fn fault(&mut self, message: String) {
        self.faults.push(Fault {
            path: self.path.clone(),
            message,
        });
    }

    fn expected(&mut self, what: &str, got: &str) {
        self.fault(format!("expected {what}, got {got}"));
    }

    fn at(&mut self, step: &str, check: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        check(self);
        self.path.truncate(length);
    }

    fn fields(&mut self, object: &Object, entries: &Map) {
        for (name, value) in entries {
            let step = format!(".{name}");
            match object.field(name) {
                Some(field) => self.at(&step, |walk| walk.value(&field.schema, Some(field), value)),
                None if object.open => {}
                // Upstream looks no further into a struct with such a field.
                None => {
                    return self.at(&step, |walk| {
                        walk.fault("field not declared in schema".to_owned());
                    });
                }
            }
        }
    }

    fn value(&mut self, schema: &Schema, field: Option<&Field>, value: &Value) {
        if value.is_null() {
            return;
        }
        match (schema, value) {
            (Schema::Any | Schema::Raw | Schema::JsonSchemaOr(_), _)
            | (Schema::Bool, Value::Bool(_))
            | (Schema::Int32 | Schema::Int64 | Schema::Float, Value::Number(_))
            | (Schema::String(_) | Schema::Bytes, Value::String(_)) => {}
            (Schema::Bool, other) => self.expected("boolean", &shown(other)),
            (Schema::Int32 | Schema::Int64 | Schema::Float, other) => {
                self.expected("numeric (int or float)", go_type(other));
            }
            (Schema::String(_) | Schema::Bytes, other) => {
                let value = format!("&value.valueUnstructured{{Value:{}}}", go_syntax(other));
                self.expected("string", &value);
            }
            (Schema::Time | Schema::MicroTime | Schema::Quantity | Schema::IntOrString, other) => {
                if other.is_object() || other.is_array() {
                    self.expected("any scalar", &shown(other));
                }
            }
            (Schema::Object(object), Value::Object(entries)) => self.fields(object, entries),
            (Schema::Map(map), Value::Object(entries)) => {
                for (name, value) in entries {
                    self.at(&format!(".{name}"), |walk| {
                        walk.value(&map.values, None, value)
                    });
                }
            }
            (Schema::Array(array), Value::Array(items)) => {
                self.items(&array.items, Shape::of(schema, field), items);
            }
            (Schema::Object(_) | Schema::Map(_), other) => self.expected("map", &shown(other)),
            (Schema::Array(_), other) => self.expected("list", &shown(other)),
        }
    }

    fn items(&mut self, schema: &Schema, shape: Shape<'_>, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = match shape {
                Shape::List(list) => match list.element(item) {
                    Ok(element) => element,
                    Err(why) => return self.fault(format!("element {index}: {why}")),
                },
                _ => PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX)),
            };
            if seen.contains(&element) {
                self.fault(format!("duplicate entries for key {element}"));
            }
            self.at(&element.to_string(), |walk| walk.value(schema, None, item));
            seen.insert(element);
        }
    }
}

/// Whether the types of `value` are those of the schema.
pub(super) fn fits(shape: Shape<'_>, value: &Value) -> bool {
    match (shape, value) {
        (_, Value::Null) => true,
        (Shape::Struct(object), Value::Object(entries)) => fields_fit(object, entries),
        (Shape::Struct(_), _) => false,
        _ => true,
    }
}

fn fields_fit(object: &Object, entries: &Map) -> bool {
    entries
        .iter()
        .all(|(name, value)| match object.field(name) {
            Some(field) => value_fits(&field.schema, Some(field), value),
            None => object.open,
        })
}

fn value_fits(schema: &Schema, field: Option<&Field>, value: &Value) -> bool {
    match (schema, value) {
        (_, Value::Null)
        | (Schema::Any | Schema::Raw | Schema::JsonSchemaOr(_), _)
        | (Schema::Bool, Value::Bool(_))
        | (Schema::Int32 | Schema::Int64 | Schema::Float, Value::Number(_))
        | (Schema::String(_) | Schema::Bytes, Value::String(_)) => true,
        (Schema::Time | Schema::MicroTime | Schema::Quantity | Schema::IntOrString, other) => {
            !(other.is_object() || other.is_array())
        }
        (Schema::Object(object), Value::Object(entries)) => fields_fit(object, entries),
        (Schema::Map(map), Value::Object(entries)) => entries
            .values()
            .all(|value| value_fits(&map.values, None, value)),
        (Schema::Array(array), Value::Array(items)) => {
            let shape = Shape::of(schema, field);
            items.iter().all(|item| {
                let has_key = match shape {
                    Shape::List(list) => list.element(item).is_ok(),
                    _ => true,
                };
                has_key && value_fits(&array.items, None, item)
            })
        }
        _ => false,
    }
}

/// A value as `%v` prints the pointer to it.
fn shown(value: &Value) -> String {
    format!("&{{{}}}", go_print(value))
}

fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_print(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
        Value::Number(number) if number.is_i64() => number.to_string(),
        Value::Number(number) => go_float(number),
        Value::Bool(_) => value.to_string(),
    }
}

/// A number as Go prints the float that every number of a configuration is read as.
fn go_float(number: &Number) -> String {
    let shortest = format!("{:e}", number.as_f64().unwrap_or_default());
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent @ (..-4 | 6..)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => number.as_f64().unwrap_or_default().to_string(),
    }
}

/// A value as `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}:{}", quoted(key), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Number(number) => go_float(number),
        Value::String(text) => quoted(text),
        Value::Bool(_) => value.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
