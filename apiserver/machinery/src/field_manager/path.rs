//! An element of a path into an object, and its forms in text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::json::{Value, html_escape};
use crate::status::quoted;

/// One step from a value to a value inside of it.
///
/// Ordered as sets of fields are written: by kind of step, then by content.
#[derive(Clone, Debug)]
pub(super) enum PathElement {
    /// A field of a struct or a key of a map.
    Field(String),
    /// The item of a list with these keys, sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set with this value.
    Value(Value),
    /// The item at this index of an atomic list.
    Index(i64),
}

impl PathElement {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads the form used in `FieldsV1`; `None` for an unknown kind of step.
    ///
    /// # Errors
    /// Describes the malformed text.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_once(':') else {
            return Err(format!("missing colon: {text}"));
        };
        let json = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
        Ok(Some(match kind {
            "f" => Self::field(rest),
            "v" => Self::Value(json()?),
            "k" => match json()? {
                Value::Object(keys) => Self::Key(
                    keys.into_iter()
                        .map(|(name, value)| (name.into(), value))
                        .collect(),
                ),
                other => return Err(format!("expected the keys of an item, got {other}")),
            },
            "i" => {
                Self::Index(rest.parse().map_err(|_| {
                    format!("strconv.Atoi: parsing {}: invalid syntax", quoted(rest))
                })?)
            }
            _ => return Ok(None),
        }))
    }

    /// The form used in `FieldsV1`.
    pub(super) fn serialize(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(keys) => {
                let mut text = String::from("k:{");
                for (index, (name, value)) in keys.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    write_string(&mut text, name);
                    text.push(':');
                    match value {
                        Value::String(value) => write_string(&mut text, value),
                        value => text.push_str(&value.to_string()),
                    }
                }
                text.push('}');
                escaped(text)
            }
            Self::Value(value) => escaped(format!("v:{value}")),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// A key or a value as Go's encoder writes it.
fn escaped(text: String) -> String {
    match html_escape(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

/// Whether a string is written in JSON as it is.
pub(super) fn is_plain(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'))
}

/// Writes a string of JSON.
pub(super) fn write_string(json: &mut String, text: &str) {
    if is_plain(text) {
        json.push('"');
        json.push_str(text);
        json.push('"');
    } else if text.bytes().all(|byte| byte >= b' ') {
        json.push('"');
        let mut rest = text;
        while let Some(at) = rest.find(['"', '\\']) {
            json.push_str(&rest[..at]);
            json.push('\\');
            json.push_str(&rest[at..=at]);
            rest = &rest[at + 1..];
        }
        json.push_str(rest);
        json.push('"');
    } else {
        json.push_str(&serde_json::to_string(text).expect("texts have a form in JSON"));
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                let pairs = left.iter().zip(right);
                let by_pair = pairs.map(|((left_name, left), (right_name, right))| {
                    left_name
                        .cmp(right_name)
                        .then_with(|| compare_values(left, right))
                });
                by_pair
                    .fold(Ordering::Equal, Ordering::then)
                    .then(left.len().cmp(&right.len()))
            }
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// The form in messages: `.name`, `[key="value"]`, `[="value"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(keys) => {
                formatter.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(formatter, "{comma}{name}={value}")?;
                }
                formatter.write_str("]")
            }
            Self::Value(value) => write!(formatter, "[={value}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// A path in messages.
pub(super) fn display(path: &[PathElement]) -> String {
    path.iter().map(PathElement::to_string).collect()
}

/// A total order of scalars: numbers, strings, bools, the rest.
fn compare_values(left: &Value, right: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => {
                let number = |value: &crate::json::Number| value.as_f64().unwrap_or(f64::INFINITY);
                number(left).total_cmp(&number(right))
            }
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            left.to_string().cmp(&right.to_string())
        }
        _ => rank(left).cmp(&rank(right)),
    }
}
