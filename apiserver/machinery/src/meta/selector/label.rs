//! Label selectors: a conjunction of requirements on an object's labels.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::{SelectorError, label_parser};
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
        Err(SelectorError(aggregate(&errors)))
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

    fn matches(&self, label: Option<&str>) -> bool {
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

/// A condition on the labels of an object. Printing gives the canonical query form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    nothing: bool,
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Selects every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object: what an absent `metav1.LabelSelector` means.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            nothing: true,
            requirements: Vec::new(),
        }
    }

    /// Parses the query form, such as `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
    ///
    /// # Errors
    /// `BadRequest`, in upstream's words.
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        label_parser::parse(selector).map(Self::of)
    }

    /// Selects objects that have all of `labels`: the selector of a `Service` or a
    /// `ReplicationController`.
    #[must_use]
    pub fn from_labels(labels: &Value) -> Self {
        let labels = labels.as_object().into_iter().flatten();
        Self::of(labels.map(equals).collect())
    }

    /// Takes over a `metav1.LabelSelector`; null selects nothing, an empty one everything.
    ///
    /// # Errors
    /// The first requirement that is malformed.
    pub fn from_object(selector: &Value) -> Result<Self, SelectorError> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for label in labels.into_iter().flatten() {
            let Requirement {
                key,
                operator,
                values,
            } = equals(label);
            requirements.push(Requirement::try_new(&key, operator, values)?);
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or("");
            let name = text("operator");
            let operator = match Operator::from_name(name) {
                Some(operator) if !matches!(name, "Gt" | "Lt") => operator,
                _ => {
                    let message = format!("{name:?} is not a valid label selector operator");
                    return Err(SelectorError(message));
                }
            };
            let values = expression.get("values").and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str);
            let values = values.map(str::to_owned).collect();
            requirements.push(Requirement::try_new(text("key"), operator, values)?);
        }
        Ok(Self::of(requirements))
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            nothing: false,
            requirements,
        }
    }

    /// Whether every object is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The conditions, ordered by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object with `labels` (its `metadata.labels`, or null) is selected.
    #[must_use]
    pub fn matches(&self, labels: &Value) -> bool {
        self.matches_by(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Whether an object with the labels of `map` is selected.
    #[must_use]
    pub fn matches_map(&self, map: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| map.get(key).map(String::as_str))
    }

    /// Whether an object is selected whose labels `label` reads.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut requirements = self.requirements.iter();
        !self.nothing
            && requirements.all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// The query form, for `status.selector` of a scale subresource.
    #[must_use]
    pub fn as_selector_string(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

fn equals((key, value): (&String, &Value)) -> Requirement {
    Requirement {
        key: key.clone(),
        operator: Operator::Equals,
        values: vec![value.as_str().unwrap_or_default().to_owned()],
    }
}

/// Several faults in brackets, one bare.
fn aggregate(errors: &FieldErrors) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in errors.causes() {
        let part = format!("{}: {}", cause.field, cause.message);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    match parts.as_slice() {
        [one] => one.clone(),
        _ => format!("[{}]", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests;
