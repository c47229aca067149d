//! JSON whose objects keep the order of their fields, which `serde_json` sorts.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, fields in the order of the document.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a document.
    ///
    /// # Errors
    /// The syntax error.
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// A field of an object.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let (_, value) = self.fields().iter().find(|(own, _)| own == name)?;
        Some(value)
    }

    /// A field of an object, to be changed.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Object(fields) = self else {
            return None;
        };
        let (_, value) = fields.iter_mut().find(|(own, _)| own == name)?;
        Some(value)
    }

    /// The string at a field, or an empty one.
    #[must_use]
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Self::String(text)) => text,
            _ => "",
        }
    }

    /// The items of the array at a field; none if there is no array.
    #[must_use]
    pub(crate) fn items(&self, name: &str) -> &[Self] {
        match self.get(name) {
            Some(Self::Array(items)) => items,
            _ => &[],
        }
    }

    /// The strings of the array at a field.
    #[must_use]
    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        let items = self.items(name).iter();
        let texts = items.filter_map(|item| match item {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The fields of an object; empty for any other value.
    #[must_use]
    pub(crate) fn fields(&self) -> &[(String, Self)] {
        match self {
            Self::Object(fields) => fields,
            _ => &[],
        }
    }

    /// Sets a field, at the end if it is new.
    pub(crate) fn set(&mut self, name: &str, value: Self) {
        if let Some(own) = self.get_mut(name) {
            *own = value;
        } else if let Self::Object(fields) = self {
            fields.push((name.to_owned(), value));
        }
    }

    /// Removes the fields that `drops` names.
    pub(crate) fn remove(&mut self, drops: &[&str]) {
        if let Self::Object(fields) = self {
            fields.retain(|(name, _)| !drops.contains(&name.as_str()));
        }
    }

    /// Calls `visit` with every string in the value, to be changed.
    pub(crate) fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        match self {
            Self::String(text) => visit(text),
            Self::Array(items) => items.iter_mut().for_each(|item| item.for_each_text(visit)),
            Self::Object(fields) => {
                for (_, value) in fields {
                    value.for_each_text(visit);
                }
            }
            Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
    }

    /// The value on one line, with a space after each colon and comma.
    #[must_use]
    pub(crate) fn spaced(&self) -> String {
        match self {
            Self::Array(items) => {
                let items: Vec<String> = items.iter().map(Self::spaced).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Object(fields) => format!("{{{}}}", spaced_fields(fields)),
            _ => self.to_string(),
        }
    }
}

/// The fields of an object on one line, without its braces.
pub(crate) fn spaced_fields(fields: &[(String, Json)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{}: {}", Json::from(name.as_str()), value.spaced()));
    fields.collect::<Vec<_>>().join(", ")
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl FromIterator<Json> for Json {
    fn from_iter<T: IntoIterator<Item = Json>>(items: T) -> Self {
        Self::Array(items.into_iter().collect())
    }
}

/// The value without a space.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Ordered)
    }
}

struct Ordered;

impl<'de> Visitor<'de> for Ordered {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a number"))?;
        Ok(Json::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order() {
        let text = r#"{"z":[1,-2,0.5,null,true],"a":{"b":"c"}}"#;
        let value = Json::parse(text).unwrap();
        assert_eq!(value.to_string(), text);
        assert_eq!(
            value.spaced(),
            r#"{"z": [1, -2, 0.5, null, true], "a": {"b": "c"}}"#
        );
    }

    #[test]
    fn fields_are_set_in_place_and_removed() {
        let mut value = Json::parse(r#"{"a":1,"b":2,"c":3}"#).unwrap();
        value.set("b", "x".into());
        value.set("d", Json::Null);
        value.remove(&["a", "e"]);
        assert_eq!(value.to_string(), r#"{"b":"x","c":3,"d":null}"#);
    }
}
