//! Faults of a value, and their form in a status.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::json::Value;
use crate::schema::number::printed_float;
use crate::status::{CauseReason, FieldErrors, FieldPath};

/// Something wrong with a value.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    path: String,
    kind: Kind,
    /// The description of the fault; faults with equal texts are merged.
    message: Rc<str>,
}

/// The classes of faults, with what their texts show.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Required,
    NotSupported {
        value: Value,
        allowed: Vec<Value>,
    },
    TooLong(i64),
    TooMany {
        actual: i64,
        max: i64,
    },
    TypeInvalid(Value),
    Invalid(Value),
    /// A fault without a path.
    Whole,
}

impl Fault {
    /// Creates a fault of the value at `path`; `why` describes the valid values.
    pub(super) fn at(path: &str, kind: Kind, why: &str) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            message: format!("{path} in body {why}").into(),
        }
    }

    /// A fault that names the place only in its text.
    pub(super) fn whole(message: String) -> Self {
        Self {
            path: String::new(),
            kind: Kind::Whole,
            message: message.into(),
        }
    }

    /// A number of which nothing can be a multiple.
    pub(super) fn no_factor(path: &str, shown: &str) -> Self {
        let value = serde_json::from_str(shown).unwrap_or_default();
        Self {
            path: path.to_owned(),
            kind: Kind::Invalid(value),
            message: format!("factor MultipleOf declared for {path} must be positive: {shown}")
                .into(),
        }
    }

    /// A field that an object may not have.
    pub(super) fn forbidden(path: &str, name: &str) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::Invalid(name.into()),
            message: format!("{path}.{name} in body is a forbidden property").into(),
        }
    }
}

/// Faults in the order they were found, each text once.
#[derive(Debug, Default)]
pub(super) struct Faults {
    held: Vec<Fault>,
    messages: BTreeSet<Rc<str>>,
}

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn add(&mut self, fault: Fault) {
        if self.messages.insert(Rc::clone(&fault.message)) {
            self.held.push(fault);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            other.held.into_iter().for_each(|fault| self.add(fault));
        }
    }
}

/// The faults as causes, their paths below `root`.
pub(super) fn errors(root: &FieldPath, faults: Faults) -> FieldErrors {
    let root_text = root.to_string();
    let mut errors = FieldErrors::new();
    for fault in faults.held {
        let path = match fault.path.strip_prefix('.').unwrap_or(&fault.path) {
            // Without any path, Go prints its null pointer.
            "" if root_text.is_empty() => FieldPath::new("<nil>"),
            "" => root.clone(),
            path => root.child(path),
        };
        let path = match fault.kind {
            Kind::Whole if root_text.is_empty() => FieldPath::new("<nil>"),
            Kind::Whole => root.clone(),
            _ => path,
        };
        let invalid = |value: &Value| format!("Invalid value: {}: {}", shown(value), fault.message);
        let limit = |limit: i64| usize::try_from(limit).unwrap_or(0);
        match fault.kind {
            Kind::Required => errors.required(&path, ""),
            Kind::NotSupported { value, allowed } => {
                let texts: Vec<String> = allowed
                    .iter()
                    .map(|allowed| {
                        allowed
                            .as_str()
                            .map_or_else(|| allowed.to_string(), str::to_owned)
                    })
                    .collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                errors.not_supported(&path, &value, &texts);
            }
            Kind::TooLong(max) => errors.too_long(&path, limit(max)),
            Kind::TooMany { actual, max } => errors.too_many(&path, limit(actual), limit(max)),
            Kind::TypeInvalid(value) => {
                errors.push(CauseReason::TypeInvalid, &path, invalid(&value));
            }
            Kind::Invalid(value) => errors.push(CauseReason::Invalid, &path, invalid(&value)),
            Kind::Whole => errors.push(CauseReason::Invalid, &path, invalid(&"".into())),
        }
    }
    errors
}

/// A value as Go's `%v` prints it, strings quoted.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => {
            printed_float(number.as_f64().expect("it is a float"))
        }
        other => other.to_string(),
    }
}
