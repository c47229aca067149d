//! Custom resources decoded from documents: the metadata by its type, the rest by the schema of the
//! version.

use crate::json::{Map, Number, Value};
use crate::registry::apiextensions::custom_resource::CustomResource;
use crate::schema::{self, DecodeError, FieldValidation};
use crate::status::{FieldErrors, FieldPath};

/// The greatest safe integer of a float, 2⁵³ − 1: no other integer is read as the same float.
const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;

/// An object in the form of its definition, with the unknown fields that were dropped.
pub(super) struct Coerced {
    pub(super) value: Value,
    /// `unknown field "spec.foo"`, in the order of upstream.
    pub(super) unknown: Vec<String>,
}

/// Prunes and defaults an object that has the kind of `custom`.
///
/// # Errors
/// When the metadata is of a wrong type.
pub(super) fn coerce(custom: &CustomResource, mut value: Value) -> Result<Coerced, DecodeError> {
    normalize_numbers(&mut value);
    let metadata = value.get_mut("metadata").map(Value::take);
    let mut unknown = Vec::new();
    let metadata = match metadata {
        Some(metadata) => {
            let (metadata, faults) = object_meta(metadata)?;
            unknown.extend(faults);
            Some(metadata)
        }
        None => None,
    };
    let schema = custom.schema();
    let pruned = schema.prune(&mut value);
    unknown.extend(pruned.iter().map(|path| format!("unknown field {path:?}")));
    schema.prune_nulls(&mut value);
    let embedded = schema.coerce_embedded(&FieldPath::default(), &mut value);
    let embedded = embedded.map_err(|malformed| {
        let mut errors = FieldErrors::new();
        errors.invalid(&malformed.path, &malformed.value, &malformed.detail);
        let texts = errors.causes().iter();
        let texts: Vec<String> = texts
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        DecodeError::Type(texts.join(", "))
    })?;
    unknown.extend(
        embedded
            .iter()
            .map(|path| format!("unknown field {path:?}")),
    );
    schema.fill_defaults(&mut value);
    if let Some(metadata) = metadata {
        value["metadata"] = metadata;
    }
    Ok(Coerced { value, unknown })
}

/// The metadata in the form of its Go type, and its unknown fields.
fn object_meta(metadata: Value) -> Result<(Value, Vec<String>), DecodeError> {
    let schema = schema::object_meta();
    let decoded = schema::decode_value(schema, metadata, FieldValidation::Warn)?;
    let unknown = decoded.warnings.iter().map(|fault| {
        let path = fault.trim_start_matches("unknown field ").trim_matches('"');
        format!("unknown field \"metadata.{path}\"")
    });
    let unknown = unknown.collect();
    Ok((decoded.value, unknown))
}

/// Numbers as Go has them in objects without a type: integers of 64 bits, and floats, of which
/// whole ones are written as integers and so become integers once they are stored.
pub(super) fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(normal) = normal(number) {
                *number = normal;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(fields) => {
            let fields: &mut Map = fields;
            fields.values_mut().for_each(normalize_numbers);
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn normal(number: &Number) -> Option<Number> {
    if number.is_i64() {
        return None;
    }
    let float = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and to fit"
    )]
    if float.fract() == 0.0 && float.abs() <= WHOLE_FLOAT_MAX {
        return Some((float as i64).into());
    }
    Number::from_f64(float)
}
