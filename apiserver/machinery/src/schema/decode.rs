//! Decoding: a document read into a type, and written again as the type defines it.
//!
//! One pass over the document in its own order, as faults are reported in that order. A document
//! that may have a fault is read again, with the path to each value recorded. The names of wrong
//! types and the precedence of faults follow `sigs.k8s.io/json`: the first wrong type is remembered
//! while reading continues, but a value that its own type refuses (a time, a quantity) ends the
//! reading at once.

mod state;
#[cfg(test)]
mod tests;
mod unique;

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::builtin::{JSON_PATCH, json_schema_props};
use super::quantity::Quantity;
use super::time::{self, Precision};
use super::{Alternative, Object, Schema, bytes, syntax_error};
use crate::json::{Map, Name, Number, Value};
use crate::nesting::{self, Reader};
use state::{State, Traces};
use unique::Unique;
pub use unique::unique_fields;

/// The treatment of unknown and duplicate fields: the query parameter `fieldValidation`. The server
/// never stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum FieldValidation {
    /// Unknown and duplicate fields are dropped without a warning.
    Ignore,
    /// Unknown and duplicate fields are dropped, with a warning for each.
    Warn,
    /// The document is refused.
    Strict,
}

impl FieldValidation {
    /// The parameter's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// A document as its type has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object: pruned, normalized, with the zero values that Go encodes.
    pub value: Value,
    /// Warnings, such as `unknown field "spec.foo"`.
    pub warnings: Vec<String>,
}

/// Why a document cannot be an object of its type. The text is upstream's, without the kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The document is not JSON.
    #[error("{0}")]
    Syntax(String),
    /// A value is not of the type of its field.
    #[error("{0}")]
    Type(String),
    /// Unknown and duplicate fields under [`FieldValidation::Strict`].
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
}

/// Decodes a JSON document.
///
/// # Errors
///
/// When the document is not JSON, a value has the wrong type, or strict validation finds a fault.
pub fn decode_json(
    object: &Arc<Object>,
    json: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    decode_text(&Schema::Object(Arc::clone(object)), json, validation)
}

/// Returns the duplicate and unknown members of a JSON patch's operations.
///
/// # Errors
///
/// The document is not JSON, or not a list of operations.
pub fn json_patch_faults(json: &[u8]) -> Result<Vec<String>, DecodeError> {
    Ok(decode_text(&JSON_PATCH, json, FieldValidation::Warn)?.warnings)
}

fn decode_text(
    schema: &Schema,
    json: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    if let Some(value) = decode_faultless(schema, json, validation) {
        return Ok(Decoded {
            value,
            warnings: Vec::new(),
        });
    }
    decode_whole(schema, json, validation).map_err(|err| match syntax_error(json) {
        Some(message) => DecodeError::Syntax(message),
        None => err,
    })
}

/// Returns the object in a JSON document without faults; most documents have none, and this path
/// does not track positions. A quantity written as a number counts as a fault.
#[must_use]
pub fn decode_orderly(
    object: &Arc<Object>,
    json: &[u8],
    validation: FieldValidation,
) -> Option<Value> {
    decode_faultless(&Schema::Object(Arc::clone(object)), json, validation)
}

fn decode_faultless(schema: &Schema, json: &[u8], validation: FieldValidation) -> Option<Value> {
    let mut reader = Reader::new(json)?;
    let decoded = decode(schema, &mut reader, validation, Traces::No).ok()?;
    reader.end().ok()?;
    decoded.warnings.is_empty().then_some(decoded.value)
}

fn decode_whole(
    schema: &Schema,
    json: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let mut decoded = None;
    let read = nesting::read(json, |deserializer| {
        decoded = Some(decode(schema, deserializer, validation, Traces::InText));
        match &decoded {
            Some(Err(error)) => Err(serde_json::Error::custom(error)),
            _ => Ok(()),
        }
    });
    match (decoded, read) {
        (Some(Err(error)), _) => Err(error),
        (Some(decoded), Ok(())) => decoded,
        (_, Err(error)) => Err(syntax(error)),
        (None, Ok(())) => unreachable!(),
    }
}

