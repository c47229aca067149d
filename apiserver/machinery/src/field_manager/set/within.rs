//! Whether `FieldsV1` has all paths of a set, found without reading its other paths.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::{FieldSet, Node};
use crate::json::Value;
use crate::meta::fields;
use crate::nesting::Reader;

impl FieldSet {
    /// Whether `FieldsV1`, encoded as text, has every path of this set; false if it is not encoded, or malformed.
    pub(in crate::field_manager) fn is_within(&self, fields: &Value) -> bool {
        let Some(json) = fields::resting(fields) else {
            return false;
        };
        let Some(mut reader) = Reader::new(json.as_bytes()) else {
            return false;
        };
        let below = Below(self).deserialize(&mut reader);
        below.is_ok_and(|below| below.has_all && reader.end().is_ok())
    }
}

/// Reads the fields below an element of which these paths are looked for.
struct Below<'s>(&'s FieldSet);

/// The result of a search below an element.
struct Found {
    /// Whether all the paths are there.
    has_all: bool,
    /// Whether the element itself is one of the paths.
    is_member: bool,
}

impl<'de> DeserializeSeed<'de> for Below<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Below<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let wanted = self
            .0
            .iter()
            .map(|(element, node)| (element.serialize(), node));
        let mut wanted: Vec<(String, &Node)> = wanted.collect();
        let (mut is_empty, mut is_member, mut has_all) = (true, false, true);
        while let Some(Key(key)) = map.next_key()? {
            if key == "." {
                is_member = true;
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            is_empty = false;
            let Some(at) = wanted.iter().position(|(own, _)| *own == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let (_, node) = wanted.swap_remove(at);
            let below = map.next_value_seed(Below(&node.children))?;
            has_all &= below.has_all && (below.is_member || !node.member);
        }
        Ok(Found {
            has_all: has_all && wanted.is_empty(),
            is_member: is_member || is_empty,
        })
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found {
            has_all: self.0.is_empty(),
            is_member: true,
        })
    }
}

/// A key of `FieldsV1`, borrowed where it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an element of a path")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Borrowed(key)))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Owned(key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_set_is_within_fields_that_have_all_its_paths() {
        let fields = json!({
            "f:a": { ".": {}, "f:b": {}, "f:c": { "f:d": {} } },
            "f:l": { "k:{\"type\":\"Ready\"}": { ".": {}, "f:status": {} }, "v:1": null },
        });
        let resting = fields::at_rest(&fields.to_string());
        let is_within = |set: Value| FieldSet::from_fields(&set).unwrap().is_within(&resting);
        for set in [
            json!({}),
            fields.clone(),
            json!({ "f:a": {} }),
            json!({ "f:a": { "f:c": { "f:d": {} } } }),
            json!({ "f:l": { "k:{\"type\":\"Ready\"}": { "f:status": {} }, "v:1": {} } }),
        ] {
            assert!(is_within(set.clone()), "{set}");
        }
        for set in [
            json!({ "f:b": {} }),
            json!({ "f:l": {} }),
            json!({ "f:a": { ".": {}, "f:c": {} } }),
            json!({ "f:a": { "f:b": { "f:x": {} } } }),
            json!({ "f:l": { "k:{\"type\":\"Other\"}": {} } }),
            json!({ "f:l": { "v:1": { "f:x": {} } } }),
        ] {
            assert!(!is_within(set.clone()), "{set}");
        }
        let set = FieldSet::from_fields(&json!({ "f:a": {} })).unwrap();
        assert!(!set.is_within(&fields), "what does not rest is not read");
        for malformed in [
            r#"{"f:a":"#,
            r#"{"f:a":{}"#,
            r#"{"f:a":{}} x"#,
            r#"{"f:a":{}}{}"#,
            r#"{"f:a":{},"f:b":{a b}}"#,
            r#"{"f:a":{},"f:b":{"f:c":[}}}"#,
            r#"{"f:a":{},"f:b":"\q"}"#,
            r#"{"f:a":{".":[1,,2]}}"#,
        ] {
            assert!(!set.is_within(&fields::at_rest(malformed)), "{malformed}");
        }
        assert!(set.is_within(&fields::at_rest(r#"{"f:a":{},"f:b":{"f:c":{}}} "#)));
    }
}
