//! Values from Rust's and from those of `serde_json`, and comparisons with Rust's.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::{Map, Number, SmolStr, Value};

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(items) => items.into_iter().map(Self::from).collect(),
            serde_json::Value::Object(members) => Self::Object(members.into()),
        }
    }
}

impl From<serde_json::Map<String, serde_json::Value>> for Map {
    fn from(members: serde_json::Map<String, serde_json::Value>) -> Self {
        let members = members.into_iter();
        members.map(|(name, value)| (name, value.into())).collect()
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text.into()),
            Value::Array(items) => items.into_iter().map(Self::from).collect(),
            Value::Object(members) => {
                let members = members.into_iter();
                let members = members.map(|(name, value)| (name.into(), Self::from(value)));
                Self::Object(members.collect())
            }
        }
    }
}

/// How values are made from numbers, and compared with them.
macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}

numbers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

/// How values are compared with Rust's, by what they are as one of these.
macro_rules! equal {
    ($($as:ident ($rust:ty: $wide:ty))*) => {$(
        impl PartialEq<$rust> for Value {
            fn eq(&self, other: &$rust) -> bool {
                self.$as().is_some_and(|value| value == <$wide>::from(*other))
            }
        }

        impl PartialEq<$rust> for &Value {
            fn eq(&self, other: &$rust) -> bool {
                **self == *other
            }
        }

        impl PartialEq<Value> for $rust {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

equal!(as_i64(i32: i64) as_i64(i64: i64) as_u64(u32: u64) as_u64(u64: u64) as_bool(bool: bool));

impl PartialEq<usize> for Value {
    fn eq(&self, other: &usize) -> bool {
        self.as_u64().and_then(|value| usize::try_from(value).ok()) == Some(*other)
    }
}

impl PartialEq<f64> for Value {
    fn eq(&self, other: &f64) -> bool {
        self.as_f64() == Some(*other)
    }
}

impl PartialEq<str> for Value {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<SmolStr> for Value {
    fn eq(&self, other: &SmolStr) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<Value> for str {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl PartialEq<Value> for &str {
    fn eq(&self, other: &Value) -> bool {
        other == *self
    }
}

impl PartialEq<Value> for String {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// A float that is not finite becomes null.
impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::String(text.into())
    }
}

impl From<SmolStr> for Value {
    fn from(text: SmolStr) -> Self {
        Self::String(text)
    }
}

impl From<&SmolStr> for Value {
    fn from(text: &SmolStr) -> Self {
        Self::String(text.clone())
    }
}

impl From<Cow<'_, str>> for Value {
    fn from(text: Cow<'_, str>) -> Self {
        Self::String(text.into())
    }
}

impl From<Map> for Value {
    fn from(members: Map) -> Self {
        Self::Object(members)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Clone + Into<Self>> From<&[T]> for Value {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Self::Null
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<SmolStr>, V: Into<Self>> FromIterator<(K, V)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let members = members.into_iter();
        Self::Object(members.map(|(name, value)| (name, value.into())).collect())
    }
}

impl FromStr for Value {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

/// JSON on one line; with `{:#}`, indented by two spaces.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match f.alternate() {
            true => serde_json::to_string_pretty(self),
            false => serde_json::to_string(self),
        };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}
