//! The schema engine: the fields of objects, and the decoding of documents.
//!
//! A [`Schema`] is a node of a compiled graph; an [`Object`] node names its fields in declaration
//! order with what patching and applying must know of them. [`builtin`] finds the built-in kinds;
//! [`decode_json`] and [`decode_value`] do what decoding into the Go type and encoding it again
//! does: they find wrong types, unknown and duplicate fields, prune, and normalize. [`convert()`]
//! is stricter with types and laxer with numbers, as the outcome of a strategic merge patch needs.
//!
//! - [`protobuf`]: documents in the binary encoding of the same types
//! - [`structural`]: the schemas of custom resources
//! - [`scheme`]: the kinds that upstream knows, served or not
//! - [`quantity`]: amounts such as `100m` and `1Gi`

mod builtin;
mod bytes;
mod convert;
mod decode;
pub mod duration;
mod encode;
mod inlined;
mod names;
pub mod number;
pub mod protobuf;
pub mod quantity;
mod read;
pub mod scheme;
pub mod structural;
mod syntax;
pub mod time;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use names::NameIndex;

use crate::json::{Map, Value};

pub use builtin::{builtin, core_type, install, object_meta};
pub use convert::{convert, plain};
pub use decode::FieldValidation;
pub use decode::{
    DecodeError, Decoded, decode_json, decode_orderly, decode_value, duplicate_fields,
    json_patch_faults, unique_fields,
};
pub use encode::{write_answer, write_object};
pub use read::{has_object_meta, owned_lengths, read_fields, read_object};
pub use syntax::{readable, syntax_error};
pub use time::instant;

/// The type of a value.
#[derive(Debug)]
pub enum Schema {
    /// Anything, looked into only for duplicate fields.
    Any,
    /// Anything, kept unchanged: `RawExtension`, `FieldsV1`.
    Raw,
    /// A bool.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A number.
    Float,
    /// A string, with the name of its Go type.
    String(Cow<'static, str>),
    /// Bytes, base64 in JSON.
    Bytes,
    /// A time to the second.
    Time,
    /// A time to the microsecond.
    MicroTime,
    /// An amount with a unit.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// `JSONSchemaProps` or something else.
    JsonSchemaOr(Alternative),
    /// A list.
    Array(Box<Array>),
    /// A map with any keys.
    Map(Box<Values>),
    /// A struct.
    Object(Arc<Object>),
}

/// The alternative to a `JSONSchemaProps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// A list of `JSONSchemaProps`.
    Array,
    /// A bool.
    Bool,
    /// A list of strings.
    StringArray,
}

/// The schema of a list.
#[derive(Debug)]
pub struct Array {
    /// The schema of an item.
    pub items: Schema,
    /// How apply treats the list, unless its field says otherwise.
    pub list_type: Option<ListType>,
    /// The keys of the items of a [`ListType::Map`].
    pub list_map_keys: Vec<Cow<'static, str>>,
    go_type: Option<Cow<'static, str>>,
}

/// The schema of a map.
#[derive(Debug)]
pub struct Values {
    /// The schema of a value.
    pub values: Schema,
    /// Whether apply treats the whole map as one value.
    pub atomic: bool,
    go_type: Option<Cow<'static, str>>,
}

/// The schema of a struct.
#[derive(Debug)]
pub struct Object {
    /// The name of the type, such as `DeploymentSpec`.
    pub name: Cow<'static, str>,
    /// Whether apply treats the whole struct as one value.
    pub atomic: bool,
    /// Whether the struct may have undeclared fields.
    pub open: bool,
    /// The Go package the type lives in, such as `apps/v1`.
    package: Cow<'static, str>,
    /// The declaration of a built-in type's fields; they are compiled on first use.
    source: &'static str,
    fields: OnceLock<Fields>,
}

/// The fields of an [`Object`] in declaration order, those of inlined structs in their place.
#[derive(Debug)]
struct Fields {
    list: Vec<Field>,
    names: NameIndex,
    /// The result of [`Object::nothing`].
    nothing: OnceLock<Value>,
    /// How the message of an object is laid out in protobuf.
    layout: OnceLock<protobuf::Layout>,
}

impl From<Vec<Field>> for Fields {
    fn from(list: Vec<Field>) -> Self {
        let names = NameIndex::new(list.iter().map(|field| &*field.name));
        Self {
            list,
            names,
            nothing: OnceLock::new(),
            layout: OnceLock::new(),
        }
    }
}

