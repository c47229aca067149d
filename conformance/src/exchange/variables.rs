//! `${…}` in requests: the predefined values of a case, and the values that its steps saved.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kubeproof_machinery::json::Value;
use regex::{Captures, Regex};

static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").expect("a constant pattern"));

/// A mebibyte.
const MIB: usize = 1 << 20;

/// The variables of a running case.
#[derive(Debug)]
pub(super) struct Variables(BTreeMap<String, Value>);

impl Variables {
    /// The variables that every case begins with.
    pub(super) fn of_case(name: &str) -> Self {
        Self(BTreeMap::from([
            ("id".to_owned(), name.into()),
            ("ns".to_owned(), format!("c-{name}").into()),
            ("mib".to_owned(), "x".repeat(MIB).into()),
            ("half".to_owned(), "x".repeat(MIB / 2).into()),
        ]))
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// `template` with the variables' values; unknown ones stay as they are.
    pub(super) fn text(&self, template: &str) -> String {
        let value = |captures: &Captures<'_>| match self.0.get(&captures[1]) {
            None => captures[0].to_owned(),
            Some(Value::String(text)) => text.to_string(),
            Some(other) => other.to_string(),
        };
        NAME.replace_all(template, value).into_owned()
    }

    /// `template` with the variables' values in all its keys and strings. A string that is nothing
    /// but a variable becomes its value, of whatever type.
    pub(super) fn value(&self, template: &Value) -> Value {
        match template {
            Value::String(text) => {
                let whole = text
                    .strip_prefix("${")
                    .and_then(|rest| rest.strip_suffix('}'));
                let value = whole.and_then(|name| self.0.get(name));
                value.cloned().unwrap_or_else(|| self.text(text).into())
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (self.text(key), self.value(value)))
                .collect(),
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn variables_are_replaced_wherever_they_stand() {
        let mut variables = Variables::of_case("a-case");
        variables.set("n", json!(3));
        let template = json!({
            "${id}.x": ["in ${ns}", "${n}", "n=${n}", "${other}", true],
        });
        let expected = json!({
            "a-case.x": ["in c-a-case", 3, "n=3", "${other}", true],
        });
        assert_eq!(variables.value(&template), expected);
        assert_eq!(variables.text("${mib}${half}").len(), 3 << 19);
    }
}
