//! Objects as messages, written as the marshalers generated for Go write them: fields by number,
//! map entries by key, and zero values for everything except pointers.

use std::cell::RefCell;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;

use super::super::builtin::{json_schema_props, list_meta, written_type};
use super::super::number::write_json;
use super::super::{Alternative, Array, Object, Schema};
use super::layout::{Message, Slot};
use super::wire::WireType;
use super::writer::Writer;
use crate::json::{Map, Value};
use crate::meta::fields::resting;

/// The Go types of lists that are messages of their own wherever they are.
const WRAPPED_LISTS: [&str; 1] = ["v1.Verbs"];

/// The most room for writing that is kept between objects, in bytes.
const SCRATCH_MAX: usize = 64 * 1024;

thread_local! {
    /// Where objects are written before their length is known.
    static SCRATCH: RefCell<Writer> = RefCell::default();
}

/// An object in its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    bytes: Bytes,
    /// Where the message is, without its type: an item of a list.
    message: Range<usize>,
}

impl Document {
    /// Returns the whole document.
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Returns the message, which does not contain its type.
    pub fn message(&self) -> &[u8] {
        &self.bytes[self.message.clone()]
    }
}

/// Encodes an object of any kind; `None` for a kind without a message, such as a custom one.
pub fn encode(object: &Value) -> Option<Document> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let schema = written_type(api_version, kind)?;
    let fields = object.as_object()?;
    Some(document(api_version, kind, |writer| {
        Encoder::new(writer).message(schema, fields);
    }))
}

/// Encodes the part of a list before its items, which are `items_length` bytes with their tags; behind
/// them is [`ENVELOPE_END`].
pub fn list_head(
    api_version: &str,
    list_kind: &str,
    metadata: &Value,
    items_length: usize,
) -> Vec<u8> {
    let mut writer = Writer::default();
    if let Some(fields) = metadata.as_object() {
        Encoder::new(&mut writer).message(list_meta(), fields);
    }
    writer.enclose(1, 0);
    let length = writer.len() + items_length;
    write_head(&mut writer, api_version, list_kind, length);
    writer.written().to_vec()
}

/// Returns how many bytes an item of a list has with its tag.
pub fn item_length(message: &[u8]) -> usize {
    1 + varint_length(message.len() as u64) + message.len()
}

/// Adds an item to the bytes of a list.
pub fn push_item(list: &mut Vec<u8>, message: &[u8]) {
    push_bytes(list, 2, message);
}

/// Encodes an event of a watch: its length, and a message with the object in its envelope.
pub fn watch_frame(event_type: &str, document: &[u8]) -> Bytes {
    let extension = item_length(document);
    let length = 2 + event_type.len() + 1 + varint_length(extension as u64) + extension;
    let mut frame = Vec::with_capacity(4 + length);
    let prefix = u32::try_from(length).expect("no object is as large as 4 GiB");
    frame.extend_from_slice(&prefix.to_be_bytes());
    push_bytes(&mut frame, 1, event_type.as_bytes());
    push_head(&mut frame, 2, extension);
    push_bytes(&mut frame, 1, document);
    frame.into()
}

fn push_bytes(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    push_head(message, number, content.len());
    message.extend_from_slice(content);
}

