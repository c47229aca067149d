//! A policy whose expressions are ready to be evaluated.

use crate::cel::{Expression, Returns, Scope};
use crate::json::Value;
use crate::meta::object::name;

/// A compiled expression, or its error.
pub(crate) type Compiled = Result<Expression, String>;

/// A policy.
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) constraints: Value,
    /// `apiVersion` and `kind` of its parameters.
    pub(super) param_kind: Option<(String, String)>,
    /// Whether a write goes on when the policy cannot be evaluated.
    pub(super) ignores_failure: bool,
    pub(super) reinvocable: bool,
    pub(super) variables: Vec<(String, Compiled)>,
    pub(super) conditions: Vec<Compiled>,
    pub(super) validations: Vec<Validation>,
    /// The audit annotations, by key.
    pub(super) annotations: Vec<(String, Compiled)>,
    pub(super) mutations: Vec<Compiled>,
}

/// A validation of a policy, compiled.
pub(crate) struct Validation {
    pub(crate) expression: Compiled,
    pub(crate) message_expression: Option<Compiled>,
    /// The message where `message_expression` gives none.
    pub(crate) message: String,
    pub(super) reason: String,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Policy {
    pub(super) fn compile(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let kind = &spec["paramKind"];
        let param_kind = kind.is_object().then(|| {
            let text = |field: &str| text(kind, field).to_owned();
            (text("apiVersion"), text("kind"))
        });
        let mut scope = Scope::new().with_variables();
        if param_kind.is_some() {
            scope = scope.with_params();
        }
        let variables = compile_variables(spec, &mut scope);
        let each = |list: &str, field: &str, returns: Returns| -> Vec<Compiled> {
            let own = items(spec, list).map(|item| text(item, field).trim());
            own.map(|text| scope.compile(text, returns)).collect()
        };
        let mutations = items(spec, "mutations").map(|mutation| {
            let (own, returns) = match text(mutation, "patchType") {
                "JSONPatch" => ("jsonPatch", Returns::Patch),
                _ => ("applyConfiguration", Returns::Configuration),
            };
            scope.compile(text(&mutation[own], "expression").trim(), returns)
        });
        Self {
            name: name(policy).to_owned(),
            constraints: spec["matchConstraints"].clone(),
            param_kind,
            ignores_failure: spec["failurePolicy"] == "Ignore",
            reinvocable: spec["reinvocationPolicy"] == "IfNeeded",
            conditions: each("matchConditions", "expression", Returns::Bool),
            validations: items(spec, "validations")
                .map(|validation| Validation::compile(validation, &scope))
                .collect(),
            annotations: items(spec, "auditAnnotations")
                .map(|own| text(own, "key").to_owned())
                .zip(each(
                    "auditAnnotations",
                    "valueExpression",
                    Returns::TextOrNull,
                ))
                .collect(),
            mutations: mutations.collect(),
            variables,
        }
    }
}

impl Validation {
    pub(crate) fn compile(validation: &Value, scope: &Scope) -> Self {
        let expression = text(validation, "expression");
        let of_message = text(validation, "messageExpression");
        let message = match text(validation, "message").trim() {
            "" => format!("failed expression: {}", expression.trim()),
            message => message.to_owned(),
        };
        let reason = match text(validation, "reason") {
            "" => "Invalid",
            reason => reason,
        };
        Self {
            expression: scope.compile(expression, Returns::Bool),
            message_expression: (!of_message.is_empty()).then(|| {
                scope
                    .without_authorizer()
                    .compile(of_message, Returns::Text)
            }),
            message,
            reason: reason.to_owned(),
        }
    }
}

/// Compiles the variables of a policy, and declares them in `scope` for later expressions.
pub(crate) fn compile_variables(spec: &Value, scope: &mut Scope) -> Vec<(String, Compiled)> {
    let mut variables = Vec::new();
    for variable in items(spec, "variables") {
        let own = text(variable, "name");
        let compiled = scope.compile(text(variable, "expression"), Returns::Anything);
        scope.declare(own, compiled.as_ref().ok());
        variables.push((own.to_owned(), compiled));
    }
    variables
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}
