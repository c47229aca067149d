//! The schema as ownership sees it: leaves, structs, maps, and lists by their keys.

use std::borrow::Cow;

use super::path::PathElement;
use crate::json::{Map, Value};
use crate::schema::{Field, ListType, Object, Schema};
use crate::status::quoted;

/// The schema of an undeclared value.
static ANY: Schema = Schema::Any;

/// How the fields of a value are owned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'s> {
    /// As one: a scalar, or an atomic list, map or struct.
    Leaf,
    /// Field by field.
    Struct(&'s Object),
    /// Key by key.
    Map(&'s Schema),
    /// Item by item.
    List(List<'s>),
    /// By the value, as nothing declares it: maps key by key, the rest as one.
    Deduced,
}

/// A list that is owned item by item.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'s> {
    items: &'s Schema,
    /// The keys of an item; without any an item is its own key.
    keys: &'s [Cow<'static, str>],
}

impl<'s> Shape<'s> {
    /// The shape of an object of a kind; unknown kinds are deduced.
    pub(super) fn of_kind(schema: Option<&'s Object>) -> Self {
        schema.map_or(Self::Deduced, Self::Struct)
    }

    pub(super) fn of(schema: &'s Schema, field: Option<&'s Field>) -> Self {
        // The marker of a field counts for more than that of its type.
        let is_atomic = |of_type: bool| field.and_then(|field| field.atomic).unwrap_or(of_type);
        match schema {
            Schema::Any => Self::Deduced,
            Schema::Object(object) if is_atomic(object.atomic) => Self::Leaf,
            Schema::Object(object) => Self::Struct(object),
            Schema::Map(map) if is_atomic(map.atomic) => Self::Leaf,
            Schema::Map(map) => Self::Map(&map.values),
            Schema::Array(array) => {
                let (list_type, keys) = match field {
                    Some(field) if field.list_type.is_some() => {
                        (field.list_type, &field.list_map_keys)
                    }
                    _ => (array.list_type, &array.list_map_keys),
                };
                let list = |keys| {
                    let items = &array.items;
                    Self::List(List { items, keys })
                };
                match list_type {
                    Some(ListType::Map) => list(keys),
                    Some(ListType::Set) => list(&[]),
                    Some(ListType::Atomic) | None => Self::Leaf,
                }
            }
            _ => Self::Leaf,
        }
    }

    /// Returns the shape of `value`.
    pub(super) fn deduced(self, value: &Value) -> Self {
        match (self, value) {
            (Self::Deduced, Value::Object(_)) => Self::Map(&ANY),
            (Self::Deduced, _) => Self::Leaf,
            (shape, _) => shape,
        }
    }

    /// Returns the shape of the value at `element`.
    pub(super) fn child(self, element: &PathElement) -> Self {
        match (self, element) {
            (Self::List(list), _) => list.item(),
            (_, PathElement::Field(name)) => self.field(name),
            _ => Self::Deduced,
        }
    }

    /// The shape of the field or key `name`.
    pub(super) fn field(self, name: &str) -> Self {
        match self {
            Self::Struct(object) => object
                .field(name)
                .map_or(Self::Deduced, |field| Self::of(&field.schema, Some(field))),
            Self::Map(values) => Self::of(values, None),
            Self::Leaf | Self::List(_) | Self::Deduced => Self::Deduced,
        }
    }

    /// Whether `name` is a declared field, not a key of a map.
    pub(super) fn declares(self, name: &str) -> bool {
        matches!(self, Self::Struct(object) if object.field(name).is_some())
    }
}

impl<'s> List<'s> {
    pub(super) fn item(self) -> Shape<'s> {
        Shape::of(self.items, None)
    }

    /// The path element of an item.
    ///
    /// # Errors
    /// Why an item has none.
    pub(super) fn element(self, item: &Value) -> Result<PathElement, String> {
        if self.keys.is_empty() {
            let kind = match item {
                Value::Object(_) => {
                    "associative list without keys has an element that's a map type"
                }
                Value::Array(_) => "not supported: associative list with lists as elements",
                Value::Null => {
                    "associative list without keys has an element that's an explicit null"
                }
                _ => return Ok(PathElement::Value(item.clone())),
            };
            return Err(kind.to_owned());
        }
        match item {
            Value::Object(fields) => self.key_of(fields),
            Value::Null => Err("associative list with keys may not have a null element".to_owned()),
            _ => Err("associative list with keys may not have non-map elements".to_owned()),
        }
    }

    fn key_of(self, fields: &Map) -> Result<PathElement, String> {
        let mut key: Vec<(String, Value)> = self
            .keys
            .iter()
            .filter_map(|name| {
                let value = fields.get(name.as_ref()).cloned();
                let value = value.or_else(|| self.default_of(name))?;
                Some((name.clone().into_owned(), value))
            })
            .collect();
        if key.is_empty() {
            let names: Vec<String> = self.keys.iter().map(|name| quoted(name)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        key.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(PathElement::Key(key))
    }

    /// The default of a key: that of the schema, or the zero value in a Go type.
    fn default_of(self, key: &str) -> Option<Value> {
        let Schema::Object(object) = self.items else {
            return None;
        };
        let field = object.field(key)?;
        // Upstream's types say so in markers.
        match (object.name.as_ref(), key) {
            ("ServicePort" | "ContainerPort", "protocol") => return Some("TCP".into()),
            ("LocalObjectReference", "name") => return Some("".into()),
            _ => {}
        }
        let is_always_there = !field.proto.is_empty() && !field.pointer && !field.omit_empty;
        match &field.schema {
            _ if field.default.is_some() => field.default.clone(),
            Schema::String(_) if is_always_there => Some("".into()),
            Schema::Int32 | Schema::Int64 if is_always_there => Some(0.into()),
            _ => None,
        }
    }
}

/// The entries of a map; null is an empty one.
pub(super) fn entries(value: Option<&Value>) -> Option<&Map> {
    value
        .and_then(Value::as_object)
        .filter(|map| !map.is_empty())
}

/// The items of a list; null is an empty one.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
