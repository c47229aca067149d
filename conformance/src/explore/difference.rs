//! What differs between a run and the run without faults.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::EventKey;

/// One difference between a run and the run without faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Difference {
    /// The run came to no end.
    Unended {
        /// The step that failed, counted from one, if one did.
        failing_step: Option<usize>,
        why: String,
    },
    /// The run violated a property.
    Violated { property: String },
    /// A field of an object; without a value the object or the field is not there.
    Field {
        kind: String,
        name: String,
        field: String,
        expected: Option<String>,
        found: Option<String>,
    },
    /// A difference of the outcome's text that is in no field.
    Text,
    /// The number of an event is out of bounds.
    Event {
        key: EventKey,
        expected: i64,
        found: i64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        match self {
            Self::Unended { why, .. } => write!(f, "the run failed: {why}"),
            Self::Violated { property } => write!(f, "the property {property:?} is violated"),
            Self::Field {
                kind,
                name,
                field,
                expected,
                found,
            } => {
                let (expected, found) = (value(expected), value(found));
                write!(f, "{field} of {kind}/{name}: {expected} → {found}")
            }
            Self::Text => f.write_str("the outcome beside its tables and statuses"),
            Self::Event {
                key,
                expected,
                found,
            } => write!(f, "event {key}: ×{expected} → ×{found}"),
        }
    }
}
