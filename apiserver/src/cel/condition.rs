//! Conditions on requests: expressions about data without a schema.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value as Json;

use super::{
    checker::Environment,
    program::{Program, compile},
    types::Type,
    value::{Key, List, ListKind, Map, Value},
};

/// The variables of a condition that hold data.
const DATA: [&str; 4] = ["object", "oldObject", "request", "namespaceObject"];

/// A condition that can be evaluated.
pub(crate) struct Condition {
    program: Program,
    expression: String,
}

impl Condition {
    /// Reads the condition of a webhook.
    ///
    /// # Errors
    /// Upstream's text for what is wrong with it.
    pub(crate) fn compile(expression: &str) -> Result<Self, String> {
        let opaque = |name: &str| {
            let name = format!("kubernetes.authorization.{name}");
            Type::Opaque(name.into(), Vec::new())
        };
        let data = DATA.into_iter().map(|name| (name.into(), Type::Dyn));
        let mut variables: BTreeMap<Arc<str>, Type> = data.collect();
        variables.insert("authorizer".into(), opaque("Authorizer"));
        variables.insert("authorizer.requestResource".into(), opaque("ResourceCheck"));
        let environment = Environment {
            variables,
            objects: BTreeMap::new(),
        };
        let failed = |issues: String| format!("compilation failed: {issues}");
        let compiled = compile(expression, &environment).map_err(failed)?;
        if !matches!(compiled.output(), Type::Bool | Type::Dyn) {
            return Err("must evaluate to bool".to_owned());
        }
        let program = compiled.program();
        let program = program.map_err(|why| format!("program instantiation failed: {why}"))?;
        Ok(Self {
            program,
            expression: expression.to_owned(),
        })
    }

    /// Whether the condition holds of a request.
    ///
    /// # Errors
    /// Why it can't be told.
    pub(crate) fn holds(&self, variables: &BTreeMap<&str, &Json>) -> Result<bool, String> {
        let variables = variables.iter().map(|(name, json)| (*name, of_json(json)));
        let (value, _) = self.program.evaluate(&variables.collect());
        match value {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("cel expression did not evaluate to a bool".to_owned()),
            Err(error) => Err(format!(
                "expression '{}' resulted in error: {}",
                self.expression,
                error.message()
            )),
        }
    }
}

/// Data as expressions see it where nothing is known of its type.
fn of_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => number.as_i64().map_or_else(
            || Value::Double(number.as_f64().unwrap_or_default()),
            Value::Int,
        ),
        Json::String(text) => Value::String(text.as_str().into()),
        Json::Array(items) => Value::List(List {
            items: Arc::new(items.iter().map(of_json).collect()),
            kind: ListKind::Atomic,
        }),
        Json::Object(fields) => {
            let entries = fields
                .iter()
                .map(|(name, value)| (Key::String(name.as_str().into()), of_json(value)));
            let entries: BTreeMap<_, _> = entries.collect();
            Value::Map(Map {
                size: entries.len(),
                entries: Arc::new(entries),
            })
        }
    }
}
