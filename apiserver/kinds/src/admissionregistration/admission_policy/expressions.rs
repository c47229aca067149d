//! Validation of the expressions in an admission policy.

use std::collections::BTreeSet;

use crate::admissionregistration::webhook_configuration::validation::refused;
use crate::cel::{Returns, Scope, is_reserved};
use crate::json::Value;
use crate::meta::validation::qualified_name;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::invalid_each;

const ANNOTATIONS_MAX: usize = 20;
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Finds the faults of the variables, and declares them for later expressions.
pub fn validate_variables(
    spec: &Value,
    scope: &mut Scope,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (index, variable) in items(&spec["variables"]).enumerate() {
        let path = path.child("variables").index(index);
        let name = text(&variable["name"]);
        let at = path.child("name");
        if name.trim().is_empty() {
            errors.required(&at, "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&at, &name.into(), "must be a valid CEL identifier");
        }
        let expression = text(&variable["expression"]);
        let at = path.child("expression");
        if expression.trim().is_empty() {
            errors.required(&at, "expression is not specified");
            continue;
        }
        let compiled = scope.compile(expression, Returns::Anything);
        if let Err(why) = &compiled {
            refused(&at, expression, why, errors);
        }
        scope.declare(name, compiled.as_ref().ok());
    }
}

fn is_identifier(name: &str) -> bool {
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    name.bytes().all(is_word)
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !is_reserved(name)
}

/// The faults of the validations of a policy.
pub(super) fn validate_validations(
    spec: &Value,
    name: &str,
    scope: &Scope,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let annotations = path.child("auditAnnotations");
    if is_empty(&spec["validations"]) && is_empty(&spec["auditAnnotations"]) {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(&path.child("validations"), detail);
        return errors.required(&annotations, detail);
    }
    for (index, validation) in items(&spec["validations"]).enumerate() {
        let path = path.child("validations").index(index);
        validate_validation(validation, scope, &path, errors);
    }
    let count = items(&spec["auditAnnotations"]).count();
    if count > ANNOTATIONS_MAX {
        let detail = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        errors.invalid(&annotations, &spec["auditAnnotations"], &detail);
    }
    let mut keys = BTreeSet::new();
    for (index, annotation) in items(&spec["auditAnnotations"]).enumerate() {
        let path = annotations.index(index);
        validate_annotation(annotation, name, scope, &path, errors);
        if !keys.insert(text(&annotation["key"])) {
            errors.duplicate(&path.child("key"), &annotation["key"]);
        }
    }
}

/// The faults of one thing asked, and of its messages.
pub fn validate_validation(
    validation: &Value,
    scope: &Scope,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let expression = text(&validation["expression"]);
    let at = path.child("expression");
    if expression.trim().is_empty() {
        errors.required(&at, "expression is not specified");
    } else if let Err(why) = scope.compile(expression, Returns::Bool) {
        refused(&at, expression, &why, errors);
    }
    const EMPTY: &str = "must be non-empty if specified";
    let expression = text(&validation["messageExpression"]);
    let at = path.child("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        errors.invalid(&at, &expression.into(), EMPTY);
    } else if !expression.is_empty() {
        let scope = scope.without_authorizer();
        if let Err(why) = scope.compile(expression, Returns::Text) {
            refused(&at, expression, &why, errors);
        }
    }
    let message = text(&validation["message"]);
    let at = path.child("message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&at, &message.into(), EMPTY);
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(&at, &message.into(), "must not contain line breaks");
    }
    let reason = &validation["reason"];
    if !reason.is_null() && !REASONS.contains(&text(reason)) {
        errors.not_supported(&path.child("reason"), reason, &REASONS);
    }
}

fn validate_annotation(
    annotation: &Value,
    name: &str,
    scope: &Scope,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let (key, at) = (text(&annotation["key"]), path.child("key"));
    if name.is_empty() {
        errors.invalid(&at, &key.into(), "requires metadata.name be non-empty");
    } else {
        let whole = format!("{name}/{key}");
        invalid_each(qualified_name(&whole), &whole.as_str().into(), &at, errors);
    }
    let expression = text(&annotation["valueExpression"]);
    let at = path.child("valueExpression");
    if expression.trim().is_empty() {
        errors.required(&at, "valueExpression is not specified");
    } else if expression.trim().len() > ANNOTATION_BYTES_MAX {
        let detail = format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length");
        errors.required(&at, &detail);
    } else if let Err(why) = scope.compile(expression.trim(), Returns::TextOrNull) {
        refused(&at, expression, &why, errors);
    }
}

/// The faults of the mutations of a policy.
pub(super) fn validate_mutations(
    spec: &Value,
    scope: &Scope,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if is_empty(&spec["mutations"]) {
        let detail = "mutations must contain at least one item";
        errors.required(&path.child("mutations"), detail);
    }
    for (index, mutation) in items(&spec["mutations"]).enumerate() {
        let path = path.child("mutations").index(index);
        validate_mutation(mutation, scope, &path, errors);
    }
    let policy = &spec["reinvocationPolicy"];
    let path = path.child("reinvocationPolicy");
    match text(policy) {
        "" => errors.required(&path, ""),
        "IfNeeded" | "Never" => {}
        _ => errors.not_supported(&path, policy, &["IfNeeded", "Never"]),
    }
}

fn validate_mutation(mutation: &Value, scope: &Scope, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = text(&mutation["patchType"]);
    let (own, other, returns) = match kind {
        "" => return errors.required(&path.child("patchType"), ""),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Returns::Patch),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Returns::Configuration),
        _ => {
            let known = ["ApplyConfiguration", "JSONPatch"];
            return errors.not_supported(&path.child("patchType"), &kind.into(), &known);
        }
    };
    let (stated, at) = (&mutation[own], path.child(own));
    let expression = text(&stated["expression"]).trim();
    if !stated.is_object() {
        let detail = format!("must be specified when patchType is {kind}");
        errors.required(&at, &detail);
    } else if expression.is_empty() {
        errors.required(&at.child("expression"), "");
    } else if let Err(why) = scope.compile(expression, returns) {
        refused(&at.child("expression"), expression, &why, errors);
    }
    if mutation[other].is_object() {
        let detail = format!("must not be specified when patchType is {kind}");
        let shown = format!("{{{other}}}");
        errors.invalid(&path.child(other), &shown.into(), &detail);
    }
}
