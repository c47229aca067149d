//! Encoded `fieldsV1`: its JSON as one text. A tree of small maps takes ten times as much memory,
//! and most requests pass the fields on unchanged.
//!
//! An encoded value is a string that begins with a mark. Objects are kept in this form between
//! requests. The encoder (`schema::write_object`) writes the text, and the reader of owners
//! (`field_manager`) accepts both forms.

use std::borrow::Cow;

use crate::json::{Value, html_escape};
use crate::nesting::{self, AT_REST};

pub use crate::nesting::resting;

/// The name of the field in an entry of `metadata.managedFields`.
pub(crate) const FIELDS_V1: &str = "fieldsV1";

/// Encodes `json` as a marked string, escaped as Go's encoder escapes JSON.
pub(crate) fn at_rest(json: &str) -> Value {
    let json = html_escape(json);
    let mut text = String::with_capacity(json.len() + 1);
    text.push(AT_REST);
    text.push_str(&json);
    Value::String(text.into())
}

/// Encodes the fields of all `entries`, unless they are encoded already.
pub(crate) fn settle(entries: &mut Value) {
    each(entries, |fields| {
        if fields.is_object() {
            *fields = at_rest(&fields.to_string());
        }
    });
}

/// Returns the object with its owned fields decoded, for callers that read them.
pub fn unfolded(object: &Value) -> Cow<'_, Value> {
    let mut object = Cow::Borrowed(object);
    let entries = object["metadata"]["managedFields"].as_array();
    let rests = |entry: &Value| resting(&entry[FIELDS_V1]).is_some();
    if entries.is_some_and(|entries| entries.iter().any(rests)) {
        unfold(&mut object.to_mut()["metadata"]);
    }
    object
}

/// Makes values of the fields of the object with this metadata.
pub fn unfold(metadata: &mut Value) {
    let Some(entries) = metadata.get_mut("managedFields") else {
        return;
    };
    each(entries, |fields| {
        if let Some(json) = resting(fields)
            && let Ok(value) = nesting::from_slice(json.as_bytes())
        {
            *fields = value;
        }
    });
}

fn each(entries: &mut Value, visit: impl Fn(&mut Value)) {
    let entries = entries.as_array_mut().into_iter().flatten();
    entries
        .filter_map(|entry| entry.get_mut(FIELDS_V1))
        .for_each(visit);
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn fields_rest_and_unfold() {
        let fields = json!({ "f:data": { ".": {}, "f:k": {} } });
        let entries = json!([{ "manager": "m", "fieldsV1": fields }, { "manager": "n" }]);
        let mut resting_entries = entries.clone();
        settle(&mut resting_entries);
        let text = resting(&resting_entries[0]["fieldsV1"]);
        assert_eq!(text, Some(fields.to_string().as_str()));
        assert_eq!(resting_entries[1], entries[1]);
        let settled = resting_entries.clone();
        settle(&mut resting_entries);
        assert_eq!(resting_entries, settled, "what rests stays as it is");
        let mut metadata = json!({ "name": "a", "managedFields": settled });
        unfold(&mut metadata);
        assert_eq!(metadata["managedFields"], entries);
        assert_eq!(resting(&json!("{}")), None);
    }
}
