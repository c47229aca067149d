//! Decodes objects of the API from values.

use std::borrow::Borrow;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes an object as serde_json's `from_value` does, but from the text of the value.
///
/// Answers and events are decoded from texts. If values were decoded directly, the decoder of each type would be
/// compiled a second time. Only the errors differ: they end with a place in the text.
///
/// # Errors
/// Why the value is no such object.
pub fn from_value<T: DeserializeOwned>(value: impl Borrow<Value>) -> serde_json::Result<T> {
    serde_json::from_str(&value.borrow().to_string())
}
