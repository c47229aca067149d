//! Reading what [`write_object`](super::write_object) wrote, whole or in part.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::meta::fields::{FIELDS_V1, at_rest};
use crate::nesting;

/// The way from an object to the owned fields in its metadata.
const OWNED_FIELDS: [&str; 3] = ["metadata", "managedFields", FIELDS_V1];

/// Reads an object; its owned fields stay encoded (see `meta::fields`).
///
/// # Errors
/// The text is not a JSON object.
pub fn read_object(json: &[u8]) -> serde_json::Result<Value> {
    nesting::read_own(json, |deserializer| {
        Towards(&OWNED_FIELDS).deserialize(deserializer)
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
    use serde_json::json;

    use super::*;
    use crate::schema::write_object;

    #[test]
    fn what_is_written_is_read_again() {
        let fields = json!({ "f:metadata": { "f:labels": { "f:a": {} } } });
        let entries = |fields: Value| json!([{ "manager": "m", "fieldsV1": fields }, {}]);
        let object = |entries: Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "a", "labels": { "a": "é\n\"" }, "managedFields": entries },
                "spec": { "priority": -1, "overhead": null, "weights": [1.5, u64::MAX, true] },
                "status": { "metadata": { "managedFields": [{ "fieldsV1": {} }] } },
            })
        };
        let resting = object(entries(at_rest(&fields.to_string())));
        for written in [&resting, &object(entries(fields))] {
            let mut text = Vec::new();
            write_object(&mut text, written);
            assert_eq!(read_object(&text).unwrap(), resting);
        }
        let bare = json!({ "metadata": null });
        assert_eq!(read_object(bare.to_string().as_bytes()).unwrap(), bare);
        assert!(read_object(b"{}{").is_err());
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
