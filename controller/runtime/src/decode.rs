//! Converts objects of the API from values and to values.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error};
use serde_json::Value;

/// Decodes an object as serde_json's `from_value` does, but from the text of the value.
///
/// Answers and events are decoded from texts. If values were decoded directly, the decoder of each type would be
/// compiled a second time.
///
/// # Errors
/// Why the value is no such object, without a place in its text.
pub fn from_value<T: DeserializeOwned>(value: impl Serialize) -> serde_json::Result<T> {
    let text = serde_json::to_string(&value)?;
    serde_json::from_str(&text).map_err(|error| without_place(&error))
}

/// The value of an object as serde_json's `to_value` makes it, but from its text, as objects are sent as texts, too.
///
/// # Errors
/// The object has no form in JSON.
pub fn to_value(object: &impl Serialize) -> serde_json::Result<Value> {
    let text = serde_json::to_string(object)?;
    serde_json::from_str(&text)
}

/// The error without its last words, a line and a column of the text, which no caller has seen.
fn without_place(error: &serde_json::Error) -> serde_json::Error {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    Error::custom(message.strip_suffix(&place).unwrap_or(&message))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_and_errors_are_those_of_a_value() {
        let map = json!({ "metadata": { "name": "a" }, "data": { "key": "\u{e9} \\ \"" } });
        let read: ConfigMap = from_value(&map).unwrap();
        assert_eq!(read, ConfigMap::deserialize(&map).unwrap());
        assert_eq!(
            to_value(&read).unwrap(),
            serde_json::to_value(&read).unwrap()
        );
        let message = |map: &Value| {
            let refused = from_value::<ConfigMap>(map).unwrap_err().to_string();
            let direct = ConfigMap::deserialize(map).unwrap_err().to_string();
            assert_eq!(refused, direct);
            refused
        };
        let number = message(&json!({ "metadata": { "name": 7 } }));
        assert_eq!(number, "invalid type: integer `7`, expected a string");
        message(&json!([]));
    }
}
