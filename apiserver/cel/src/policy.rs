//! Expressions about requests: conditions of webhooks, and all of an admission policy; and those
//! that select devices.

mod declared;
mod device;
mod typed;

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubeproof_machinery::json::Value as Json;

pub use typed::resource_type;

use super::{
    checker::Environment,
    error::EvalError,
    message,
    program::{CALL_COST_MAX, Program, compile},
    types::{DeclType, Type},
    value::{Authorization, Authorizer, Check, Key, List, ListKind, Map, Value},
};

/// The variable that holds the values of other expressions.
const VARIABLES: &str = "variables";

/// The type of that object.
const VARIABLES_TYPE: &str = "kubernetes.variables";

/// The cost limit of all expressions about one request together.
const BUDGET: u64 = 10_000_000;

/// The type that the value of an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// A bool, as validations and match conditions have it.
    Bool,
    /// A string, as a `messageExpression` has it.
    Text,
    /// A string, or null for no value.
    TextOrNull,
    /// Anything: the value is for other expressions.
    Anything,
    /// The operations of a JSON patch.
    Patch,
    /// An object to be applied.
    Configuration,
    /// Whether a device fits, which may be one of its attributes.
    DeviceMatch,
}

impl Returns {
    fn types(self) -> Vec<Type> {
        match self {
            Self::Bool => vec![Type::Bool],
            Self::Text => vec![Type::String],
            Self::TextOrNull => vec![Type::String, Type::Null],
            Self::Anything => Vec::new(),
            Self::DeviceMatch => vec![Type::Bool, Type::Dyn],
            Self::Patch => vec![Type::list(Type::Object(message::PATCH.into()))],
            Self::Configuration => vec![Type::Object(message::OBJECT.into())],
        }
    }

    /// Whether the expression may have literals of objects and JSON patches.
    fn is_mutation(self) -> bool {
        matches!(self, Self::Patch | Self::Configuration)
    }
}

/// The names that expressions may use.
#[derive(Clone)]
pub struct Scope {
    environment: Environment,
    /// Whether variables may be declared.
    has_variables: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self::new()
    }
}

impl Scope {
    /// Returns the scope of a request and its objects.
    pub fn new() -> Self {
        let authorization = |name: &str| {
            let name = format!("kubernetes.authorization.{name}");
            Type::Object(name.into())
        };
        let mut environment = declared::environment();
        let variables = &mut environment.variables;
        variables.insert("object".into(), Type::Dyn);
        variables.insert("oldObject".into(), Type::Dyn);
        variables.insert("authorizer".into(), authorization("Authorizer"));
        let of_request = authorization("ResourceCheck");
        variables.insert("authorizer.requestResource".into(), of_request);
        Self {
            environment,
            has_variables: false,
        }
    }

    /// A device of a node.
    pub fn of_device() -> Self {
        Self {
            environment: declared::of_device(),
            has_variables: false,
        }
    }

