//! The requirements of label selectors: a key, an operator and values.

use std::fmt;

use super::SelectorError;
use crate::json::{SmolStr, Value};
use crate::meta::validation::{label_value, qualified_name};
use crate::status::{FieldErrors, FieldPath};

/// How a requirement relates its key to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key in (values)`
    In,
    /// `key notin (values)`
    NotIn,
    /// `key=value`
    Equals,
    /// `key==value`
    DoubleEquals,
    /// `key!=value`
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>value`
    GreaterThan,
    /// `key<value`
    LessThan,
}

impl Operator {
    /// The operator of a `matchExpressions` entry: `In`, `NotIn`, `Exists`, `DoesNotExist`, and for nodes `Gt` and `Lt`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            "Gt" => Some(Self::GreaterThan),
            "Lt" => Some(Self::LessThan),
            _ => None,
        }
    }

    /// Whether `actual`, the value of the key, relates to `values` in this way.
    #[must_use]
    pub fn matches(self, values: &[impl AsRef<str>], actual: Option<&str>) -> bool {
        let is_listed = || values.iter().any(|value| Some(value.as_ref()) == actual);
        let compare = |test: fn(i64, i64) -> bool| {
            let bound = values.first().and_then(|value| value.as_ref().parse().ok());
            let actual = actual.and_then(|actual| actual.parse().ok());
            actual
                .zip(bound)
                .is_some_and(|(actual, bound)| test(actual, bound))
        };
        match self {
            Self::In | Self::Equals | Self::DoubleEquals => is_listed(),
            Self::NotIn | Self::NotEquals => !is_listed(),
            Self::Exists => actual.is_some(),
            Self::DoesNotExist => actual.is_none(),
            Self::GreaterThan => compare(|actual, bound| actual > bound),
            Self::LessThan => compare(|actual, bound| actual < bound),
        }
    }
}

/// One condition on the labels of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// Checks the key, the number of values and each value.
    ///
    /// # Errors
    /// Every fault, under the paths `key` and `values`.
    pub fn try_new(
        key: &str,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, SelectorError> {
        let mut errors = FieldErrors::new();
        let faults = qualified_name(key);
        if !faults.is_empty() {
            errors.invalid(&FieldPath::new("key"), &key.into(), &faults.join("; "));
        }
        let path = FieldPath::new("values");
        let count_fault = match operator {
            Operator::In | Operator::NotIn => values
                .is_empty()
                .then_some("for 'in', 'notin' operators, values set can't be empty"),
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                (values.len() != 1).then_some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist => (!values.is_empty())
                .then_some("values set must be empty for exists and does not exist"),
            Operator::GreaterThan | Operator::LessThan => (values.len() != 1)
                .then_some("for 'Gt', 'Lt' operators, exactly one value is required"),
        };
        if let Some(fault) = count_fault {
            errors.invalid(&path, &values.as_slice().into(), fault);
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            for (index, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    errors.invalid(&path.index(index), &value.as_str().into(), detail);
                }
            }
        }
        for (index, value) in values.iter().enumerate() {
            let faults = label_value(value);
            if !faults.is_empty() {
                let path = path.index(index).key(key);
                errors.invalid(&path, &value.as_str().into(), &faults.join("; "));
            }
        }
        if errors.is_empty() {
            let key = key.to_owned();
            return Ok(Self {
                key,
                operator,
                values,
            });
        }
        Err(SelectorError(errors.to_string()))
    }

    /// Requires the label `key` to have a value, unchecked.
    pub(super) fn equals((key, value): (&SmolStr, &Value)) -> Self {
        Self {
            key: key.to_string(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        }
    }

    /// Checks the requirement as [`Self::try_new`] does.
    pub(super) fn checked(self) -> Result<Self, SelectorError> {
        Self::try_new(&self.key, self.operator, self.values)
    }

    /// The key of the label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator of the comparison.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values that the label is compared with.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    pub(super) fn matches(&self, label: Option<&str>) -> bool {
        self.operator.matches(&self.values, label)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
