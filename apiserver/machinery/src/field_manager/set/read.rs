//! Reading `FieldsV1`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::{FieldSet, Node};
use crate::field_manager::path::PathElement;
use crate::json::Value;
use crate::meta::fields;
use crate::nesting::{self, Reader};

impl FieldSet {
    /// Reads `FieldsV1`, as sent or as encoded text.
    ///
    /// # Errors
    /// Describes the malformed fields.
    pub(in crate::field_manager) fn read(fields: &Value) -> Result<Self, String> {
        let Some(json) = fields::resting(fields) else {
            return Self::from_fields(fields);
        };
        let node = |mut reader: Reader<'_>| {
            let node = Node::deserialize(&mut reader).ok()?;
            reader.end().ok().map(|()| node)
        };
        if let Some(node) = Reader::new(json.as_bytes()).and_then(node) {
            return Ok(node.children);
        }
        let fields: Value =
            nesting::from_slice(json.as_bytes()).map_err(|error| error.to_string())?;
        Self::from_fields(&fields)
    }

    /// Reads `FieldsV1`.
    ///
    /// # Errors
    /// Describes the malformed fields.
    pub(in crate::field_manager) fn from_fields(fields: &Value) -> Result<Self, String> {
        Ok(Self::parse(fields)?.children)
    }

    /// The set below an element; the element itself is a member if nothing is below it.
    fn parse(fields: &Value) -> Result<Node, String> {
        let mut node = Node::default();
        match fields {
            Value::Object(fields) => {
                let mut children = Vec::with_capacity(fields.len());
                for (key, below) in fields {
                    if key == "." {
                        node.member = true;
                    } else if let Some(element) = PathElement::parse(key)? {
                        children.push((element, Self::parse(below)?));
                    }
                }
                node.children = Self::of_nodes(children);
            }
            Value::Null => {}
            other => return Err(format!("expected an object, got {other}")),
        }
        node.member |= node.children.is_empty();
        Ok(node)
    }
}

/// Reads a node without building a JSON tree; the errors do not describe the fault.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let (mut node, mut children) = (Node::default(), Vec::new());
        while let Some(key) = map.next_key::<Key>()? {
            let below = map.next_value()?;
            match key {
                Key::Itself => node.member = true,
                Key::Element(element) => children.push((element, below)),
                Key::Unknown => {}
            }
        }
        node.children = FieldSet::of_nodes(children);
        node.member |= node.children.is_empty();
        Ok(node)
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node {
            member: true,
            ..Node::default()
        })
    }
}

/// A key of `FieldsV1`.
enum Key {
    /// `.`, the element whose fields these are.
    Itself,
    Element(PathElement),
    /// An unknown kind of step.
    Unknown,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an element of a path")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
        if text == "." {
            return Ok(Key::Itself);
        }
        let element = PathElement::parse(text).map_err(E::custom)?;
        Ok(element.map_or(Key::Unknown, Key::Element))
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn what_rests_is_read_as_what_was_sent() {
        for fields in [
            json!({}),
            json!(null),
            json!({ "f:b": {}, "f:a": { ".": {}, "f:x": null, "i:2": {}, "i:10": {} } }),
            json!({ "f:a": { "v:1": {}, "v:1.0": { "f:b": {} }, "v:10": {}, "v:2": {} } }),
            json!({ "f:l": { "k:{\"port\":80}": { "f:port": {} }, "v:\"a\"": {} } }),
            json!({ "q:new": { "f:a": {} }, "f:\u{e9}\"": {} }),
            json!({ "f:a": 1 }),
            json!({ "a": {} }),
            json!({ "q:new": 1 }),
            json!([]),
        ] {
            let resting = fields::at_rest(&fields.to_string());
            assert_eq!(
                FieldSet::read(&resting),
                FieldSet::read(&fields),
                "{fields}"
            );
        }
    }
}
