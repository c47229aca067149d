//! Reading what [`write_object`](super::write_object) wrote, whole or in part.

use std::fmt;
use std::slice;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::encode::type_of;
use super::{Schema, object_meta};
use crate::json::{Map, Value};
use crate::meta::fields::{FIELDS_V1, at_rest, resting};
use crate::nesting::{self, Fault, Reader};

/// The way from an object to the owned fields in its metadata.
const OWNED_FIELDS: [&str; 3] = ["metadata", "managedFields", FIELDS_V1];

/// Whether an object's kind is built in and has `ObjectMeta`, so that [`write_object`](super::write_object)
/// writes its metadata in the order of Go's fields.
pub fn has_object_meta(object: &Value) -> bool {
    let metadata = type_of(object).and_then(|schema| schema.field("metadata"));
    metadata.is_some_and(|field| match &field.schema {
        Schema::Object(metadata) => Arc::ptr_eq(metadata, object_meta()),
        _ => false,
    })
}

/// How many bytes the encoded owned fields of each manager have in the text of a built-in object: with
/// that [`read_object`] need not search for their ends. `None` if a manager's are not encoded.
pub fn owned_lengths(object: &Value) -> Option<Box<[usize]>> {
    type_of(object)?;
    let entries = object["metadata"]["managedFields"].as_array();
    let length = |entry: &Value| resting(&entry[FIELDS_V1]).map(str::len);
    entries.into_iter().flatten().map(length).collect()
}

/// Reads an object whose text is known to be JSON, such as [`write_object`](super::write_object) writes.
/// The owned fields stay encoded (see `meta::fields`); `lengths` are those of [`owned_lengths`], if known.
///
/// # Errors
/// The text is not a JSON object, or a string or a number in it does not fit into a value.
pub fn read_object(json: &[u8], lengths: Option<&[usize]>) -> serde_json::Result<Value> {
    let read = |mut reader: Reader<'_>| {
        let mut lengths = lengths.map(<[usize]>::iter);
        let object = towards(&mut reader, &OWNED_FIELDS, &mut lengths)?;
        reader.end().map(|()| object)
    };
    let object = Reader::of_own(json).ok_or(Fault).and_then(read);
    object.or_else(|Fault| {
        nesting::read_own(json, |deserializer| {
            Towards(&OWNED_FIELDS).deserialize(deserializer)
        })
    })
}

/// Reads the fields of an object at `paths`, which are names joined by dots, and skips all other
/// fields. Other JSON has no fields.
pub fn read_fields(json: &[u8], paths: &[&str]) -> Value {
    let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    nesting::read(json, |deserializer| Only(&paths).deserialize(deserializer)).unwrap_or_default()
}

/// Reads a value with the given path to its owned fields; they stay encoded, all else is decoded.
fn towards(
    reader: &mut Reader<'_>,
    path: &[&str],
    lengths: &mut Option<slice::Iter<'_, usize>>,
) -> Result<Value, Fault> {
    match (reader.peek(), path) {
        (Some(b'{'), []) => {
            let length = match lengths {
                Some(lengths) => Some(*lengths.next().ok_or(Fault)?),
                None => None,
            };
            reader.object_text(length).map(at_rest)
        }
        (Some(b'{'), [next, rest @ ..]) => {
            let mut inside = reader.enter()?;
            let mut fields = Map::new();
            while let Some(name) = reader.name(&mut inside)? {
                let value = match name == *next {
                    true => towards(reader, rest, lengths)?,
                    false => reader.value()?,
                };
                fields.insert(name.into_owned(), value);
            }
            Ok(Value::Object(fields))
        }
        (Some(b'['), [_, ..]) => {
            let mut inside = reader.enter()?;
            let mut items = Vec::new();
            while reader.has_next(&mut inside, b']')? {
                items.push(towards(reader, path, lengths)?);
            }
            Ok(Value::Array(items))
        }
        (_, []) | (Some(b'n' | b'"'), _) => reader.value(),
        _ => Err(Fault),
    }
}

