//! Reading what [`write_object`](super::write_object) wrote, whole or in part.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::encode::type_of;
use crate::meta::fields::{FIELDS_V1, at_rest, resting};
use crate::nesting::{self, Fault, Reader};

/// The way from an object to the owned fields in its metadata.
const OWNED_FIELDS: [&str; 3] = ["metadata", "managedFields", FIELDS_V1];

/// How many bytes the encoded owned fields of each manager have in the text of a built-in object: with
/// that [`read_object`] need not search for their ends. Empty if a manager's are not encoded.
pub fn owned_lengths(object: &Value) -> Vec<usize> {
    if type_of(object).is_none() {
        return Vec::new();
    }
    let entries = object["metadata"]["managedFields"].as_array();
    let length = |entry: &Value| resting(&entry[FIELDS_V1]).map(str::len);
    let lengths: Option<_> = entries.into_iter().flatten().map(length).collect();
    lengths.unwrap_or_default()
}

/// Reads an object that [`write_object`](super::write_object) wrote and that has these [`owned_lengths`].
/// The owned fields stay encoded (see `meta::fields`).
///
/// # Errors
/// The text is not a JSON object.
pub fn read_object(json: &[u8], lengths: &[usize]) -> serde_json::Result<Value> {
    let read = |mut reader: Reader<'_>| {
        let mut lengths = lengths.iter().copied();
        let object = towards(&mut reader, &OWNED_FIELDS, &mut lengths)?;
        reader.end().map(|()| object)
    };
    let object = Reader::of_own(json).ok_or(Fault).and_then(read);
    object.map_err(serde_json::Error::custom)
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
    lengths: &mut impl Iterator<Item = usize>,
) -> Result<Value, Fault> {
    match (reader.peek(), path) {
        (Some(b'{'), []) => reader.object_text(lengths.next()).map(at_rest),
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
        _ => reader.value(),
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
    use serde_json::json;

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
        assert_eq!(owned_lengths(&resting), [length]);
        let with_empty = object(json!([{}, { "manager": "m", "fieldsV1": at_rest(&fields) }]));
        let decoded = object(json!([{ "manager": "m", "fieldsV1": fields }]));
        let custom = json!({
            "apiVersion": "example.com/v1", "kind": "Own",
            "metadata": { "managedFields": [{ "manager": "m", "fieldsV1": at_rest(&fields) }] },
        });
        for (written, read, count) in [
            (&resting, &resting, 1),
            (&with_empty, &with_empty, 0),
            (&decoded, &resting, 0),
            (&custom, &custom, 0),
        ] {
            let mut text = Vec::new();
            write_object(&mut text, written);
            let lengths = owned_lengths(written);
            assert_eq!(lengths.len(), count);
            assert_eq!(read_object(&text, &lengths).unwrap(), *read);
        }
        let bare = json!({ "metadata": null });
        assert_eq!(read_object(bare.to_string().as_bytes(), &[]).unwrap(), bare);
        assert!(read_object(b"{}{", &[]).is_err());
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