fn syntax(err: serde_json::Error) -> DecodeError {
    DecodeError::Syntax(err.to_string())
}

/// Decodes a parsed document, such as the outcome of a patch; its fields are taken in order of
/// their names, as Go writes maps.
///
/// # Errors
///
/// When a value has the wrong type, or strict validation finds a fault.
pub fn decode_value(
    object: &Arc<Object>,
    value: Value,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let schema = Schema::Object(Arc::clone(object));
    decode(&schema, value, validation, Traces::InValue)
}

/// A value of a type that decodes itself, out of a map of fields; the text is that of the type.
///
/// # Errors
///
/// When the type refuses the value.
pub(super) fn decode_scalar(schema: &Schema, value: Value) -> Result<Value, DecodeError> {
    decode(schema, value, FieldValidation::Ignore, Traces::InValue).map(|decoded| decoded.value)
}

/// The duplicate fields of a JSON document of any type: `duplicate field "spec.replicas"`.
/// Text that is not JSON has none.
#[must_use]
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    if let Ok(Unique(true)) = nesting::from_slice(json) {
        return Vec::new();
    }
    let mut state = State::new(true, Traces::InText);
    let read = Node {
        schema: &Schema::Any,
        state: &mut state,
    };
    match nesting::read(json, |deserializer| read.deserialize(deserializer)) {
        Ok(_) => state.strict,
        Err(_) => Vec::new(),
    }
}

fn decode<'de, D: Deserializer<'de>>(
    schema: &Schema,
    deserializer: D,
    validation: FieldValidation,
    traces: Traces,
) -> Result<Decoded, DecodeError> {
    let mut state = State::new(validation != FieldValidation::Ignore, traces);
    let read = Node {
        schema,
        state: &mut state,
    };
    let read = read.deserialize(deserializer);
    if let Some(message) = state.refused {
        return Err(DecodeError::Type(message));
    }
    let value = read.map_err(|err| DecodeError::Syntax(err.to_string()))?;
    if let Some(message) = state.mismatch {
        return Err(DecodeError::Type(message));
    }
    if validation == FieldValidation::Strict && !state.strict.is_empty() {
        return Err(DecodeError::Strict(state.strict));
    }
    Ok(Decoded {
        value: value.unwrap_or_else(|| schema.zero()),
        warnings: state.strict,
    })
}

/// A number as Go writes a float: whole ones without a fraction.
pub(super) fn float(number: &Number) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and to fit"
    )]
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 1e18 => (float as i64).into(),
        _ => Value::Number(number.clone()),
    }
}

/// The state of a field while an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    No,
    /// The value leaves the field as if it were absent.
    Unset,
    Set,
}

/// Reads one value; `None` when it is null or was not understood.
struct Node<'n, 's> {
    schema: &'s Schema,
    state: &'n mut State<'s>,
}