/// Reads as [`towards`] does: objects that have two fields of one name, or else with the error.
struct Towards(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Towards {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0.is_empty() {
            let raw = <&RawValue as serde::Deserialize>::deserialize(deserializer)?.get();
            return match raw.starts_with('{') {
                true => Ok(at_rest(raw)),
                false => nesting::from_slice(raw.as_bytes()).map_err(D::Error::custom),
            };
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Towards {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = match self.0.split_first() {
                Some((next, rest)) if name == *next => access.next_value_seed(Towards(rest))?,
                _ => access.next_value()?,
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = access.next_element_seed(Towards(self.0))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }
}

/// Reads only the values at the given paths.
struct Only<'p>(&'p [&'p [&'p str]]);

impl<'de> DeserializeSeed<'de> for Only<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0.iter().any(|path| path.is_empty()) {
            return serde::Deserialize::deserialize(deserializer);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Only<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<std::borrow::Cow<'de, str>>()? {
            let ways = self.0.iter().filter_map(|path| path.split_first());
            let behind = ways.filter(|(next, _)| **next == name);
            let paths: Vec<&[&str]> = behind.map(|(_, rest)| rest).collect();
            if paths.is_empty() {
                access.next_value::<IgnoredAny>()?;
            } else {
                let value = access.next_value_seed(Only(&paths))?;
                map.insert(name.into_owned(), value);
            }
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::schema::write_object;

    #[test]
    fn what_is_written_is_read_again() {
        let fields = json!({ "f:metadata": { "f:labels": { "f:a": {} } } });
        let object = |entries: Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "a", "labels": { "a": "é\n\"" }, "managedFields": entries },
                "spec": { "priority": -1, "overhead": null, "weights": [1.5, u64::MAX, true] },
                "status": { "metadata": { "managedFields": [{ "fieldsV1": {} }] } },
            })
        };
        let at_rest = |fields: &Value| crate::meta::fields::at_rest(&fields.to_string());
        let resting = object(json!([{ "manager": "m", "fieldsV1": at_rest(&fields) }]));
        let length = fields.to_string().len();
        assert_eq!(owned_lengths(&resting).as_deref(), Some(&[length][..]));
        let bare = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": null });
        let with_empty = object(json!([{}, { "manager": "m", "fieldsV1": at_rest(&fields) }]));
        let decoded = object(json!([{ "manager": "m", "fieldsV1": fields }]));
        let custom = json!({
            "apiVersion": "example.com/v1", "kind": "Own",
            "metadata": { "managedFields": [{ "manager": "m", "fieldsV1": at_rest(&fields) }] },
        });
        for (written, read, count) in [
            (&resting, &resting, Some(1)),
            (&with_empty, &with_empty, None),
            (&decoded, &resting, None),
            (&custom, &custom, None),
            (&bare, &bare, Some(0)),
        ] {
            let mut text = Vec::new();
            write_object(&mut text, written);
            let lengths = owned_lengths(written);
            assert_eq!(lengths.as_ref().map(|lengths| lengths.len()), count);
            assert_eq!(read_object(&text, lengths.as_deref()).unwrap(), *read);
        }
    }

    #[test]
    fn a_fault_is_that_of_serde_json() {
        let twice = r#"{"data":{"a":"1","a":"2"},"metadata":{"managedFields":[{"fieldsV1":{"f:b":{},"f:a":{}}}]}}"#;
        let read = read_object(twice.as_bytes(), None).unwrap();
        assert_eq!(read["data"], json!({ "a": "2" }));
        let fields = &read["metadata"]["managedFields"][0]["fieldsV1"];
        assert_eq!(*fields, at_rest(r#"{"f:b":{},"f:a":{}}"#));
        for (json, why) in [
            ("{}{", "trailing characters at line 1 column 3"),
            (
                "{\n\"data\":{\"a\":\"\\ud800\"}}",
                "unexpected end of hex escape at line 2 column 20",
            ),
            (
                r#"{"metadata":5}"#,
                "invalid type: integer `5`, expected an object or a list of objects at line 1 column 13",
            ),
        ] {
            let error = read_object(json.as_bytes(), None).unwrap_err();
            assert_eq!(error.to_string(), why);
        }
    }

    #[test]
    fn built_in_kinds_with_metadata_are_known() {
        for (api_version, kind, has_meta) in [
            ("v1", "Pod", true),
            ("apps/v1", "Deployment", true),
            ("example.com/v1", "Own", false),
            ("example.com/v1", "DeleteOptions", false),
            ("meta.k8s.io/v1", "Own", false),
            ("v1", "PodList", false),
        ] {
            let object = json!({ "apiVersion": api_version, "kind": kind });
            assert_eq!(has_object_meta(&object), has_meta, "{api_version} {kind}");
        }
    }

    #[test]
    fn only_the_fields_asked_for_are_read() {
        let json = br#"{"kind":"Pod","metadata":{"name":"a","labels":{"k":"v"},"x":[{}]},"spec":{"nodeName":"n","containers":[1]}}"#;
        let read = read_fields(
            json,
            &["metadata.labels", "spec.nodeName", "spec.absent.deep"],
        );
        let want = json!({ "metadata": { "labels": { "k": "v" } }, "spec": { "nodeName": "n" } });
        assert_eq!(read, want);
        for value in ["null", "true", "-1", "1", "1.5", "\"text\"", "[{}]"] {
            let json = format!("{{\"spec\":{value},\"metadata\":{{\"name\":\"a\"}}}}");
            let read = read_fields(json.as_bytes(), &["spec.nodeName", "metadata.name"]);
            assert_eq!(read["spec"]["nodeName"], Value::Null);
            assert_eq!(read["metadata"]["name"], "a", "{value} is passed over");
        }
    }
}
