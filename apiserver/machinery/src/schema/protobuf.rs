//! Documents in protobuf: an envelope that names the kind, around the message of its type.
//!
//! A message has numbers where JSON has names, see [`Field::proto`](super::Field::proto), and
//! distinguishes null from zero only where Go has a pointer. A decoded document is not normalized
//! yet; an encoded one has the bytes of the marshalers generated for Go.

mod encode;
mod layout;
mod wire;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::builtin::{json_schema_props, list_meta, written_type};
use super::{Alternative, Field, FieldValidation, Object, Schema, decode_value, syntax_error};
use crate::json::{Map, Value};
use crate::nesting;
use wire::{Reader, Wire, int32};

pub use encode::{Document, ENVELOPE_END, encode, item_length, list_head, push_item, watch_frame};
pub(super) use layout::Layout;
pub use wire::Error;

/// The prefix of every encoded object.
const PREFIX: &[u8] = b"k8s\0";

/// How deep messages may be nested; the types of the API stay far below.
const DEPTH_MAX: usize = 64;

/// A `runtime.Unknown`: an object by its kind, not decoded yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// Group and version, empty when the client named none.
    pub api_version: String,
    /// The kind, empty when the client named none.
    pub kind: String,
    /// The message.
    pub raw: &'b [u8],
}

