//! The type and managed fields of a document, read without keeping the rest of it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::json::{Map, Value};

/// The part of an object that is looked at before its type is known: `apiVersion`, `kind` and
/// `metadata.managedFields`. Everything else is read, so that all faults of the text are found,
/// and dropped.
pub(super) struct Sniffed(pub(super) Value);

/// How far inside of the document the reader is.
#[derive(Clone, Copy)]
enum At {
    Top,
    Metadata,
    Kept,
    Dropped,
}

impl At {
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (Self::Top, "apiVersion" | "kind") | (Self::Metadata, "managedFields") => Self::Kept,
            (Self::Top, "metadata") => Self::Metadata,
            _ => Self::Dropped,
        }
    }
}

impl<'de> Deserialize<'de> for Sniffed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(At::Top)).map(Self)
    }
}

struct Reader(At);

impl<'de> serde::de::DeserializeSeed<'de> for Reader {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0 {
            At::Kept => Value::deserialize(deserializer),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(match self.0 {
            At::Dropped => Value::Null,
            _ => text.into(),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element_seed(Reader(At::Dropped))?.is_some() {}
        Ok(Value::Array(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = entries.next_key_seed(Key(self.0))? {
            let value = entries.next_value_seed(Reader(key.at))?;
            if let Some(name) = key.kept {
                kept.insert(name.to_owned(), value);
            }
        }
        Ok(Value::Object(kept))
    }
}

/// Reads a key of a map at some place; most need no copy.
struct Key(At);

struct Below {
    at: At,
    kept: Option<&'static str>,
}

impl<'de> serde::de::DeserializeSeed<'de> for Key {
    type Value = Below;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Below, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Below;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Below, E> {
        let at = self.0.below(key);
        let names = ["apiVersion", "kind", "metadata", "managedFields"];
        let kept = names.into_iter().find(|name| *name == key);
        Ok(Below {
            at,
            kept: kept.filter(|_| !matches!(at, At::Dropped)),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn only_the_type_and_the_owners_are_kept() {
        let cases = [
            (
                r#"{"kind":"K","apiVersion":1,"metadata":{"name":"a","managedFields":[]},"x":{"kind":"L"}}"#,
                json!({ "kind": "K", "apiVersion": 1, "metadata": { "managedFields": [] } }),
            ),
            (
                r#"{"metadata":"m","kind":null}"#,
                json!({ "metadata": "m", "kind": null }),
            ),
            ("[1,[2]]", json!([])),
            ("1.5", json!(1.5)),
        ];
        for (text, want) in cases {
            let Sniffed(got) = serde_json::from_str(text).unwrap();
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn faults_are_those_of_a_whole_reading() {
        let deep = format!("{{\"a\":{}}}", "[".repeat(200));
        for text in [
            "",
            "{",
            r#"{"a":1e999}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":[1,]}"#,
            "{} x",
            &deep,
        ] {
            let whole = serde_json::from_str::<Value>(text);
            let sniffed = serde_json::from_str::<Sniffed>(text);
            let (whole, sniffed) = (whole.unwrap_err(), sniffed.map(|_| ()).unwrap_err());
            assert_eq!(sniffed.to_string(), whole.to_string(), "{text}");
        }
    }
}
