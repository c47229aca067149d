//! Values of expressions.

mod authorization;
mod message;
mod network;
mod object;
mod parse_addr;
mod semver;
mod url;

use std::{cmp::Ordering, collections::BTreeMap, fmt, sync::Arc};

use super::{error::EvalError, time::Time};

pub(super) use authorization::Authorization;
pub use authorization::{Authorizer, Check, Decision};
pub(super) use message::Message;
pub(super) use network::{Cidr, is, parse_ip};
pub(super) use object::{Format, Object};
pub(super) use semver::Semver;
pub(super) use url::Url;
pub use url::reference_fault;

/// The result of an evaluation.
pub(super) type Evaluated = Result<Value, EvalError>;

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    String(Arc<str>),
    /// `bytes`.
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    /// `google.protobuf.Timestamp`.
    Timestamp(Time),
    /// `list`.
    List(List),
    /// `map`, or an object with fields.
    Map(Map),
    /// A type, by name.
    Type(Arc<str>),
    /// `optional_type`, with or without a value.
    Optional(Option<Arc<Value>>),
    /// A value of a type of the Kubernetes libraries.
    Object(Arc<Object>),
    /// Data that its schema does not describe; expressions can only compare it.
    Preserved(Arc<kubeproof_machinery::json::Value>),
    /// Data that is not what its schema says. Using it is the error.
    Invalid(Arc<str>),
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    pub(super) items: Arc<Vec<Value>>,
    pub(super) kind: ListKind,
}

/// The merge semantics of a list, as in `x-kubernetes-list-type`.
#[derive(Clone, Debug)]
pub(super) enum ListKind {
    Atomic,
    /// Items are unique; their order is ignored.
    Set,
    /// Items are objects, unique by the fields of these escaped names; their order is ignored.
    Map(Arc<[String]>),
}

/// A map or an object.
#[derive(Clone, Debug)]
pub struct Map {
    pub(super) entries: Arc<BTreeMap<Key, Value>>,
    /// How many entries the data has, known to its schema or not.
    pub(super) size: usize,
    /// Whether reading an absent key gives an empty map, as the domains of a device do.
    pub(super) is_total: bool,
}

/// The key of a map. Numbers are equal across types.
#[derive(Clone, Debug)]
pub enum Key {
    /// A `bool`.
    Bool(bool),
    /// An `int` or a `uint`.
    Number {
        /// The value, in the range of its type.
        number: i128,
        /// Whether the type is `uint`.
        unsigned: bool,
    },
    /// A `string`.
    String(Arc<str>),
}

impl Key {
    /// The key that a value is, or finds.
    pub(super) fn new(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Int(number) => Some(Self::Number {
                number: (*number).into(),
                unsigned: false,
            }),
            Value::Uint(number) => Some(Self::Number {
                number: (*number).into(),
                unsigned: true,
            }),
            Value::String(text) => Some(Self::String(text.clone())),
            _ => None,
        }
    }

    /// The key that a value finds: whole doubles find whole numbers.
    pub(super) fn lookup(value: &Value) -> Option<Self> {
        match value {
            Value::Double(number) => {
                #[expect(clippy::cast_possible_truncation, reason = "whole and within 64 bits")]
                let whole =
                    (number.fract() == 0.0 && number.abs() < 1.8e19).then_some(*number as i128);
                whole.map(|number| Self::Number {
                    number,
                    unsigned: false,
                })
            }
            _ => Self::new(value),
        }
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number {
                number,
                unsigned: true,
            } => Value::Uint(u64::try_from(*number).unwrap_or(u64::MAX)),
            Self::Number {
                number,
                unsigned: false,
            } => Value::Int(i64::try_from(*number).unwrap_or(i64::MAX)),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Number { .. } => 1,
            Self::String(_) => 2,
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number { number: a, .. }, Self::Number { number: b, .. }) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl List {
    pub(super) fn new(items: Vec<Value>) -> Self {
        Self {
            items: Arc::new(items),
            kind: ListKind::Atomic,
        }
    }

    /// Returns the identity of a list item: the item, or the fields that form its key.
    fn identity(&self, item: &Value) -> Vec<Value> {
        match (&self.kind, item) {
            (ListKind::Map(keys), Value::Map(object)) => keys
                .iter()
                .map(|key| object.field(key).cloned().unwrap_or(Value::Null))
                .collect(),
            _ => vec![item.clone()],
        }
    }

    fn same_identity(a: &[Value], b: &[Value]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
    }

    /// Both lists as one: items of `other` replace those of the same key, or follow.
    pub(super) fn concat(&self, other: &Self) -> Self {
        let mut items = Vec::clone(&self.items);
        if matches!(self.kind, ListKind::Atomic) {
            items.extend(other.items.iter().cloned());
        } else {
            let mut known: Vec<Vec<Value>> = items.iter().map(|i| self.identity(i)).collect();
            for item in other.items.iter() {
                let identity = self.identity(item);
                match known.iter().position(|k| Self::same_identity(k, &identity)) {
                    Some(at) => items[at] = item.clone(),
                    None => {
                        items.push(item.clone());
                        known.push(identity);
                    }
                }
            }
        }
        Self {
            items: Arc::new(items),
            kind: self.kind.clone(),
        }
    }

    fn equals(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        if matches!(self.kind, ListKind::Atomic) {
            return self
                .items
                .iter()
                .zip(other.items.iter())
                .all(|(a, b)| a.equals(b));
        }
        other.items.iter().all(|item| {
            let identity = self.identity(item);
            self.items
                .iter()
                .any(|own| Self::same_identity(&self.identity(own), &identity) && own.equals(item))
        })
    }

    pub(super) fn contains(&self, wanted: &Value) -> bool {
        self.items.iter().any(|item| item.equals(wanted))
    }
}