    /// A cluster that holds objects of these kinds.
    pub fn of_cluster<'k>(kinds: impl IntoIterator<Item = &'k str>) -> Self {
        Self {
            environment: declared::of_cluster(kinds),
            has_variables: false,
        }
    }

    /// Returns a scope with the request, objects of type `object`, and the parameter `params` if
    /// the policy has a parameter. A value without a known type is dynamic.
    ///
    /// Source: apiserver `plugin/policy/validating/typechecking.go`: there is an authorizer, and no
    /// `authorizer.requestResource`.
    pub fn of_types(
        object: Option<&Arc<DeclType>>,
        params: Option<Option<&Arc<DeclType>>>,
    ) -> Self {
        let mut scope = Self::new();
        let environment = &mut scope.environment;
        environment.variables.remove("authorizer.requestResource");
        let mut declare = |name: &str, of: Option<&Arc<DeclType>>| {
            if let Some(of) = of {
                of.collect(&mut environment.objects);
            }
            let of = of.map_or(Type::Dyn, |of| of.expr_type());
            environment.variables.insert(name.into(), of);
        };
        declare("object", object);
        declare("oldObject", object);
        if let Some(params) = params {
            declare("params", params);
        }
        scope.with_variables()
    }

    /// Adds the parameter of a policy to the scope.
    pub fn with_params(mut self) -> Self {
        self.environment
            .variables
            .insert("params".into(), Type::Dyn);
        self
    }

    /// Adds the `variables` object to the scope, with no variables in it yet.
    pub fn with_variables(mut self) -> Self {
        self.has_variables = true;
        let of = declared::object(VARIABLES_TYPE, BTreeMap::new());
        self.environment.objects.insert(VARIABLES_TYPE.into(), of);
        let variable = Type::Object(VARIABLES_TYPE.into());
        self.environment
            .variables
            .insert(VARIABLES.into(), variable);
        self
    }

    /// Returns the scope of messages, which may not use the authorizer.
    pub fn without_authorizer(&self) -> Self {
        let mut environment = self.environment.clone();
        let is_authorizer = |name: &Arc<str>| name.starts_with("authorizer");
        environment.variables.retain(|name, _| !is_authorizer(name));
        Self {
            environment,
            has_variables: self.has_variables,
        }
    }

    /// Adds a variable, of a type that is known if its expression is without fault.
    pub fn declare(&mut self, name: &str, expression: Option<&Expression>) {
        self.declare_as(name, expression.map(|own| &own.output));
    }

    /// Adds a variable whose expression has type `of`, if that is known.
    pub fn declare_as(&mut self, name: &str, of: Option<&Type>) {
        let of = of.map_or(Type::Dyn, declared::field_type);
        let variables = self.environment.objects.get_mut(VARIABLES_TYPE);
        if let Some(variables) = variables.filter(|_| self.has_variables) {
            declared::add_field(variables, name, of);
        }
    }

    /// Returns the type of an expression, whatever it is.
    ///
    /// # Errors
    /// The issues, as cel-go prints them.
    pub fn check(&self, text: &str) -> Result<Type, String> {
        let compiled = compile(text, &self.environment)?;
        Ok(compiled.output().clone())
    }

    /// Reads an expression.
    ///
    /// # Errors
    /// Upstream's text for the fault of the expression.
    pub fn compile(&self, text: &str, returns: Returns) -> Result<Expression, String> {
        let mut environment = self.environment.clone();
        environment.has_patch_types = returns.is_mutation();
        let failed = |issues: String| format!("compilation failed: {issues}");
        let compiled = compile(text, &environment).map_err(failed)?;
        let output = compiled.output().clone();
        let wanted = returns.types();
        if !wanted.is_empty() && !wanted.contains(&output) {
            let shown: Vec<String> = wanted.iter().map(declared::name).collect();
            let output = declared::name(&output);
            return Err(match shown.as_slice() {
                _ if returns == Returns::DeviceMatch => {
                    // The dynamic values of a device are its attributes, which upstream names
                    // `Any`.
                    let output = output.replace("dyn", "google.protobuf.Any");
                    format!("must evaluate to bool or the unknown type, not {output}")
                }
                [one] => format!("must evaluate to {one} but got {output}"),
                all => format!(
                    "must evaluate to one of [{}] but got {output}",
                    all.join(" ")
                ),
            });
        }
        let program = compiled.program();
        let program = program.map_err(|why| format!("program instantiation failed: {why}"))?;
        Ok(Expression {
            program,
            text: text.to_owned(),
            output,
        })
    }
}

/// An expression that can be evaluated.
pub struct Expression {
    program: Program,
    text: String,
    output: Type,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Expression");
        shown.field("text", &self.text).finish_non_exhaustive()
    }
}

/// The value of an expression.
#[derive(Debug)]
pub enum Outcome {
    /// A bool.
    Bool(bool),
    /// A string.
    Text(String),
    /// Null.
    Null,
    /// The operations of a JSON patch.
    Patch(Vec<Json>),
    /// An object to be applied.
    Configuration(Json),
    /// Something else.
    Other,
}

