//! The subset of jq in the keys of stages.
//!
//! Supported are paths (`.a.b`, `.a["b"]`, `.a[0]`, `.a[]`, `.a.[]`), pipes, `select(QUERY OP
//! LITERAL)` with `==` and `!=`, and `select(QUERY)`.

use kubeproof_machinery::json::Value;

/// A query that selects values of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Each,
    Select(Query, Option<(bool, Value)>),
}

/// An error for text that is not a supported query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse {text:?} at {rest:?}")]
pub(super) struct BadQuery {
    text: String,
    rest: String,
}

impl Query {
    pub(super) fn parse(text: &str) -> Result<Self, BadQuery> {
        let mut parser = Parser { rest: text };
        let query = parser.query();
        match query.filter(|_| parser.rest.trim().is_empty()) {
            Some(query) => Ok(query),
            None => Err(BadQuery {
                text: text.to_owned(),
                rest: parser.rest.to_owned(),
            }),
        }
    }

    /// Returns the selected values without nulls; a document without such a path yields none.
    pub(super) fn values<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        let mut values = vec![document];
        for step in &self.0 {
            values = values
                .into_iter()
                .flat_map(|value| step.apply(value))
                .collect();
        }
        values.retain(|value| !value.is_null());
        values
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = match usize::try_from(*index) {
                    Ok(index) => Some(index),
                    // A negative index counts from the end.
                    Err(_) => usize::try_from(index.unsigned_abs())
                        .ok()
                        .and_then(|back| items.len().checked_sub(back)),
                };
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            Self::Each => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            },
            Self::Select(query, test) => {
                let found = query.values(value);
                let holds = match test {
                    Some((equal, wanted)) => {
                        found.first().copied().unwrap_or(&Value::Null).eq(wanted) == *equal
                    }
                    None => found.first().is_some_and(|found| **found != false),
                };
                if holds { vec![value] } else { Vec::new() }
            }
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn query(&mut self) -> Option<Query> {
        let mut steps = Vec::new();
        loop {
            if self.eat("select") {
                steps.push(self.select()?);
            } else {
                self.path(&mut steps)?;
            }
            if !self.eat("|") {
                return Some(Query(steps));
            }
        }
    }

    fn select(&mut self) -> Option<Step> {
        if !self.eat("(") {
            return None;
        }
        let query = self.query()?;
        let test = if self.eat("==") {
            Some((true, self.literal()?))
        } else if self.eat("!=") {
            Some((false, self.literal()?))
        } else {
            None
        };
        self.eat(")").then_some(Step::Select(query, test))
    }

    fn path(&mut self, steps: &mut Vec<Step>) -> Option<()> {
        if !self.eat(".") {
            return None;
        }
        self.part(steps)?;
        loop {
            // After the first dot, whitespace is significant.
            let dotted = self.rest.strip_prefix('.');
            if let Some(rest) = dotted {
                self.rest = rest;
            } else if !self.rest.starts_with('[') {
                return Some(());
            }
            self.part(steps)?;
        }
    }

    fn part(&mut self, steps: &mut Vec<Step>) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('[') {
            self.rest = rest;
            if !self.eat("]") {
                match self.literal()? {
                    Value::String(name) => steps.push(Step::Field(name.to_string())),
                    Value::Number(index) => steps.push(Step::Index(index.as_i64()?)),
                    _ => return None,
                }
                return self.eat("]").then_some(());
            }
            steps.push(Step::Each);
            return Some(());
        }
        if self.rest.starts_with('"') {
            let name = self.literal()?;
            steps.push(Step::Field(name.as_str()?.to_owned()));
            return Some(());
        }
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if !name.is_empty() {
            steps.push(Step::Field(name.to_owned()));
        }
        self.rest = rest;
        Some(())
    }

    /// Parses a JSON literal.
    fn literal(&mut self) -> Option<Value> {
        let text = self.rest.trim_start();
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let value = values.next()?.ok()?;
        self.rest = &text[values.byte_offset()..];
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn paths_pipes_and_selections() {
        let document = json!({
            "metadata": { "labels": { "a.b/c": "x" }, "finalizers": [] },
            "status": { "conditions": [
                { "type": "Ready", "status": "True" }, { "type": "Other", "status": "False" },
            ], "phase": null },
        });
        for (text, expected) in [
            (".metadata.labels[\"a.b/c\"]", vec![json!("x")]),
            (
                ".status.conditions.[].type",
                vec![json!("Ready"), json!("Other")],
            ),
            (
                ".status.conditions.[] | select( .type == \"Ready\" ) | .status",
                vec![json!("True")],
            ),
            (
                ".status.conditions[] | select(.type != \"Ready\") | .type",
                vec![json!("Other")],
            ),
            (".status.conditions[-1].type", vec![json!("Other")]),
            (".status.phase", vec![]),
            (".spec.none.deeper", vec![]),
        ] {
            let query = Query::parse(text).unwrap_or_else(|error| panic!("{error}"));
            let found: Vec<Value> = query.values(&document).into_iter().cloned().collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in ["status", ".a | length", ".a[", ".a | select(.b > 1)"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }
}
