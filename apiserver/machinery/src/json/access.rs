//! Questions about the type of a value, and access to the values inside it.

use std::mem;
use std::ops;

use super::{Map, Number, SmolStr, Value};

/// An index of a value: the name of a member or the position of an item.
pub trait Index {
    /// The value at this index; `None` if the value has no such member or item.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// The value at this index; `None` if the value has no such member or item.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// The value at this index. A missing member is added as null; null becomes an object first.
    ///
    /// # Panics
    ///
    /// When the value is of another type, or has no such item.
    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match value {
            Value::Object(members) => members.get(self),
            _ => None,
        }
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match value {
            Value::Object(members) => members.get_mut(self),
            _ => None,
        }
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(members) => members.entry(self).or_insert(Value::Null),
            other => panic!("{other} has no member {self:?}"),
        }
    }
}

impl Index for String {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.as_str().of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.as_str().of_mut(value)
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.as_str().of_or_insert(value)
    }
}

impl Index for SmolStr {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.as_str().of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.as_str().of_mut(value)
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.as_str().of_or_insert(value)
    }
}

impl<I: Index + ?Sized> Index for &I {
    #[inline]
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).of(value)
    }

    #[inline]
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).of_mut(value)
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).of_or_insert(value)
    }
}

impl Index for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match value {
            Value::Array(items) => items.get(*self),
            _ => None,
        }
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match value {
            Value::Array(items) => items.get_mut(*self),
            _ => None,
        }
    }

    fn of_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        match value {
            Value::Array(items) => &mut items[*self],
            other => panic!("{other} has no item {self}"),
        }
    }
}

impl<I: Index> ops::Index<I> for Value {
    type Output = Self;

    /// The value at this index; null if the value has no such member or item.
    #[inline]
    fn index(&self, index: I) -> &Self {
        static NULL: Value = Value::Null;
        index.of(self).unwrap_or(&NULL)
    }
}

impl<I: Index> ops::IndexMut<I> for Value {
    fn index_mut(&mut self, index: I) -> &mut Self {
        index.of_or_insert(self)
    }
}

impl Value {
    /// The member of this name or the item at this position.
    #[inline]
    pub fn get<I: Index>(&self, index: I) -> Option<&Self> {
        index.of(self)
    }

    /// The member of this name or the item at this position.
    #[inline]
    pub fn get_mut<I: Index>(&mut self, index: I) -> Option<&mut Self> {
        index.of_mut(self)
    }

    /// Whether this is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether this is true or false.
    #[must_use]
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Whether this is a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Whether this is an integer that an `i64` holds.
    #[must_use]
    pub fn is_i64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_i64())
    }

    /// Whether this is a floating number.
    #[must_use]
    pub fn is_f64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_f64())
    }

    /// Whether this is an integer that a `u64` holds.
    #[must_use]
    pub fn is_u64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_u64())
    }

    /// Whether this is a text.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Whether this is a list.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Whether this is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// The value of a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The number, if it is an integer that an `i64` holds.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The number, if it is an integer that a `u64` holds.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number().and_then(Number::as_u64)
    }

    /// The number, as the nearest floating one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().and_then(Number::as_f64)
    }

    /// The text.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The items of a list.
    #[must_use]
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members of an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The members of an object.
    #[must_use]
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The value, with null left in its place.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// The value that a JSON pointer names (RFC 6901), such as `/spec/containers/0`.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut steps = steps(pointer)?;
        steps.try_fold(self, |value, step| match value {
            Self::Object(members) => members.get(&step),
            Self::Array(items) => items.get(position(&step)?),
            _ => None,
        })
    }

    /// The value that a JSON pointer names (RFC 6901), such as `/spec/containers/0`.
    #[must_use]
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        let mut steps = steps(pointer)?;
        steps.try_fold(self, |value, step| match value {
            Self::Object(members) => members.get_mut(&step),
            Self::Array(items) => items.get_mut(position(&step)?),
            _ => None,
        })
    }
}

/// The steps of a JSON pointer; none if it does not begin with a slash.
fn steps(pointer: &str) -> Option<impl Iterator<Item = String>> {
    let mut steps = pointer.split('/');
    steps.next().filter(|first| first.is_empty())?;
    Some(steps.map(|step| step.replace("~1", "/").replace("~0", "~")))
}

/// The position that a step of a JSON pointer names.
fn position(step: &str) -> Option<usize> {
    let zeros = step.starts_with('0') && step.len() > 1;
    (!zeros && !step.starts_with('+')).then(|| step.parse().ok())?
}
