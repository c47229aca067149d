//! Types and values of a structural schema, as expressions see them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubeproof_machinery::json::Value as Json;

use super::{
    lexer::is_reserved,
    time,
    types::{DeclKind, DeclType, Type},
    value::{Key, List, ListKind, Map, Value},
};
use kubeproof_machinery::schema::structural::{ListType, Structural};

/// The largest request, which bounds sizes that a schema does not.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The most bytes of a date with time, or of a duration, as JSON.
const TIME_BYTES_MAX: u64 = 32;

/// The escaped name of a property that is one of the reserved words; as a field, it may also be
/// named as it is.
pub(super) fn escape_keyword(name: &str) -> Option<String> {
    is_reserved(name).then(|| format!("__{name}__"))
}

/// The name under which expressions know a property, or `None` if they can't name it.
pub(super) fn escape(property: &str) -> Option<String> {
    if property.is_empty() || property.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Some(escaped) = escape_keyword(property) {
        return Some(escaped);
    }
    let mut escaped = String::with_capacity(property.len());
    let mut rest = property;
    while let Some(letter) = rest.chars().next() {
        let (part, length) = match letter {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            '_' | 'a'..='z' | 'A'..='Z' | '0'..='9' => (&rest[..1], 1),
            _ => return None,
        };
        escaped.push_str(part);
        rest = &rest[length..];
    }
    Some(escaped)
}

/// Returns the type of values of `schema`, as expressions see it; `None` for values of unknown
/// type.
///
/// `root` says whether values are whole resources, which have metadata whatever the schema says.
pub(super) fn decl_type(schema: &Structural, root: bool) -> Option<DeclType> {
    let rules = &schema.value;
    let max_length = rules.max_length.map(|max| positive(max).saturating_mul(4));
    let simple = |of: Type, min_serialized_size: u64, max_elements: u64| {
        Some(DeclType {
            kind: DeclKind::Simple(of),
            max_elements,
            min_serialized_size,
        })
    };
    if schema.int_or_string {
        return simple(Type::Dyn, 1, max_length.unwrap_or(REQUEST_BYTES_MAX - 2));
    }
    match schema.value_type.as_str() {
        "array" => {
            let items = schema.items.as_deref()?;
            let item = decl_type(items, items.embedded_resource)?;
            let fit = (REQUEST_BYTES_MAX - 2) / (item.min_serialized_size + 1);
            Some(DeclType {
                max_elements: rules.max_items.map_or(fit, positive),
                min_serialized_size: 2,
                kind: DeclKind::List(Arc::new(item)),
            })
        }
        "object" => match schema.map_values() {
            Some(values) => {
                let value = decl_type(values, values.embedded_resource)?;
                let fit = (REQUEST_BYTES_MAX - 2) / (value.min_serialized_size + 6);
                Some(DeclType {
                    max_elements: rules.max_properties.map_or(fit, positive),
                    min_serialized_size: 2,
                    kind: DeclKind::Map(Arc::new(value)),
                })
            }
            None => Some(object_type(schema, root)),
        },
        "string" => match rules.format.as_str() {
            "byte" => simple(
                Type::Bytes,
                2,
                rules.max_length.map_or(REQUEST_BYTES_MAX - 2, positive),
            ),
            "duration" => simple(Type::Duration, 3, TIME_BYTES_MAX),
            "date" => simple(Type::Timestamp, 12, 12),
            "date-time" => simple(Type::Timestamp, 21, TIME_BYTES_MAX),
            _ => {
                let longest = rules
                    .enumeration
                    .iter()
                    .filter_map(Json::as_str)
                    .map(str::len)
                    .max();
                let unbounded = match longest {
                    _ if rules.enumeration.is_empty() => REQUEST_BYTES_MAX - 2,
                    longest => longest.unwrap_or_default() as u64,
                };
                simple(Type::String, 2, max_length.unwrap_or(unbounded))
            }
        },
        "boolean" => simple(Type::Bool, 4, 0),
        "number" => simple(Type::Double, 1, 0),
        "integer" => simple(Type::Int, 1, 0),
        _ => None,
    }
}

