//! JSON text that is parsed only in the parts that a patch reads.
//!
//! Upstream's library works in this way, and its output shows it: parsed parts are written with
//! sorted keys, all others in their original order, and the error for a result that is not an
//! object of its kind quotes both.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// A value; `None` is null.
pub(super) type Slot = Option<Node>;

/// The members of an object.
pub(super) type Members = BTreeMap<String, Slot>;

/// A value other than null.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// The unparsed text.
    Raw(Box<RawValue>),
    Object(Members),
    Array(Vec<Slot>),
}

/// The members of the object `json`; `None` if it is something else. The last one of a name counts.
pub(super) fn members(json: &str) -> Option<Members> {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json).ok()?;
    let member = |(name, value)| (name, Node::raw(value));
    Some(members.into_iter().map(member).collect())
}

/// The items of the array `json`; `None` if it is something else.
pub(super) fn items(json: &str) -> Option<Vec<Slot>> {
    let items: Vec<Box<RawValue>> = serde_json::from_str(json).ok()?;
    Some(items.into_iter().map(Node::raw).collect())
}

impl Node {
    fn raw(value: Box<RawValue>) -> Slot {
        (value.get() != "null").then_some(Self::Raw(value))
    }

    /// The members of an object, which is taken apart if it was not yet.
    pub(super) fn object(&mut self) -> Option<&mut Members> {
        if let Self::Raw(raw) = self {
            *self = Self::Object(members(raw.get())?);
        }
        match self {
            Self::Object(members) => Some(members),
            Self::Raw(_) | Self::Array(_) => None,
        }
    }

    /// The items of an array, which is taken apart if it was not yet.
    pub(super) fn array(&mut self) -> Option<&mut Vec<Slot>> {
        if let Self::Raw(raw) = self {
            *self = Self::Array(items(raw.get())?);
        }
        match self {
            Self::Array(items) => Some(items),
            Self::Raw(_) | Self::Object(_) => None,
        }
    }

    /// The text of a string.
    pub(super) fn string(&self) -> Option<String> {
        match self {
            Self::Raw(raw) => serde_json::from_str(raw.get()).ok(),
            Self::Object(_) | Self::Array(_) => None,
        }
    }

    /// Whether two values are the same; scalars are compared as they are written.
    pub(super) fn equals(&mut self, other: &mut Self) -> bool {
        if let Some(members) = self.object() {
            return other.object().is_some_and(|others| {
                members.len() == others.len()
                    && members.iter_mut().all(|(name, value)| {
                        let other = others.get_mut(name);
                        other.is_some_and(|other| slots_equal(value, other))
                    })
            });
        }
        if let Some(items) = self.array() {
            return other.array().is_some_and(|others| {
                items.len() == others.len()
                    && items
                        .iter_mut()
                        .zip(others)
                        .all(|(item, other)| slots_equal(item, other))
            });
        }
        matches!((self, other), (Self::Raw(own), Self::Raw(other)) if own.get() == other.get())
    }

    /// Drops the null members of all objects inside; null items of lists stay.
    pub(super) fn prune_nulls(&mut self) {
        if let Some(members) = self.object() {
            members.retain(|_, member| member.is_some());
            members.values_mut().flatten().for_each(Self::prune_nulls);
        } else if let Some(items) = self.array() {
            items.iter_mut().flatten().for_each(Self::prune_nulls);
        }
    }

    /// The value put together again.
    pub(super) fn to_raw(&self) -> Box<RawValue> {
        let mut text = String::new();
        self.write(&mut text);
        RawValue::from_string(text).expect("what is put together from JSON is JSON")
    }

    /// Appends the value as Go's encoder writes it.
    pub(super) fn write(&self, text: &mut String) {
        match self {
            Self::Raw(raw) => compact(raw.get(), text),
            Self::Object(members) => {
                text.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    compact(&crate::json::Value::from(name.as_str()).to_string(), text);
                    text.push(':');
                    write_slot(value, text);
                }
                text.push('}');
            }
            Self::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    write_slot(item, text);
                }
                text.push(']');
            }
        }
    }
}

fn slots_equal(own: &mut Slot, other: &mut Slot) -> bool {
    match (own, other) {
        (Some(own), Some(other)) => own.equals(other),
        (own, other) => own.is_none() && other.is_none(),
    }
}

fn write_slot(slot: &Slot, text: &mut String) {
    match slot {
        Some(node) => node.write(text),
        None => text.push_str("null"),
    }
}

/// Appends `json` without the space between its tokens, and escaped where Go does so for HTML.
fn compact(json: &str, text: &mut String) {
    let (mut in_string, mut escaped) = (false, false);
    for letter in json.chars() {
        match letter {
            ' ' | '\t' | '\r' | '\n' if !in_string => continue,
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            _ => text.push(letter),
        }
        in_string ^= letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(json: &str) -> Node {
        Node::raw(serde_json::from_str(json).unwrap()).unwrap()
    }

    fn written(node: &Node) -> String {
        let mut text = String::new();
        node.write(&mut text);
        text
    }

    #[test]
    fn only_what_was_looked_into_is_sorted() {
        let mut object = node(r#"{ "b": {"z": 1, "y": "< \" >"}, "a": [ 1.0, null ], "c": null }"#);
        assert_eq!(
            written(&object),
            r#"{"b":{"z":1,"y":"\u003c \" \u003e"},"a":[1.0,null],"c":null}"#
        );
        let members = object.object().unwrap();
        assert!(members["c"].is_none());
        assert_eq!(
            written(&object),
            r#"{"a":[1.0,null],"b":{"z":1,"y":"\u003c \" \u003e"},"c":null}"#
        );
        object.prune_nulls();
        assert_eq!(
            written(&object),
            r#"{"a":[1.0,null],"b":{"y":"\u003c \" \u003e","z":1}}"#
        );
    }

    #[test]
    fn values_are_equal_by_their_members_and_by_the_text_of_scalars() {
        for (left, right, equal) in [
            (
                r#"{"a":1,"b":[null]}"#,
                r#"{ "b": [ null ], "a": 1 }"#,
                true,
            ),
            (r#"{"a":1}"#, r#"{"a":1.0}"#, false),
            (r#"{"a":null}"#, r#"{"b":null}"#, false),
            ("[1,2]", "[2,1]", false),
            ("[1]", "{}", false),
            (r#""x""#, r#""x""#, true),
        ] {
            let found = node(left).equals(&mut node(right));
            assert_eq!(found, equal, "{left} {right}");
        }
    }
}