/// A field of an [`Object`].
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: Cow<'static, str>,
    /// The type of the field.
    pub schema: Schema,
    /// The default value, in custom resources.
    pub default: Option<Value>,
    /// Whether unset differs from zero.
    pub pointer: bool,
    /// Whether an empty value is left out.
    pub omit_empty: bool,
    /// Whether validation is to see (and refuse) an empty list, although the encoding omits it.
    pub keeps_empty: bool,
    /// Whether a zero struct is left out.
    pub omit_zero: bool,
    /// How a strategic merge patch treats the field.
    pub patch_strategy: PatchStrategy,
    /// The key that a strategic merge patch merges a list of objects by.
    pub patch_merge_key: Option<Cow<'static, str>>,
    /// How apply treats a list; without a type, a list is atomic.
    pub list_type: Option<ListType>,
    /// The keys of the items of a [`ListType::Map`].
    pub list_map_keys: Vec<Cow<'static, str>>,
    /// Whether apply treats a map or struct as one value, if the field says so and not its type.
    pub atomic: Option<bool>,
    /// The number of the field in protobuf, after the numbers of the messages that contain it and
    /// that JSON inlines; empty if protobuf lacks the field.
    pub proto: Vec<u32>,
}

/// The strategies in the `patchStrategy` tag of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Items of a list are merged, not replaced.
    pub merge: bool,
    /// A map or struct is replaced, not merged.
    pub replace: bool,
    /// Fields that the patch does not name as retained are dropped.
    pub retain_keys: bool,
}

/// How apply owns the items of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list as a whole.
    Atomic,
    /// Item by item, an item being its own key.
    Set,
    /// Item by item, by the keys of the list.
    Map,
}

impl Object {
    /// Creates the schema of an object without a Go type.
    pub fn custom(name: &str, fields: Vec<Field>) -> Self {
        Self {
            name: Cow::Owned(name.to_owned()),
            atomic: false,
            open: false,
            package: Cow::Borrowed(""),
            source: "",
            fields: Fields::from(fields).into(),
        }
    }

    /// The fields in declaration order, those of inlined structs in their place.
    pub fn fields(&self) -> &[Field] {
        &self.compiled().list
    }

    fn compiled(&self) -> &Fields {
        let compile = || builtin::compile_fields(&self.package, self.source).into();
        self.fields.get_or_init(compile)
    }

    /// The field with this JSON name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        Some(&self.fields()[self.position(name)?])
    }

    /// Where the field with this JSON name is declared.
    fn position(&self, name: &str) -> Option<usize> {
        let Fields { list, names, .. } = self.compiled();
        names.position(name, |at| list[at].name == name)
    }

    fn layout(&self) -> &protobuf::Layout {
        let layout = &self.compiled().layout;
        layout.get_or_init(|| protobuf::Layout::new(self))
    }

    /// Replaces empty lists in `value`, an object of this type, by null: protobuf, in which
    /// upstream stores built-in kinds, does not distinguish the two.
    pub fn forget_empty_lists(&self, value: &mut Value) {
        let Some(values) = value.as_object_mut() else {
            return;
        };
        for (name, value) in values {
            if (value.is_object() || value.is_array())
                && let Some(field) = self.field(name)
            {
                field.schema.forget_empty_lists(value);
            }
        }
    }

    /// Returns the result of [`Self::zero`], computed once.
    pub fn nothing(&self) -> &Value {
        let nothing = &self.compiled().nothing;
        nothing.get_or_init(|| Value::Object(self.zero()))
    }

    /// The object that Go encodes for a struct nothing was decoded into.
    pub fn zero(&self) -> Map {
        let unset = |field: &Field| Some((field.name.clone().into_owned(), field.unset()?));
        self.fields().iter().filter_map(unset).collect()
    }
}

impl Field {
    /// A field that is left out where nothing was said of it.
    pub fn optional(name: &str, schema: Schema) -> Self {
        Self {
            name: Cow::Owned(name.to_owned()),
            schema,
            default: None,
            pointer: true,
            omit_empty: true,
            keeps_empty: false,
            omit_zero: false,
            patch_strategy: PatchStrategy::default(),
            patch_merge_key: None,
            list_type: None,
            list_map_keys: Vec::new(),
            atomic: None,
            proto: Vec::new(),
        }
    }

    /// Returns Go's encoding of an unset field; `None` if it is omitted.
    pub fn unset(&self) -> Option<Value> {
        if self.omit_zero || (self.omit_empty && (self.pointer || !self.schema.is_struct())) {
            return None;
        }
        Some(match self.pointer {
            true => Value::Null,
            false => self.schema.zero(),
        })
    }

    /// Whether a decoded value is left out of the encoding.
    fn omits(&self, value: &Value) -> bool {
        if self.pointer {
            return false;
        }
        let empty = self.omit_empty
            && match value {
                Value::Bool(set) => !set && matches!(self.schema, Schema::Bool),
                Value::Number(number) => number.as_i64() == Some(0) && self.schema.is_scalar(),
                Value::String(text) => text.is_empty() && self.schema.is_scalar(),
                Value::Array(items) => {
                    items.is_empty() && matches!(self.schema, Schema::Array(_)) && !self.keeps_empty
                }
                Value::Object(entries) => {
                    entries.is_empty() && matches!(self.schema, Schema::Map(_))
                }
                Value::Null => false,
            };
        empty || (self.omit_zero && *value == self.schema.zero())
    }
}