impl Map {
    /// Makes a map of these entries.
    pub fn new(entries: BTreeMap<Key, Value>) -> Self {
        Self {
            size: entries.len(),
            entries: Arc::new(entries),
            is_total: false,
        }
    }

    /// Makes a map of these entries in which every other key names an empty map. `in` and iterations know the entries
    /// only.
    pub(super) fn total(entries: BTreeMap<Key, Value>) -> Self {
        Self {
            is_total: true,
            ..Self::new(entries)
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.entries.get(&Key::String(name.into()))
    }
}

impl Value {
    /// Makes a string.
    pub fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    /// Makes a list.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The name of the value's type.
    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => super::types::OPTIONAL,
            Self::Object(object) => object.type_name(),
            Self::Preserved(_) | Self::Invalid(_) => "unknown",
        }
    }

    /// Returns the result of `size()`; for an optional, that of its value.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(text.chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.items.len()),
            Self::Map(map) => Some(map.size),
            Self::Object(object) => object.size(),
            _ => None,
        }
    }

    /// Whether two values are equal; values of unlike types are not.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.equals(b),
            (Self::Map(a), Self::Map(b)) => {
                a.size == b.size
                    && a.entries.len() == b.entries.len()
                    && a.entries
                        .iter()
                        .zip(b.entries.iter())
                        .all(|(a, b)| a.0 == b.0 && a.1.equals(b.1))
            }
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Self::Object(a), Self::Object(b)) => a.equals(b),
            (Self::Preserved(a), Self::Preserved(b)) => a == b,
            _ => compare_numbers(self, other) == Some(Ordering::Equal),
        }
    }

    /// Which of two values comes first; `None` where their types have no order.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            _ => compare_numbers(self, other),
        }
    }

    /// Whether the value is the zero value of its type: 0, the empty string and so on.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(flag) => !flag,
            Self::Int(number) | Self::Duration(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            // The zero of a time in Go is the start of year 1.
            Self::Timestamp(time) => time.nanos == -62_135_596_800_000_000_000,
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) => {
                self.size() == Some(0)
            }
            Self::Optional(value) => value.as_ref().is_none_or(|value| value.is_zero()),
            Self::Type(_) | Self::Object(_) | Self::Preserved(_) | Self::Invalid(_) => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

fn compare_numbers(a: &Value, b: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => compare_double(*a, whole(b)?),
        (a, Value::Double(b)) => compare_double(*b, whole(a)?).map(Ordering::reverse),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

fn compare_double(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    if a.abs() >= 1e20 {
        return a.partial_cmp(&0.0);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the magnitude is checked above"
    )]
    let floor = a.floor() as i128;
    Some(floor.cmp(&b).then(if a > a.floor() {
        Ordering::Greater
    } else {
        Ordering::Equal
    }))
}

/// A double as Go prints it with `%g`.
fn show_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Go switches to an exponent from a million on.
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// As Go prints the value in an error.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Uint(number) => write!(f, "{number}"),
            Self::Double(number) => f.write_str(&show_double(*number)),
            Self::String(text) | Self::Type(text) | Self::Invalid(text) => f.write_str(text),
            Self::Bytes(bytes) => write!(f, "{bytes:?}"),
            Self::Duration(nanos) => f.write_str(&super::time::show_duration(*nanos)),
            Self::Timestamp(time) => f.write_str(&super::time::show_timestamp(*time)),
            Self::List(list) => {
                let shown: Vec<String> = list.items.iter().map(Self::to_string).collect();
                write!(f, "[{}]", shown.join(", "))
            }
            Self::Map(map) => {
                let shown: Vec<String> = map
                    .entries
                    .iter()
                    .map(|(k, v)| format!("{}: {v}", k.value()))
                    .collect();
                write!(f, "{{{}}}", shown.join(", "))
            }
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Object(object) => write!(f, "{object}"),
            Self::Preserved(data) => write!(f, "{data}"),
        }
    }
}