fn positive(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn object_type(schema: &Structural, root: bool) -> DeclType {
    let with_metadata = root.then(|| with_type_and_object_meta(schema));
    let properties = with_metadata
        .as_ref()
        .map_or(&schema.properties, |s| &s.properties);
    let required: BTreeSet<&String> = schema.value.required.iter().collect();
    let mut min_serialized_size = 2;
    let mut fields = BTreeMap::new();
    for (name, property) in properties {
        let Some(of) = decl_type(property, property.embedded_resource) else {
            continue;
        };
        if required.contains(name) && property.default.is_none() {
            min_serialized_size += name.len() as u64 + of.min_serialized_size + 4;
        }
        if let Some(escaped) = escape(name) {
            fields.insert(escaped, Arc::new(of));
        }
    }
    DeclType {
        kind: DeclKind::Object {
            name: "object".into(),
            fields,
        },
        max_elements: 0,
        min_serialized_size,
    }
}

/// The schema of a resource with the metadata that every resource has.
pub(super) fn with_type_and_object_meta(schema: &Structural) -> Structural {
    let string = || Structural {
        value_type: "string".to_owned(),
        ..Structural::default()
    };
    let is_string = |schema: &Structural, name: &str| {
        schema
            .properties
            .get(name)
            .is_some_and(|property| property.value_type == "string")
    };
    let metadata = schema.properties.get("metadata");
    let complete = is_string(schema, "kind")
        && is_string(schema, "apiVersion")
        && metadata.is_some_and(|metadata| {
            metadata.value_type == "object"
                && is_string(metadata, "name")
                && is_string(metadata, "generateName")
        });
    let mut schema = schema.clone();
    if !complete {
        let names = ["name", "generateName"].map(|name| (name.to_owned(), string()));
        let metadata = Structural {
            value_type: "object".to_owned(),
            properties: BTreeMap::from(names),
            ..Structural::default()
        };
        schema.properties.insert("kind".to_string(), string());
        schema.properties.insert("apiVersion".to_string(), string());
        schema.properties.insert("metadata".to_string(), metadata);
    }
    schema
}

/// A value as expressions see it.
pub(super) fn to_value(json: &Json, schema: &Structural) -> Value {
    if json.is_null() {
        return if schema.nullable {
            Value::Null
        } else {
            invalid("invalid data, got null for schema with nullable=false")
        };
    }
    if schema.int_or_string {
        return match json {
            Json::String(text) => Value::string(text),
            Json::Number(number) if number.is_i64() => integer(json),
            _ => invalid(
                "invalid data, expected XIntOrString value to be either a string or integer",
            ),
        };
    }
    match schema.value_type.as_str() {
        "object" => match json {
            Json::Object(fields) => object(fields, schema),
            _ => invalid("invalid data, expected a map for the provided schema with type=object"),
        },
        "array" => match (json, schema.items.as_deref()) {
            (Json::Array(items), Some(of)) => {
                let items = items.iter().map(|item| to_value(item, of)).collect();
                Value::List(List {
                    items: Arc::new(items),
                    kind: list_kind(schema),
                })
            }
            (Json::Array(_), None) => {
                invalid("invalid array type, expected Items with a non-empty Schema")
            }
            _ => invalid("invalid data, expected an array for the provided schema with type=array"),
        },
        "string" => match json {
            Json::String(text) => string(text, &schema.value.format),
            _ => invalid(&format!(
                "invalid data, expected string, got {}",
                go_type(json)
            )),
        },
        "number" => match json.as_f64() {
            Some(number) => Value::Double(number),
            None => invalid(&format!(
                "invalid data, expected float, got {}",
                go_type(json)
            )),
        },
        "integer" => integer(json),
        "boolean" => match json {
            Json::Bool(flag) => Value::Bool(*flag),
            _ => invalid(&format!(
                "invalid data, expected bool, got {}",
                go_type(json)
            )),
        },
        _ if schema.preserve_unknown_fields => Value::Preserved(Arc::new(json.clone())),
        other => invalid(&format!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type \
             with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got \
             {other}"
        )),
    }
}

fn invalid(message: &str) -> Value {
    Value::Invalid(message.into())
}

fn go_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

fn integer(json: &Json) -> Value {
    match json.as_i64() {
        Some(number) => Value::Int(number),
        None => invalid(&format!(
            "invalid data, expected int, got {}",
            go_type(json)
        )),
    }
}

fn string(text: &str, format: &str) -> Value {
    match format {
        "duration" => match time::parse_duration(text) {
            Some(nanos) => Value::Duration(nanos),
            None => invalid(&format!(
                "Invalid duration {text}: unable to parse {text} as duration"
            )),
        },
        "date" => match time::parse_date(text) {
            Some(time) => Value::Timestamp(time),
            None => invalid(&format!("Invalid date formatted string {text}")),
        },
        "date-time" => match time::parse_timestamp(text) {
            Some(time) => Value::Timestamp(time),
            None => invalid(&format!("Invalid date-time formatted string {text}")),
        },
        "byte" => {
            use base64::Engine as _;
            match base64::engine::general_purpose::STANDARD.decode(text) {
                Ok(bytes) => Value::Bytes(bytes.into()),
                Err(_) => invalid(&format!("Invalid byte formatted string {text}")),
            }
        }
        _ => Value::string(text),
    }
}

fn list_kind(schema: &Structural) -> ListKind {
    match schema.list_type {
        Some(ListType::Set) => ListKind::Set,
        Some(ListType::Map) => ListKind::Map(
            schema
                .list_map_keys
                .iter()
                .map(|key| escape(key).unwrap_or_else(|| key.clone()))
                .collect(),
        ),
        Some(ListType::Atomic) | None => ListKind::Atomic,
    }
}

fn object(fields: &kubeproof_machinery::json::Map, schema: &Structural) -> Value {
    let with_metadata = schema
        .embedded_resource
        .then(|| with_type_and_object_meta(schema));
    let schema = with_metadata.as_ref().unwrap_or(schema);
    let mut entries = BTreeMap::new();
    for (name, json) in fields {
        let declared = schema.properties.get(name.as_str());
        if declared.is_some() && json.is_null() {
            continue;
        }
        let (key, value) = match (declared, schema.map_values()) {
            (Some(of), _) => (
                escape(name).unwrap_or_else(|| name.to_string()),
                to_value(json, of),
            ),
            (None, Some(of)) => (name.to_string(), to_value(json, of)),
            // A value without a schema is kept only for comparing objects.
            (None, None) => (format!("#{name}"), Value::Preserved(Arc::new(json.clone()))),
        };
        entries.insert(Key::String(key.into()), value);
    }
    Value::Map(Map {
        size: fields.len(),
        ..Map::new(entries)
    })
}