impl Schema {
    /// A list of `items` that apply treats by `list_type`, without a Go type.
    pub fn list(items: Self, list_type: Option<ListType>, keys: &[String]) -> Self {
        Self::Array(Box::new(Array {
            items,
            list_type,
            list_map_keys: keys.iter().cloned().map(Cow::Owned).collect(),
            go_type: None,
        }))
    }

    /// A map to `values` that apply may treat as one value, without a Go type.
    pub fn map_of(values: Self, atomic: bool) -> Self {
        Self::Map(Box::new(Values {
            values,
            atomic,
            go_type: None,
        }))
    }

    /// A list of `items`.
    fn array(items: Self, go_type: Option<Cow<'static, str>>) -> Self {
        Self::Array(Box::new(Array {
            items,
            list_type: None,
            list_map_keys: Vec::new(),
            go_type,
        }))
    }

    /// A map to `values`.
    fn map(values: Self, go_type: Option<Cow<'static, str>>) -> Self {
        Self::Map(Box::new(Values {
            values,
            atomic: false,
            go_type,
        }))
    }

    fn forget_empty_lists(&self, value: &mut Value) {
        match (self, &mut *value) {
            (Self::Object(object), _) => object.forget_empty_lists(value),
            (Self::Array(_), Value::Array(items)) if items.is_empty() => *value = Value::Null,
            (Self::Array(array), Value::Array(items)) if array.items.has_parts() => {
                let forget = |item| array.items.forget_empty_lists(item);
                items.iter_mut().for_each(forget);
            }
            (Self::Map(map), Value::Object(entries)) if map.values.has_parts() => {
                let forget = |entry| map.values.forget_empty_lists(entry);
                entries.values_mut().for_each(forget);
            }
            _ => {}
        }
    }

    /// Whether values of the type have others inside.
    fn has_parts(&self) -> bool {
        matches!(self, Self::Object(_) | Self::Array(_) | Self::Map(_))
    }

    /// Whether Go has a struct for it, which `omitempty` never leaves out.
    fn is_struct(&self) -> bool {
        matches!(
            self,
            Self::Object(_)
                | Self::Raw
                | Self::Time
                | Self::MicroTime
                | Self::Quantity
                | Self::IntOrString
                | Self::JsonSchemaOr(_)
        )
    }

    /// Whether `omitempty` leaves out its `""` or 0.
    fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Int32 | Self::Int64 | Self::Float | Self::String(_) | Self::Bytes
        )
    }

    /// Returns Go's encoding of the type's zero value.
    fn zero(&self) -> Value {
        match self {
            Self::Any
            | Self::Raw
            | Self::Bytes
            | Self::Time
            | Self::MicroTime
            | Self::JsonSchemaOr(_)
            | Self::Array(_)
            | Self::Map(_) => Value::Null,
            Self::Bool => false.into(),
            Self::Int32 | Self::Int64 | Self::Float | Self::IntOrString => 0.into(),
            Self::String(_) => "".into(),
            Self::Quantity => "0".into(),
            Self::Object(object) => Value::Object(object.zero()),
        }
    }

    /// The value of a null map entry: empty for bytes, which are null in a field; else the zero
    /// value.
    fn empty_entry(&self) -> Value {
        match self {
            Self::Bytes => "".into(),
            other => other.zero(),
        }
    }

    /// The name of the Go type, as decode errors print it.
    fn go_type(&self) -> Cow<'_, str> {
        match self {
            Self::Any => "interface {}".into(),
            Self::Raw => "runtime.RawExtension".into(),
            Self::Bool => "bool".into(),
            Self::Int32 | Self::IntOrString => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::Float => "float64".into(),
            Self::JsonSchemaOr(_) => "v1.JSONSchemaProps".into(),
            Self::String(name) => name.as_ref().into(),
            Self::Bytes => "[]uint8".into(),
            Self::Time | Self::MicroTime => "string".into(),
            Self::Quantity => "resource.Quantity".into(),
            Self::Array(array) => match &array.go_type {
                Some(name) => name.as_ref().into(),
                None => format!("[]{}", array.items.item_go_type()).into(),
            },
            Self::Map(map) => match &map.go_type {
                Some(name) => name.as_ref().into(),
                None => format!("map[string]{}", map.values.item_go_type()).into(),
            },
            Self::Object(object) => {
                let package = object.package.rsplit('/').next().unwrap_or_default();
                format!("{package}.{}", object.name).into()
            }
        }
    }

    /// Returns the Go type in the name of a list or map of it: a type that decodes itself has its
    /// own name there, not the name of the type that it is decoded from.
    fn item_go_type(&self) -> Cow<'_, str> {
        match self {
            Self::IntOrString => "intstr.IntOrString".into(),
            Self::Time => "v1.Time".into(),
            Self::MicroTime => "v1.MicroTime".into(),
            other => other.go_type(),
        }
    }
}
