//! JSON documents as trees.
//!
//! [`Value`] is like `serde_json`'s, and has its methods. It takes less work: a [`Map`] with few members is one sorted
//! list, and a name or a text of up to 23 bytes lies in its node instead of an allocation of its own. Nearly all names
//! and most texts of Kubernetes' objects are that short, and their maps have few members.
//!
//! ```
//! use kubeproof_machinery::json::{Value, json};
//!
//! let mut pod = json!({ "metadata": { "name": "web-0" }, "spec": {} });
//! pod["spec"]["nodeName"] = "node-1".into();
//! assert_eq!(pod["metadata"]["name"], "web-0");
//! assert_eq!(pod["spec"].to_string(), r#"{"nodeName":"node-1"}"#);
//! assert_eq!(serde_json::from_str::<Value>(&pod.to_string()).unwrap(), pod);
//! ```

mod access;
mod convert;
mod decode;
mod encode;
mod html;
mod map;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use access::Index;
pub(crate) use decode::Name;
pub(crate) use html::may_need_escape;
pub use html::{encoded_string, html_escape};
pub use map::{Entry, IntoIter, Iter, IterMut, Map, OccupiedEntry, VacantEntry};
pub use serde_json::Number;
pub use smol_str::SmolStr;

#[doc(inline)]
pub use crate::json;

#[doc(hidden)]
pub use serde_json as __serde_json;

/// A JSON value.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, whose kind (signed, unsigned, floating) is known.
    Number(Number),
    /// A text. Up to 23 bytes are kept in place; copies of longer ones share them.
    String(SmolStr),
    /// A list.
    Array(Vec<Self>),
    /// An object. Its members are sorted by name.
    Object(Map),
}

/// A value out of one that serde can write.
///
/// # Errors
///
/// When it has no form in JSON, such as a map whose keys are not texts.
pub fn to_value(value: impl Serialize) -> Result<Value, serde_json::Error> {
    let text = serde_json::to_vec(&value)?;
    let mut reader = serde_json::Deserializer::from_slice(&text);
    // Whoever has such a value has the stack for it.
    reader.disable_recursion_limit();
    Value::deserialize(&mut reader)
}

/// Reads a type out of a value.
///
/// # Errors
///
/// When the value does not have the type's form.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}

/// A [`Value`](crate::json::Value) from a literal, as `serde_json::json!` reads it.
///
/// # Panics
///
/// When an interpolated value has no form in JSON, such as a map whose keys are not texts.
#[macro_export]
macro_rules! json {
    ($($json:tt)+) => {
        $crate::json::Value::from($crate::json::__serde_json::json!($($json)+))
    };
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(value) => write!(f, "Bool({value})"),
            Self::Number(number) => fmt::Debug::fmt(number, f),
            Self::String(text) => write!(f, "String({text:?})"),
            Self::Array(items) => {
                f.write_str("Array ")?;
                fmt::Debug::fmt(items, f)
            }
            Self::Object(members) => {
                f.write_str("Object ")?;
                fmt::Debug::fmt(members, f)
            }
        }
    }
}