/// Adds the tag and the length of bytes.
fn push_head(message: &mut Vec<u8>, number: u8, length: usize) {
    message.push(number << 3 | WireType::Bytes as u8);
    let mut rest = length as u64;
    while rest >= 0x80 {
        message.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    message.push(rest as u8);
}

fn varint_length(number: u64) -> usize {
    let bits = u64::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Writes the envelope of a message: the version and kind of the object, the message, and neither
/// an encoding nor a type of content.
pub(super) fn document(api_version: &str, kind: &str, write: impl FnOnce(&mut Writer)) -> Document {
    SCRATCH.with_borrow_mut(|writer| {
        writer.put(ENVELOPE_END);
        write(writer);
        let length = writer.len() - ENVELOPE_END.len();
        write_head(writer, api_version, kind, length);
        let bytes = Bytes::copy_from_slice(writer.written());
        writer.clear(SCRATCH_MAX);
        let end = bytes.len() - ENVELOPE_END.len();
        Document {
            bytes,
            message: end - length..end,
        }
    })
}

/// How an envelope ends: `contentEncoding` and `contentType`, both empty.
pub const ENVELOPE_END: &[u8] = b"\x1a\0\x22\0";

/// Writes the part of an envelope before a message of `length` bytes.
pub(super) fn write_head(writer: &mut Writer, api_version: &str, kind: &str, length: usize) {
    writer.varint(length as u64);
    writer.tag(2, WireType::Bytes);
    let end = writer.len();
    writer.bytes(2, kind.as_bytes());
    writer.bytes(1, api_version.as_bytes());
    writer.enclose(1, end);
    writer.put(super::PREFIX);
}

/// A walk through an object.
pub(super) struct Encoder<'w, 'v> {
    writer: &'w mut Writer,
    /// The fields with a value of the messages around, by their ranks, each message after the one
    /// around it.
    present: Vec<(u16, &'v Value)>,
}

impl<'w, 'v> Encoder<'w, 'v> {
    pub(super) fn new(writer: &'w mut Writer) -> Self {
        Self {
            writer,
            present: Vec::with_capacity(32),
        }
    }

    /// Writes the message of `fields`, which are those of `object`; fields that it does not declare
    /// are left out.
    pub(super) fn message(&mut self, object: &Object, fields: &'v Map) {
        let layout = object.layout();
        let start = self.present.len();
        for (name, value) in fields {
            if !value.is_null()
                && let Some(position) = object.position(name)
                && let Some(rank) = layout.rank(position)
            {
                self.present.push((rank, value));
            }
        }
        self.present[start..].sort_unstable_by_key(|(rank, _)| *rank);
        self.slots(object, &layout.message, start);
    }

    /// Writes `message` with the values from `start` on, and takes them away.
    fn slots(&mut self, object: &Object, message: &Message, start: usize) {
        let mut end = message.slots.len();
        while self.present.len() > start {
            let (rank, value) = self.present[self.present.len() - 1];
            let slot = message.slot(rank);
            self.writer.put(message.unset(slot + 1..end));
            match &message.slots[slot] {
                Slot::Field { number, position } => {
                    self.present.pop();
                    self.field(*number, &object.fields()[*position].schema, value);
                }
                Slot::Inlined { number, message } => {
                    let own = &self.present[start..];
                    let before = own.partition_point(|(rank, _)| *rank < message.first_rank);
                    let mark = self.writer.len();
                    self.slots(object, message, start + before);
                    self.writer.enclose(*number, mark);
                }
            }
            end = slot;
        }
        self.writer.put(message.unset(0..end));
    }

    /// Writes a field with a value: each item of a list, and each entry of a map, for itself.
    fn field(&mut self, number: u32, schema: &Schema, value: &'v Value) {
        match (schema, value) {
            (Schema::Array(array), Value::Array(items)) if !is_wrapped(array) => {
                for item in items.iter().rev() {
                    self.element(number, &array.items, item);
                }
            }
            (Schema::Map(map), Value::Object(entries)) => {
                for (key, entry) in entries.iter().rev() {
                    let end = self.writer.len();
                    if !(entry.is_null() && matches!(map.values, Schema::Bytes)) {
                        self.element(2, &map.values, entry);
                    }
                    self.writer.bytes(1, key.as_bytes());
                    self.writer.enclose(number, end);
                }
            }
            _ => self.element(number, schema, value),
        }
    }

    /// Writes one value with its tag.
    fn element(&mut self, number: u32, schema: &Schema, value: &'v Value) {
        match schema {
            Schema::Bool => {
                let set = value.as_bool().unwrap_or_default();
                self.writer.number(number, u64::from(set));
            }
            Schema::Int32 | Schema::Int64 => {
                let integer = value.as_i64().unwrap_or_default();
                self.writer.number(number, integer.cast_unsigned());
            }
            Schema::Float => {
                let float = value.as_f64().unwrap_or_default();
                self.writer.put(&float.to_le_bytes());
                self.writer.tag(number, WireType::Fixed64);
            }
            Schema::String(_) => self.writer.bytes(number, text(value).as_bytes()),
            Schema::Bytes => {
                let bytes = STANDARD.decode(text(value)).unwrap_or_default();
                self.writer.bytes(number, &bytes);
            }
            _ => {
                let end = self.writer.len();
                self.content(schema, value);
                self.writer.enclose(number, end);
            }
        }
    }

    /// Writes the message of a struct, a time, a quantity or another value of many fields.
    fn content(&mut self, schema: &Schema, value: &'v Value) {
        match (schema, value) {
            (Schema::Object(object), Value::Object(fields)) => self.message(object, fields),
            (Schema::Object(object), _) => {
                let message = &object.layout().message;
                self.writer.put(message.unset(0..message.slots.len()));
            }
            (Schema::Time, value) => self.time(text(value), 1_000_000_000),
            (Schema::MicroTime, value) => self.time(text(value), 1000),
            (Schema::Quantity, Value::Number(number)) => {
                self.writer.bytes(1, number.to_string().as_bytes());
            }
            (Schema::Quantity, value) => self.writer.bytes(1, text(value).as_bytes()),
            (Schema::IntOrString, Value::String(text)) => {
                self.writer.bytes(3, text.as_bytes());
                self.writer.number(2, 0);
                self.writer.number(1, 1);
            }
            (Schema::IntOrString, value) => {
                let integer = value.as_i64().unwrap_or_default();
                self.writer.bytes(3, b"");
                self.writer.number(2, integer.cast_unsigned());
                self.writer.number(1, 0);
            }
            (Schema::JsonSchemaOr(other), value) => self.json_schema_or(*other, value),
            (Schema::Any | Schema::Raw, value) => self.raw(value),
            // A list inside of something else is a message with the items.
            (Schema::Array(array), Value::Array(items)) => {
                for item in items.iter().rev() {
                    self.element(1, &array.items, item);
                }
            }
            _ => {}
        }
    }

    /// Writes a time as seconds and nanoseconds, of which whole units of `nanos_unit` are kept.
    fn time(&mut self, text: &str, nanos_unit: i32) {
        let Ok(time) = text.parse::<Timestamp>() else {
            return;
        };
        // Seconds before 1970 are counted down to, and nanoseconds up from them.
        let (mut seconds, mut nanos) = (time.as_second(), time.subsec_nanosecond());
        if nanos < 0 {
            seconds -= 1;
            nanos += 1_000_000_000;
        }
        let nanos = i64::from(nanos - nanos % nanos_unit);
        self.writer.number(2, nanos.cast_unsigned());
        self.writer.number(1, seconds.cast_unsigned());
    }

    /// Writes a value that is JSON even in protobuf.
    fn raw(&mut self, value: &Value) {
        if value.is_null() {
            return;
        }
        match resting(value) {
            Some(json) => self.writer.bytes(1, json.as_bytes()),
            None => {
                let mut json = Vec::new();
                write_json(&mut json, value);
                self.writer.bytes(1, &json);
            }
        }
    }

    /// Writes a schema or its alternative: a message with a field for each.
    fn json_schema_or(&mut self, other: Alternative, value: &'v Value) {
        let (schema_number, other_number) = match other {
            Alternative::Array => (1, 2),
            Alternative::Bool => (2, 1),
            Alternative::StringArray => (1, 2),
        };
        match value {
            Value::Object(fields) => {
                let end = self.writer.len();
                self.message(json_schema_props(), fields);
                self.writer.enclose(schema_number, end);
                if other == Alternative::Bool {
                    self.writer.number(other_number, 1);
                }
            }
            Value::Bool(allows) => self.writer.number(other_number, u64::from(*allows)),
            Value::Array(items) => {
                for item in items.iter().rev() {
                    match item {
                        Value::Object(fields) => {
                            let end = self.writer.len();
                            self.message(json_schema_props(), fields);
                            self.writer.enclose(other_number, end);
                        }
                        item => self.writer.bytes(other_number, text(item).as_bytes()),
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a list is a message of its own.
fn is_wrapped(array: &Array) -> bool {
    let name = array.go_type.as_deref();
    name.is_some_and(|name| WRAPPED_LISTS.contains(&name))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