impl<'s> Node<'_, 's> {
    fn refuse<E: Error>(self, message: String) -> Result<Option<Value>, E> {
        let error = E::custom(&message);
        self.state.refused = Some(message);
        Err(error)
    }

    /// The answer to a value that the type has no place for.
    fn mismatch<E: Error>(self, value: &str) -> Result<Option<Value>, E> {
        match self.schema {
            Schema::Time | Schema::MicroTime | Schema::IntOrString => {
                let message = self.state.unmarshal_error(value, &self.schema.go_type());
                self.refuse(message)
            }
            Schema::Quantity => self.refuse(super::quantity::ParseError::Format.to_string()),
            schema => {
                self.state.mismatch(value, &schema.go_type());
                Ok(None)
            }
        }
    }

    fn number<E: Error>(self, number: Number) -> Result<Option<Value>, E> {
        let integer = number.as_i64();
        let fits = |integer| i32::try_from(integer).is_ok();
        match self.schema {
            Schema::Any => Ok(Some(Value::Number(number))),
            Schema::Float => Ok(Some(float(&number))),
            Schema::Int64 if integer.is_some() => Ok(Some(Value::Number(number))),
            Schema::Int32 | Schema::IntOrString if integer.is_some_and(fits) => {
                Ok(Some(Value::Number(number)))
            }
            schema if self.state.traces == Traces::InValue => match schema {
                Schema::Quantity => self.quantity(&number.to_string()),
                Schema::Int32 | Schema::Int64 | Schema::IntOrString => {
                    self.mismatch(&format!("number {number}"))
                }
                _ => self.mismatch("number"),
            },
            _ => self.mismatch("number"),
        }
    }

    /// Reads a value whose type depends on the spelling of a number: Go does not read 1.0 as an
    /// integer.
    fn literal<E: Error>(self, json: &str) -> Result<Option<Value>, E> {
        let integer = |parsed: Option<i64>| parsed.map(|integer| Value::Number(integer.into()));
        let found = match (json.as_bytes().first(), self.schema) {
            (Some(b'n'), _) => return Ok(None),
            (Some(b'{'), _) => return self.mismatch("object"),
            (Some(b'['), _) => return self.mismatch("array"),
            (Some(b't' | b'f'), _) => return self.mismatch("bool"),
            (Some(b'"'), _) => {
                let text: String = serde_json::from_str(json).map_err(Error::custom)?;
                return self.visit_str(&text);
            }
            (_, Schema::Quantity) => return self.quantity(json),
            (_, Schema::Int64) => integer(json.parse().ok()),
            _ => integer(json.parse::<i32>().ok().map(i64::from)),
        };
        match found {
            Some(number) => Ok(Some(number)),
            None => self.mismatch(&format!("number {json}")),
        }
    }

    fn quantity<E: Error>(self, text: &str) -> Result<Option<Value>, E> {
        match Quantity::parse(text.trim()) {
            Ok(quantity) => Ok(Some(quantity.to_string().into())),
            Err(err) => self.refuse(err.to_string()),
        }
    }

    fn time<E: Error>(self, text: &str, precision: Precision) -> Result<Option<Value>, E> {
        match time::normalize(text, precision) {
            Ok(text) => Ok(text.map(Value::from)),
            Err(message) => self.refuse(message),
        }
    }

    /// Reads a schema or its alternative. Unknown fields in it are not reported.
    fn json_schema_or<E: Error>(
        self,
        other: Alternative,
        value: Value,
    ) -> Result<Option<Value>, E> {
        let decode = |schema| decode_value(json_schema_props(), schema, FieldValidation::Ignore);
        let decoded = match (value, other) {
            (schema @ Value::Object(_), _) => decode(schema).map(|decoded| decoded.value),
            (Value::Array(items), Alternative::Array) => {
                let items = items.into_iter().map(|item| Ok(decode(item)?.value));
                items.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            (Value::Bool(allowed), Alternative::Bool) => Ok(allowed.into()),
            (_, Alternative::Bool) => {
                return self.refuse("boolean or JSON schema expected".to_owned());
            }
            (names @ Value::Array(_), Alternative::StringArray) => Ok(names),
            (_, Alternative::Array | Alternative::StringArray) => Ok(Value::Null),
        };
        match decoded {
            Ok(value) => Ok(Some(value)),
            Err(err) => self.refuse(err.to_string()),
        }
    }

    /// Reads an entry of a list or a map.
    fn child<'m>(&'m mut self, schema: &'s Schema) -> Node<'m, 's> {
        Node {
            schema,
            state: &mut *self.state,
        }
    }

    fn object<'de, A: MapAccess<'de>>(
        mut self,
        object: &'s Object,
        mut map: A,
    ) -> Result<Option<Value>, A::Error> {
        let fields = object.fields();
        let mut seen = vec![Seen::No; fields.len()];
        let mut out = Map::with_capacity(fields.len().min(8));
        let mark = self.state.mark();
        while let Some(Name(key)) = map.next_key()? {
            let Some(at) = object.position(&key) else {
                self.state.strict_fault("unknown", &key);
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen[at] != Seen::No {
                self.state.strict_fault("duplicate", &key);
            }
            let field = &fields[at];
            self.state.enter_field(&object.name, field);
            let value = map.next_value_seed(self.child(&field.schema))?;
            self.state.back_to(&mark);
            match value {
                Some(value) if field.omits(&value) => {
                    out.remove(&key);
                    seen[at] = Seen::Unset;
                }
                Some(value) => {
                    out.insert(key, value);
                    seen[at] = Seen::Set;
                }
                // Null, or of a wrong type: an earlier value stays.
                None if seen[at] == Seen::No => seen[at] = Seen::Unset,
                None => {}
            }
        }
        // Most types have few fields that are encoded although nothing was said of them, or none.
        for (name, value) in object.nothing().as_object().into_iter().flatten() {
            let at = object.position(name).expect("it is a field");
            if seen[at] != Seen::Set {
                out.insert(name.clone(), value.clone());
            }
        }
        Ok(Some(Value::Object(out)))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.schema {
            Schema::Raw => Option::<Value>::deserialize(deserializer),
            Schema::JsonSchemaOr(other) => {
                let value = Option::<Value>::deserialize(deserializer)?;
                value.map_or(Ok(None), |value| self.json_schema_or(*other, value))
            }
            Schema::Int32 | Schema::Int64 | Schema::Quantity | Schema::IntOrString
                if self.state.traces == Traces::InText =>
            {
                let json = Box::<RawValue>::deserialize(deserializer)?;
                self.literal(json.get())
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.schema.go_type())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        match self.schema {
            Schema::Bool | Schema::Any => Ok(Some(value.into())),
            _ => self.mismatch("bool"),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.number(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.number(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        self.number(Number::from_f64(value).expect("JSON has only finite numbers"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match self.schema {
            Schema::String(_) | Schema::IntOrString | Schema::Any => Ok(Some(text.into())),
            Schema::Time => self.time(text, Precision::Seconds),
            Schema::MicroTime => self.time(text, Precision::Micros),
            Schema::Quantity => self.quantity(text),
            Schema::Bytes => match bytes::normalize(text) {
                Ok(text) => Ok(Some(text.into())),
                Err(message) => {
                    self.state.mismatch.get_or_insert(message);
                    Ok(None)
                }
            },
            _ => self.mismatch("string"),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self::Value, A::Error> {
        let items = match self.schema {
            Schema::Array(array) => &array.items,
            Schema::Any => &Schema::Any,
            Schema::Bytes => {
                let mut octets = Vec::new();
                while let Some(octet) = seq.next_element_seed(self.child(&Schema::Int64))? {
                    let octet = octet.as_ref().and_then(Value::as_u64);
                    octets.push(octet.and_then(|own| u8::try_from(own).ok()).unwrap_or(0));
                }
                return Ok(Some(bytes::encode(&octets).into()));
            }
            _ => {
                IgnoredAny.visit_seq(seq)?;
                return self.mismatch("array");
            }
        };
        let mark = self.state.mark();
        let mut out = Vec::new();
        loop {
            self.state.enter_index(out.len());
            let item = seq.next_element_seed(self.child(items))?;
            self.state.back_to(&mark);
            match item {
                Some(item) => out.push(item.unwrap_or_else(|| items.zero())),
                None => return Ok(Some(Value::Array(out))),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let values = match self.schema {
            Schema::Object(object) => return self.object(object, map),
            Schema::Map(values) => &values.values,
            Schema::Any => &Schema::Any,
            _ => {
                IgnoredAny.visit_map(map)?;
                return self.mismatch("object");
            }
        };
        let mark = self.state.mark();
        let mut out = Map::new();
        while let Some(Name(key)) = map.next_key()? {
            if self.state.checks && out.contains_key(&key) {
                self.state.strict_fault("duplicate", &key);
            }
            self.state.enter_key(&key);
            let value = map.next_value_seed(self.child(values))?;
            self.state.back_to(&mark);
            out.insert(key, value.unwrap_or_else(|| values.empty_entry()));
        }
        Ok(Some(Value::Object(out)))
    }
}
