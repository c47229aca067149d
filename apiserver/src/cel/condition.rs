//! Conditions on requests: expressions about data without a schema.

mod types;

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value as Json;

use super::{
    checker::Environment,
    library::{Authorize, Check, Object, ResourceCheck},
    program::{Program, compile},
    types::Type,
    value::{Key, List, ListKind, Map, Value},
};

/// The variables of a condition that hold data of any form.
const DATA: [&str; 2] = ["object", "oldObject"];

/// A condition that can be evaluated.
#[derive(Clone)]
pub(crate) struct Condition {
    program: Arc<Program>,
    expression: String,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.expression).finish()
    }
}

/// The variables of a condition.
pub(crate) struct Variables(BTreeMap<&'static str, Value>);

impl Variables {
    /// Those of a request: what is written, what it replaces, the request itself, whom to ask what
    /// its user may do, and what it is about.
    pub(crate) fn new(
        object: &Json,
        old_object: &Json,
        request: &Json,
        authorizer: Arc<dyn Authorize>,
        resource: ResourceCheck,
    ) -> Self {
        let check = |check| Value::Object(Arc::new(Object::Check(check)));
        let requested = Check::of(Arc::clone(&authorizer), resource);
        Self(BTreeMap::from([
            ("object", of_json(object)),
            ("oldObject", of_json(old_object)),
            ("request", of_json(request)),
            ("namespaceObject", Value::Null),
            ("authorizer", check(Check::new(authorizer))),
            ("authorizer.requestResource", check(requested)),
        ]))
    }
}

impl Condition {
    /// Reads the condition of a webhook.
    ///
    /// # Errors
    /// Upstream's text for what is wrong with it.
    pub(crate) fn compile(expression: &str) -> Result<Self, String> {
        let of_library =
            |name: &str| Type::Object(format!("kubernetes.authorization.{name}").into());
        let data = DATA.into_iter().map(|name| (name.into(), Type::Dyn));
        let mut variables: BTreeMap<Arc<str>, Type> = data.collect();
        variables.insert("authorizer".into(), of_library("Authorizer"));
        variables.insert(
            "authorizer.requestResource".into(),
            of_library("ResourceCheck"),
        );
        let mut objects = BTreeMap::new();
        for (name, of) in [
            ("request", types::request()),
            ("namespaceObject", types::namespace()),
        ] {
            variables.insert(name.into(), of.expr_type());
            of.collect(&mut objects);
        }
        let environment = Environment { variables, objects };
        let failed = |issues: String| format!("compilation failed: {issues}");
        let compiled = compile(expression, &environment).map_err(failed)?;
        if *compiled.output() != Type::Bool {
            let output = compiled.output();
            return Err(format!("must evaluate to bool but got {output}"));
        }
        let program = compiled.program();
        let program = program.map_err(|why| format!("program instantiation failed: {why}"))?;
        Ok(Self {
            program: Arc::new(program),
            expression: expression.to_owned(),
        })
    }

    /// Whether the condition holds of a request.
    ///
    /// # Errors
    /// Why it can't be told.
    pub(crate) fn holds(&self, variables: &Variables) -> Result<bool, String> {
        let (value, _) = self.program.evaluate(&variables.0);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cel::Question;

    /// Lets everybody read, and one account do all.
    #[derive(Debug)]
    struct Readers;

    impl Authorize for Readers {
        fn allows(&self, account: Option<(&str, &str)>, question: &Question) -> Option<String> {
            let (Question::Path { verb, .. } | Question::Resource { verb, .. }) = question;
            let is_allowed = verb == "get" || account == Some(("ns", "robot"));
            is_allowed.then(|| format!("asked {question:?}"))
        }
    }

    fn holds(expression: &str) -> Result<bool, String> {
        let request = json!({
            "operation": "CREATE", "userInfo": { "groups": ["a"] }, "name": "x", "options": null,
        });
        let resource = ResourceCheck {
            resource: "pods".to_owned(),
            ..ResourceCheck::default()
        };
        let object = json!({ "data": { "a": "1" } });
        let variables = Variables::new(&object, &Json::Null, &request, Arc::new(Readers), resource);
        Condition::compile(expression)?.holds(&variables)
    }

    #[test]
    fn a_condition_may_ask_what_a_user_may_do() {
        for (expression, expected) in [
            ("authorizer.path('/x').check('get').allowed()", true),
            ("authorizer.path('/x').check('post').allowed()", false),
            (
                "authorizer.group('g').resource('r').namespace('n').check('get').allowed()",
                true,
            ),
            (
                "authorizer.requestResource.check('get').reason().contains('pods')",
                true,
            ),
            (
                "authorizer.requestResource.check('create').allowed()",
                false,
            ),
            (
                "authorizer.serviceAccount('ns','robot').path('/x').check('x').allowed()",
                true,
            ),
            (
                "authorizer.requestResource.name('n').check('x').errored()",
                false,
            ),
            (
                "authorizer.requestResource.labelSelector('a=b').check('x').error() == ''",
                true,
            ),
        ] {
            assert_eq!(holds(expression), Ok(expected), "{expression}");
        }
        let refused = holds("authorizer.path(' ').check('get').allowed()").unwrap_err();
        assert!(
            refused.ends_with("resulted in error: path must not be empty"),
            "{refused}"
        );
    }

    #[test]
    fn a_request_has_a_type_and_an_object_has_none() {
        assert_eq!(
            holds("request.userInfo.groups[0] == 'a' && oldObject == null"),
            Ok(true)
        );
        assert_eq!(holds("has(request.namespace)"), Ok(false));
        let unknown = holds("request.verb == 'x'").unwrap_err();
        assert!(unknown.contains("undefined field 'verb'"), "{unknown}");
        let untyped = holds("object.data.a");
        assert_eq!(untyped, Err("must evaluate to bool but got dyn".to_owned()));
        let absent = holds("object.data.b == 'c'").unwrap_err();
        let expected = "expression 'object.data.b == 'c'' resulted in error: no such key: b";
        assert_eq!(absent, expected);
    }
}
