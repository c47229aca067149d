//! Objects in the bodies of requests and responses, as events hold them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::ResponseStatus;
use crate::json::{Value, html_escape};
use crate::nesting;
use crate::schema::{protobuf, write_answer};
use crate::yaml::decode::Yaml;

/// The media type of protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The start of every status in JSON.
const STATUS: &str = r#"{"kind":"Status","apiVersion":"v1""#;
/// The fields of an object that events may leave out.
const MANAGED_FIELDS: &str = "managedFields";

/// The object in a response.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    json: Arc<RawValue>,
}

/// The fields of a status that an event takes over.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    details: Option<Box<RawValue>>,
    #[serde(default)]
    code: u16,
}

impl Shown {
    /// The object in a body of a media type; `None` for a body that is no object of the API.
    pub(crate) fn of(media_type: &str, body: &[u8]) -> Option<Self> {
        let media_type = media_type.split(';').next().unwrap_or_default();
        let json = match media_type {
            "application/json" => compact(body)?,
            "application/yaml" => json_of(&parsed(&Yaml::parse(body).ok()?.json)?)?,
            PROTOBUF => json_of(&protobuf::decode_answer(body)?)?,
            _ => return None,
        };
        is_object(&json).then_some(Self { json })
    }

    /// The status that the object is; `None` for any other object.
    pub(super) fn status(&self) -> Option<ResponseStatus> {
        if !self.json.get().starts_with(STATUS) {
            return None;
        }
        let status: Status = serde_json::from_str(self.json.get()).ok()?;
        Some(ResponseStatus {
            status: status.status,
            message: status.message,
            reason: status.reason,
            details: status.details.map(Arc::from),
            code: status.code,
            ..ResponseStatus::default()
        })
    }

    /// The object as JSON, without the owners of its fields if `omits`.
    pub(super) fn json(self, omits: bool) -> Option<Arc<RawValue>> {
        if !omits || !self.json.get().contains(MANAGED_FIELDS) {
            return Some(self.json);
        }
        let mut value = parsed(self.json.get().as_bytes())?;
        without_managed_fields(&mut value);
        json_of(&value)
    }
}

/// Whether JSON states a kind and a version, as objects of the API do; other documents do not.
fn is_object(json: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TypeMeta {
        #[serde(rename = "kind")]
        _kind: String,
        #[serde(rename = "apiVersion")]
        _version: String,
    }
    serde_json::from_str::<TypeMeta>(json.get()).is_ok()
}

fn parsed(json: &[u8]) -> Option<Value> {
    nesting::from_slice(json).ok()
}

/// An object as JSON in the order of Go's fields.
pub(super) fn json_of(value: &Value) -> Option<Arc<RawValue>> {
    let mut text = Vec::new();
    write_answer(&mut text, value);
    let text = String::from_utf8(text).ok()?;
    RawValue::from_string(text).ok().map(Arc::from)
}

/// JSON without space between its parts, as Go compacts it.
pub(super) fn compact(json: &[u8]) -> Option<Arc<RawValue>> {
    let json = std::str::from_utf8(json).ok()?;
    let read: &RawValue = serde_json::from_str(json).ok()?;
    let mut compact = String::with_capacity(json.len());
    let (mut in_text, mut is_escaped) = (false, false);
    for letter in read.get().chars() {
        match letter {
            '"' if !is_escaped => in_text = !in_text,
            ' ' | '\t' | '\r' | '\n' if !in_text => continue,
            _ => {}
        }
        is_escaped = in_text && letter == '\\' && !is_escaped;
        compact.push(letter);
    }
    let compact = html_escape(&compact).into_owned();
    RawValue::from_string(compact).ok().map(Arc::from)
}

/// Removes the owners of fields from an object, the items of a list, or the objects in a table.
pub(super) fn without_managed_fields(value: &mut Value) {
    let forget = |object: &mut Value| {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        metadata.map(|fields| fields.remove(MANAGED_FIELDS));
    };
    let is_table = value["kind"] == "Table";
    forget(value);
    for items in ["items", "rows"] {
        let items = value.get_mut(items).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            match item.get_mut("object") {
                Some(object) if is_table => forget(object),
                _ => forget(item),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_compacted_as_go_does() {
        let rows = [
            (
                " { \"a\" : [ 1.50 , null ] }\n",
                Some(r#"{"a":[1.50,null]}"#),
            ),
            (
                r#"{"b": " \" ", "a": "\\ "}"#,
                Some(r#"{"b":" \" ","a":"\\ "}"#),
            ),
            ("\"<a & b>\"", Some(r#""\u003ca \u0026 b\u003e""#)),
            ("a: 1", None),
            ("{} {}", None),
        ];
        for (text, want) in rows {
            let got = compact(text.as_bytes());
            assert_eq!(got.as_deref().map(RawValue::get), want, "{text}");
        }
    }

    #[test]
    fn objects_of_lists_and_tables_lose_their_managed_fields() {
        let of = |text: &str| {
            let shown = Shown::of("application/json;as=Table", text.as_bytes()).unwrap();
            shown.json(true).unwrap().get().to_owned()
        };
        let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","managedFields":[{}]}}]}"#;
        assert_eq!(of(list), list.replace(",\"managedFields\":[{}]", ""));
        let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[],"rows":[{"cells":["a"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","managedFields":[{}]}}}]}"#;
        assert_eq!(of(table), table.replace(",\"managedFields\":[{}]", ""));
    }

    #[test]
    fn only_a_status_has_a_status() {
        let shown = |text: &str| Shown::of("application/json", text.as_bytes());
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}"#;
        let read = shown(status).unwrap().status().unwrap();
        assert_eq!((read.code, read.reason.as_str()), (404, "NotFound"));
        let details = read.details.unwrap();
        assert_eq!(details.get(), r#"{"name":"a","kind":"pods"}"#);
        let pod = shown(r#"{"kind":"Pod","apiVersion":"v1","status":{}}"#).unwrap();
        assert!(pod.status().is_none());
        for other in [r#"{"paths":["/"]}"#, "[]", "1", ""] {
            assert!(shown(other).is_none(), "{other}");
        }
        assert!(Shown::of("text/plain", status.as_bytes()).is_none());
    }
}
