//! OpenAPI documents as protobuf, in the messages of gnostic, for v2 clients such as kubectl.
//!
//! The messages are data: which keyword goes into which field, and as what.

mod messages;

use bytes::Bytes;

use crate::json::{Map, Value};

/// A message: its fields by keywords.
pub(super) struct Message {
    fields: &'static [Field],
    /// The field of keywords that begin with `x-`, unless 0.
    extensions: u32,
    /// The field of all other keywords, by name, unless 0, and what they hold.
    named: (u32, Kind),
}

/// The field that a keyword goes into.
type Field = (&'static str, u32, Kind);

/// The encoding of a value.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Bool,
    Int,
    Double,
    /// JSON in the `yaml` of an `Any`.
    Any,
    /// A field for each item of an array.
    Each(&'static Kind),
    Message(&'static Message),
    /// A message with only one field, number 1, of this kind.
    Wrapped(&'static Kind),
    /// A message of two alternatives: a reference in field 2, anything else in field 1.
    OrReference(&'static Kind),
    /// Whatever the function says is right for the value: a field and its kind.
    OneOf(fn(&Value) -> (u32, Kind)),
}

/// The v2 document as a `Document` of openapi.v2.
pub(super) fn encode_v2(document: &Value) -> Bytes {
    Bytes::from(message(&messages::V2_DOCUMENT, document))
}

/// A v3 document as a `Document` of openapi.v3.
pub(super) fn encode_v3(document: &Value) -> Bytes {
    Bytes::from(message(&messages::V3_DOCUMENT, document))
}

fn message(message: &Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let empty = Map::new();
    let object = value.as_object().unwrap_or(&empty);
    for (keyword, number, kind) in message.fields {
        if let Some(value) = object.get(keyword) {
            field(&mut out, *number, *kind, value);
        }
    }
    let (named, kind) = message.named;
    let others = object.iter().filter(|(keyword, _)| {
        let mut fields = message.fields.iter();
        fields.all(|(known, ..)| known != keyword)
    });
    for (keyword, value) in others {
        if message.extensions != 0 && keyword.starts_with("x-") {
            delimited(
                &mut out,
                message.extensions,
                &entry(keyword, Kind::Any, value),
            );
        } else if named != 0 {
            delimited(&mut out, named, &entry(keyword, kind, value));
        }
    }
    out
}

/// A name and its value, as the `Named...` messages have them.
fn entry(name: &str, kind: Kind, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    delimited(&mut out, 1, name.as_bytes());
    // A message that is empty is present all the same.
    field(&mut out, 2, kind, value);
    out
}

/// One field, or as many as an array has items.
fn field(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    if let (Value::Array(items), false) = (value, matches!(kind, Kind::Any | Kind::Wrapped(_))) {
        let kind = if let Kind::Each(kind) = kind {
            *kind
        } else {
            kind
        };
        for item in items {
            field(out, number, kind, item);
        }
        return;
    }
    match kind {
        Kind::Each(_) => {} // Not an array.
        Kind::Text => delimited(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Kind::Bool => {
            tag(out, number, 0);
            out.push(u8::from(value.as_bool() == Some(true)));
        }
        Kind::Int => {
            tag(out, number, 0);
            varint(out, value.as_i64().unwrap_or_default().cast_unsigned());
        }
        Kind::Double => {
            tag(out, number, 1);
            out.extend(value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Kind::Any => {
            let mut any = Vec::new();
            delimited(&mut any, 2, format!("{value}\n").as_bytes());
            delimited(out, number, &any);
        }
        Kind::Message(of) => delimited(out, number, &message(of, value)),
        Kind::Wrapped(kind) => {
            let mut inner = Vec::new();
            field(&mut inner, 1, *kind, value);
            delimited(out, number, &inner);
        }
        Kind::OrReference(kind) => {
            let mut inner = Vec::new();
            if value.get("$ref").is_some() {
                field(&mut inner, 2, Kind::Message(&messages::REFERENCE), value);
            } else {
                field(&mut inner, 1, *kind, value);
            }
            delimited(out, number, &inner);
        }
        Kind::OneOf(choose) => {
            let mut inner = Vec::new();
            let (chosen, kind) = choose(value);
            if chosen != 0 {
                field(&mut inner, chosen, kind, value);
            }
            delimited(out, number, &inner);
        }
    }
}

fn delimited(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    tag(out, number, 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    varint(out, u64::from(number << 3 | wire_type));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
