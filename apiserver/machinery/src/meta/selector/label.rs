//! Label selectors: a conjunction of requirements on an object's labels.

use std::collections::BTreeMap;
use std::fmt;

use super::requirement::{Operator, Requirement};
use super::{SelectorError, label_parser};
use crate::json::Value;
use crate::status::quoted;

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
        Self::of(labels.map(Requirement::equals).collect())
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
            requirements.push(Requirement::equals(label).checked()?);
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or("");
            let name = text("operator");
            let operator = match Operator::from_name(name) {
                Some(operator) if !matches!(name, "Gt" | "Lt") => operator,
                _ => {
                    let message =
                        format!("{} is not a valid label selector operator", quoted(name));
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
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
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
            && requirements.all(|requirement| requirement.matches(label(requirement.key())))
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

#[cfg(test)]
mod tests;