/// The values of a scope's names in one request.
pub struct Activation {
    values: BTreeMap<&'static str, Value>,
    variables: BTreeMap<Key, Value>,
    budget: u64,
    call_cost_max: u64,
}

impl Activation {
    /// Nothing but data.
    pub fn new<'j>(data: impl IntoIterator<Item = (&'static str, &'j Json)>) -> Self {
        let data = data.into_iter().map(|(name, json)| (name, of_json(json)));
        Self {
            values: data.collect(),
            variables: BTreeMap::new(),
            budget: BUDGET,
            call_cost_max: CALL_COST_MAX,
        }
    }

    /// Returns an activation without a cost limit, for expressions that run outside of any request.
    pub fn unpriced(values: BTreeMap<&'static str, Value>) -> Self {
        Self {
            values,
            variables: BTreeMap::new(),
            budget: u64::MAX,
            call_cost_max: u64::MAX,
        }
    }

    /// Adds the authorizer, and the action that the request itself needs permission for.
    pub fn set_authorizer(&mut self, by: &Arc<dyn Authorizer>, request: Check) {
        let root = Authorization::root(Arc::clone(by));
        self.values.insert("authorizer", root);
        let of_request = Authorization::of_resource(Arc::clone(by), request);
        self.values.insert("authorizer.requestResource", of_request);
    }

    /// Replaces data.
    pub fn set(&mut self, name: &'static str, json: &Json) {
        self.values.insert(name, of_json(json));
    }

    /// Adds a variable. An evaluation error is reported by the expressions that use the variable.
    pub fn add_variable(&mut self, name: &str, expression: Result<&Expression, &str>) {
        let invalid = |why: String| Value::Invalid(why.into());
        let value = match expression {
            Err(why) => invalid(format!(
                "composited variable {name:?} fails to compile: {why}"
            )),
            Ok(expression) => {
                let (value, cost) = expression
                    .program
                    .evaluate_within(&self.values, self.call_cost_max);
                self.budget = self.budget.saturating_sub(cost);
                value.unwrap_or_else(|error| {
                    let why = error.message();
                    invalid(format!(
                        "composited variable {name:?} fails to evaluate: {why}"
                    ))
                })
            }
        };
        self.variables.insert(Key::String(name.into()), value);
        let all = Value::Map(Map::new(self.variables.clone()));
        self.values.insert(VARIABLES, all);
    }

    /// Forgets the variables, as those of a policy are of no other.
    pub fn forget_variables(&mut self) {
        self.variables.clear();
        self.values.remove(VARIABLES);
        self.budget = BUDGET;
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// The reason why the variable has no value, in upstream's words.
    pub fn evaluate(&mut self, expression: &Expression) -> Result<Outcome, String> {
        let (value, cost) = expression
            .program
            .evaluate_within(&self.values, self.call_cost_max);
        let text = &expression.text;
        let spent = "validation failed due to running out of cost budget, no further validation \
                     rules will be run";
        let Some(left) = self.budget.checked_sub(cost) else {
            return Err(spent.to_owned());
        };
        self.budget = left;
        let value = value.map_err(|error: EvalError| {
            format!("expression '{text}' resulted in error: {}", error.message())
        })?;
        Ok(match value {
            Value::Bool(flag) => Outcome::Bool(flag),
            Value::String(text) => Outcome::Text(text.to_string()),
            Value::Null => Outcome::Null,
            value if expression.output == Type::Object(message::OBJECT.into()) => {
                Outcome::Configuration(message::configuration(&value)?)
            }
            value if matches!(&expression.output, Type::List(_)) => {
                match message::operations(&value) {
                    Ok(operations) => Outcome::Patch(operations),
                    Err(why) => return Err(why),
                }
            }
            _ => Outcome::Other,
        })
    }
}

/// Data as expressions see it where nothing is known of its type.
pub fn of_json(json: &Json) -> Value {
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
            Value::Map(Map::new(entries.collect()))
        }
    }
}
