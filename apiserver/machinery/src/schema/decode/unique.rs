//! Whether a document is free of duplicate fields: nearly all are, which is to cost little.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::json::{Map, Value};
use crate::nesting::Reader;

/// Returns the fields of a JSON document; `None` if it is not an object, or if an object in it has
/// two fields of one name.
#[must_use]
pub fn unique_fields(json: &[u8]) -> Option<Map> {
    let mut reader = Reader::new(json)?;
    let value = reader.value().ok()?;
    reader.end().ok()?;
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Whether no object in a value has two fields of one name.
pub(super) struct Unique(pub(super) bool);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Search)
    }
}

/// A name, borrowed where it has no escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

struct Search;

impl<'de> Visitor<'de> for Search {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut names = Vec::new();
        let mut unique = true;
        while let Some((name, value)) = map.next_entry::<Name<'de>, Unique>()? {
            unique &= value.0;
            names.push(name);
        }
        names.sort_unstable();
        Ok(Unique(unique && names.is_sorted_by(|one, next| one < next)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        let mut unique = true;
        while let Some(item) = items.next_element::<Unique>()? {
            unique &= item.0;
        }
        Ok(Unique(unique))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique(true))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique(true))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique(true))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique(true))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique(true))
    }

    fn visit_unit<E: Error>(self) -> Result<Unique, E> {
        Ok(Unique(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_a_document_without_duplicates() {
        let json = r#"{"b":[1,-1,18446744073709551615,1.5,true,null,"é"],"a":{"a":{}}}"#;
        let whole: Map = serde_json::from_str(json).unwrap();
        assert_eq!(unique_fields(json.as_bytes()), Some(whole));
        for none in [r#"{"a":[{"b":1,"b":1}]}"#, "[]", "null", "{", "{} x"] {
            assert_eq!(unique_fields(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn duplicates_are_seen_at_any_depth() {
        let unique = |json| {
            serde_json::from_str::<Unique>(json)
                .ok()
                .map(|found| found.0)
        };
        for json in [
            "{}",
            r#"{"a":{"a":[1,-1,1.5,true,null,"a"]},"b":[{"a":1},{"a":1}]}"#,
        ] {
            assert_eq!(unique(json), Some(true), "{json}");
        }
        for json in [
            r#"{"a":1,"b":2,"a":3}"#,
            r#"{"a":[{"b":1,"b":1}],"c":1}"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            assert_eq!(unique(json), Some(false), "{json}");
        }
        assert_eq!(unique("{"), None);
    }
}
