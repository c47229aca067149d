//! Checks the expressions of ValidatingAdmissionPolicies against the types of the objects that they
//! are about, for a controller that reports warnings: a policy is in force whatever they say.
//!
//! Source: apiserver `pkg/admission/plugin/policy/validating/typechecking.go`.

use std::fmt;

use crate::cel::{Scope, resource_type};
use crate::json::Value;

/// A kind of objects, with the OpenAPI v3 document of its group version.
#[derive(Clone, Copy, Debug)]
pub struct Kind<'d> {
    /// The API group; empty for the core group.
    pub group: &'d str,
    /// The API version.
    pub version: &'d str,
    /// The name of the kind.
    pub kind: &'d str,
    /// The document, or `None` if the server has none for that group version.
    pub document: Option<&'d Value>,
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            version,
            kind,
            ..
        } = self;
        write!(f, "{group}/{version}, Kind={kind}")
    }
}

/// An expression that does not fit the types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The field of the expression: `spec.validations[0].expression`.
    pub field_ref: String,
    /// The issues, a paragraph a kind.
    pub warning: String,
}

/// Checks the validations of a policy, and their messages, for objects of each of `kinds`.
///
/// `spec` is the policy's; `params` is the kind of its parameters, if it has any. A kind without a
/// schema is skipped; parameters without a schema may be anything. `nanosecond` becomes part of the
/// names of types, as the time does in upstream's.
#[must_use]
pub fn check(
    spec: &Value,
    kinds: &[Kind<'_>],
    params: Option<Kind<'_>>,
    nanosecond: i32,
) -> Vec<ExpressionWarning> {
    let type_of = |kind: &Kind<'_>| {
        let schemas = kind.document?["components"]["schemas"].as_object()?;
        let is_it = |schema: &Value| {
            let kinds = &schema["x-kubernetes-group-version-kind"];
            items(kinds).any(|own| {
                own["group"] == kind.group
                    && own["version"] == kind.version
                    && own["kind"] == kind.kind
            })
        };
        let (definition, _) = schemas.iter().find(|(_, schema)| is_it(schema))?;
        let type_name = format!("{}{nanosecond}", kind.kind);
        resource_type(schemas, definition, &type_name).ok()
    };
    let params = params.map(|kind| type_of(&kind).flatten());
    let typed = kinds.iter().filter_map(|kind| {
        let object = type_of(kind)?;
        let params = params.as_ref().map(Option::as_ref);
        let mut scope = Scope::of_types(object.as_ref(), params);
        for variable in items(&spec["variables"]) {
            let of = scope.check(text(&variable["expression"]));
            scope.declare_as(text(&variable["name"]), of.as_ref().ok());
        }
        Some((kind, scope))
    });
    let typed: Vec<_> = typed.collect();
    let mut warnings = Vec::new();
    for (index, validation) in items(&spec["validations"]).enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = text(&validation[field]);
            if field == "messageExpression" && expression.is_empty() {
                continue;
            }
            let checked = typed.iter().filter_map(|(kind, scope)| {
                let issues = scope.check(expression).err()?;
                Some(format!("{kind}: {issues}\n"))
            });
            let checked: Vec<String> = checked.collect();
            if !checked.is_empty() {
                warnings.push(ExpressionWarning {
                    field_ref: format!("spec.validations[{index}].{field}"),
                    warning: checked.join("\n"),
                });
            }
        }
    }
    warnings
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