/// Opens the envelope of an encoded object.
///
/// # Errors
///
/// The envelope is missing or malformed.
pub fn envelope(body: &[u8]) -> Result<Envelope<'_>, Error> {
    let refused = |why: &str| Err(Error::Value(why.to_owned()));
    if body.is_empty() {
        return refused("empty data");
    }
    let Some(message) = body.strip_prefix(PREFIX) else {
        return refused(&format!(
            "provided data does not appear to be a protobuf message, expected prefix {}",
            go_bytes(PREFIX)
        ));
    };
    if message.is_empty() {
        return refused("empty body");
    }
    let mut envelope = Envelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
    };
    let mut unknown = Reader::new(message);
    while let Some((number, value)) = unknown.field("Unknown")? {
        match number {
            1 => {
                let mut type_meta = Reader::new(value.bytes("typeMeta")?);
                while let Some((number, value)) = type_meta.field("TypeMeta")? {
                    match number {
                        1 => envelope.api_version = text(value.bytes("aPIVersion")?),
                        2 => envelope.kind = text(value.bytes("kind")?),
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = value.bytes("raw")?,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Bytes as Go prints them: `[107 56 115 0]`.
fn go_bytes(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(u8::to_string).collect();
    format!("[{}]", bytes.join(" "))
}

/// Decodes the message of an object. Fields that the type does not have are passed over.
///
/// # Errors
///
/// When the message is malformed, or not of this type.
pub fn decode(object: &Object, message: &[u8]) -> Result<Value, Error> {
    let mut fields = Map::new();
    read_fields(object, &[], message, DEPTH_MAX, &mut fields)?;
    Ok(Value::Object(fields))
}

/// Decodes a response of the server: an object of a built-in kind, a list of them, a `Status`.
///
/// Returns `None` for a message that is malformed or of another kind.
#[must_use]
pub fn decode_answer(body: &[u8]) -> Option<Value> {
    let Envelope {
        api_version,
        kind,
        raw,
    } = envelope(body).ok()?;
    let list = || {
        let item = written_type(&api_version, kind.strip_suffix("List")?)?;
        Some(Arc::new(list_of(&kind, item)))
    };
    let of_kind = written_type(&api_version, &kind).cloned();
    let object = of_kind.or_else(list)?;
    let fields = decode(&object, raw).ok()?;
    let decoded = decode_value(&object, fields, FieldValidation::Ignore).ok()?;
    let mut value = decoded.value;
    value["kind"] = kind.into();
    value["apiVersion"] = api_version.into();
    Some(value)
}

/// The type of a list.
fn list_of(kind: &str, item: &Arc<Object>) -> Object {
    let items = Schema::list(Schema::Object(Arc::clone(item)), None, &[]);
    let fields = [
        ("metadata", Schema::Object(Arc::clone(list_meta())), 1),
        ("items", items, 2),
    ];
    let fields = fields.map(|(name, schema, number)| Field {
        pointer: false,
        omit_empty: false,
        proto: vec![number],
        ..Field::optional(name, schema)
    });
    Object::custom(kind, fields.into())
}

/// Reads the message at `prefix` of `object`, which is empty but for messages that JSON inlines.
fn read_fields(
    object: &Object,
    prefix: &[u32],
    message: &[u8],
    depth: usize,
    out: &mut Map,
) -> Result<(), Error> {
    let depth = depth.checked_sub(1).ok_or(Error::Depth)?;
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field(&object.name)? {
        let has_number = |proto: &[u32]| {
            let inner = proto.strip_prefix(prefix);
            inner.is_some_and(|inner| inner.first() == Some(&number))
        };
        let mut fields = object.fields().iter();
        let Some(field) = fields.find(|field| has_number(&field.proto)) else {
            continue;
        };
        let path = &field.proto[..=prefix.len()];
        if path.len() < field.proto.len() {
            read_fields(object, path, value.bytes(&field.name)?, depth, out)?;
            continue;
        }
        let place = out.entry(field.name.as_ref()).or_insert(Value::Null);
        read_value(&field.schema, &field.name, value, depth, place)?;
    }
    Ok(())
}

/// Reads a value of the field `name` into `place`, which holds what came before of the same field:
/// items and entries are added, messages merged, others replaced.
fn read_value(
    schema: &Schema,
    name: &str,
    value: Wire<'_>,
    depth: usize,
    place: &mut Value,
) -> Result<(), Error> {
    *place = match schema {
        Schema::Bool => (value.varint(name)? != 0).into(),
        Schema::Int32 => int32(value.varint(name)?).into(),
        Schema::Int64 => value.varint(name)?.cast_signed().into(),
        Schema::String(_) => text(value.bytes(name)?).into(),
        Schema::Bytes => STANDARD.encode(value.bytes(name)?).into(),
        Schema::Time => time(value.bytes(name)?, "%Y-%m-%dT%H:%M:%SZ", 0)?,
        Schema::MicroTime => time(value.bytes(name)?, "%Y-%m-%dT%H:%M:%S.%6fZ", 1000)?,
        Schema::Quantity => quantity(value.bytes(name)?)?,
        Schema::IntOrString => int_or_string(value.bytes(name)?)?,
        Schema::Float => value.double(name)?.into(),
        Schema::JsonSchemaOr(other) => json_schema_or(*other, value.bytes(name)?, depth)?,
        Schema::Any | Schema::Raw => raw(value.bytes(name)?)?,
        Schema::Array(array) => return read_items(&array.items, name, value, depth, place),
        Schema::Map(map) => {
            let (key, entry) = read_entry(&map.values, name, value.bytes(name)?, depth)?;
            entries(place).insert(key, entry);
            return Ok(());
        }
        Schema::Object(object) => {
            let message = value.bytes(name)?;
            return read_fields(object, &[], message, depth, entries(place));
        }
    };
    Ok(())
}

/// Returns the members of `place`; replaces any other value by an empty object.
fn entries(place: &mut Value) -> &mut Map {
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut().expect("it was made an object")
}

/// Reads an item of a list, or numbers that are packed into one value.
fn read_items(
    schema: &Schema,
    name: &str,
    value: Wire<'_>,
    depth: usize,
    place: &mut Value,
) -> Result<(), Error> {
    if !place.is_array() {
        *place = Value::Array(Vec::new());
    }
    let items = place.as_array_mut().expect("it was made an array");
    let mut add = |value| {
        let item = read_element(schema, name, value, depth)?;
        items.push(item);
        Ok(())
    };
    match (schema, value) {
        (Schema::Bool | Schema::Int32 | Schema::Int64, Wire::Bytes(packed)) => {
            let mut packed = Reader::new(packed);
            while !packed.is_empty() {
                add(Wire::Varint(packed.varint()?))?;
            }
            Ok(())
        }
        _ => add(value),
    }
}

/// Reads an item of a list or a value of a map. A list, which can't be repeated itself, is there
/// wrapped in a message of its own.
fn read_element(
    schema: &Schema,
    name: &str,
    value: Wire<'_>,
    depth: usize,
) -> Result<Value, Error> {
    let mut element = Value::Null;
    if !matches!(schema, Schema::Array(_)) {
        read_value(schema, name, value, depth, &mut element)?;
        return Ok(element);
    }
    let depth = depth.checked_sub(1).ok_or(Error::Depth)?;
    let mut wrapper = Reader::new(value.bytes(name)?);
    while let Some((number, value)) = wrapper.field(name)? {
        if number == 1 {
            read_value(schema, "items", value, depth, &mut element)?;
        }
    }
    Ok(element)
}

fn read_entry(
    values: &Schema,
    name: &str,
    entry: &[u8],
    depth: usize,
) -> Result<(String, Value), Error> {
    let (mut key, mut found) = (String::new(), values.zero());
    let mut reader = Reader::new(entry);
    while let Some((number, value)) = reader.field(name)? {
        match number {
            1 => key = text(value.bytes(name)?),
            2 => found = read_element(values, name, value, depth)?,
            _ => {}
        }
    }
    Ok((key, found))
}

/// A string as Go would write it to JSON, whatever its bytes.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A time of seconds and nanoseconds, of which whole units of `nanos_unit` are kept, 0 for none.
/// The zero time, which Go writes as null, is an empty message.
fn time(message: &[u8], format: &str, nanos_unit: i32) -> Result<Value, Error> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field("Timestamp")? {
        match number {
            1 => seconds = value.varint("seconds")?.cast_signed(),
            2 => nanos = int32(value.varint("nanos")?),
            _ => {}
        }
    }
    let nanos = nanos.checked_rem(nanos_unit).map_or(0, |rest| nanos - rest);
    let time = Timestamp::new(seconds, nanos).map_err(|err| Error::Value(err.to_string()))?;
    Ok(time.strftime(format).to_string().into())
}

fn quantity(message: &[u8]) -> Result<Value, Error> {
    let mut amount = "0".to_owned();
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field("Quantity")? {
        if number == 1 {
            amount = text(value.bytes("string_")?);
        }
    }
    Ok(amount.into())
}

fn int_or_string(message: &[u8]) -> Result<Value, Error> {
    let (mut kind, mut number, mut string) = (0, 0, String::new());
    let mut reader = Reader::new(message);
    while let Some((field, value)) = reader.field("IntOrString")? {
        match field {
            1 => kind = value.varint("type")?,
            2 => number = int32(value.varint("intVal")?),
            3 => string = text(value.bytes("strVal")?),
            _ => {}
        }
    }
    match kind {
        0 => Ok(number.into()),
        1 => Ok(string.into()),
        _ => Err(Error::Value("impossible IntOrString.Type".to_owned())),
    }
}

/// Reads a schema or its alternative: a message with a field for each.
fn json_schema_or(other: Alternative, message: &[u8], depth: usize) -> Result<Value, Error> {
    let props = Schema::Object(Arc::clone(json_schema_props()));
    let (schema_field, schemas_field) = match other {
        Alternative::Array => (1, Some(2)),
        Alternative::Bool => (2, None),
        Alternative::StringArray => (1, None),
    };
    let mut found = match other {
        Alternative::Bool => Value::Bool(false),
        Alternative::Array | Alternative::StringArray => Value::Null,
    };
    let mut schema = Value::Null;
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field("JSONSchemaProps")? {
        if number == schema_field {
            read_value(&props, "schema", value, depth, &mut schema)?;
        } else if Some(number) == schemas_field {
            read_items(&props, "jSONSchemas", value, depth, &mut found)?;
        } else if other == Alternative::Bool && number == 1 {
            found = (value.varint("allows")? != 0).into();
        } else if other == Alternative::StringArray && number == 2 {
            let strings = Schema::String("string".into());
            read_items(&strings, "property", value, depth, &mut found)?;
        }
    }
    Ok(if schema.is_null() { found } else { schema })
}

/// A value that is JSON even in protobuf; null when it is empty.
fn raw(message: &[u8]) -> Result<Value, Error> {
    let mut json: &[u8] = &[];
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field("RawExtension")? {
        if number == 1 {
            json = value.bytes("raw")?;
        }
    }
    if json.is_empty() {
        return Ok(Value::Null);
    }
    nesting::from_slice(json)
        .map_err(|err| Error::Value(syntax_error(json).unwrap_or_else(|| err.to_string())))
}
