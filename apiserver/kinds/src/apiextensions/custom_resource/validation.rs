//! The faults of custom resources: those of the schema, of embedded resources, of lists, and of the
//! replicas that a `scale` subresource shows.

use std::collections::BTreeSet;

use super::{CustomResource, scale};
use crate::json::Value;
use crate::meta::object::finalizers;
use crate::meta::validation::qualified_name;
use crate::status::{Cause, CauseReason, FieldErrors, FieldPath, quoted};

/// The finalizers without a domain that everybody knows.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// The faults of a new object.
pub(super) fn create(custom: &CustomResource, object: &Value) -> FieldErrors {
    let root = FieldPath::default();
    let schema = custom.schema();
    let mut errors = schema.validate(&root, object);
    spec_replicas(custom, object, &mut errors);
    status_replicas(custom, object, &mut errors);
    errors.extend(schema.validate_embedded(&root, object));
    errors.extend(schema.validate_list_types(&root, object));
    rules(custom, object, None, &mut errors);
    errors
}

/// The faults of an update; schema faults of unchanged values are ignored.
pub(super) fn update(custom: &CustomResource, new: &Value, old: &Value) -> FieldErrors {
    let root = FieldPath::default();
    let schema = custom.schema();
    let mut errors = schema.validate_update(&root, new, Some(old));
    spec_replicas(custom, new, &mut errors);
    status_replicas(custom, new, &mut errors);
    errors.extend(schema.validate_embedded(&root, new));
    errors.extend(list_types(custom, new, old));
    rules(custom, new, Some(old), &mut errors);
    errors
}

/// The faults of an update of the status, which only its part of the schema is for.
pub(super) fn status_update(custom: &CustomResource, new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let (Some(status), Some(schema)) =
        (new.get("status"), custom.schema().properties.get("status"))
    {
        let path = FieldPath::new("status");
        errors.extend(schema.validate_update(&path, status, old.get("status")));
    }
    status_replicas(custom, new, &mut errors);
    errors.extend(list_types(custom, new, old));
    rules(custom, new, Some(old), &mut errors);
    errors
}

/// Warnings about added finalizers whose names other writers might also use.
pub(super) fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let held: BTreeSet<&str> = old.into_iter().flat_map(finalizers).collect();
    let added: BTreeSet<&str> = finalizers(new)
        .filter(|name| !held.contains(name))
        .collect();
    let mut warnings = Vec::new();
    for name in added {
        let shown = quoted(name);
        let mut warn = |why: &str| warnings.push(format!("metadata.finalizers: {shown}: {why}"));
        for fault in qualified_name(name) {
            warn(&fault);
        }
        if name.contains('/') || STANDARD_FINALIZERS.contains(&name) {
            continue;
        }
        let path = if name.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        warn(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}

/// The rules in CEL, which are left alone where other faults could make them fail.
fn rules(custom: &CustomResource, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    const BLOCKING: [CauseReason; 5] = [
        CauseReason::NotSupported,
        CauseReason::Required,
        CauseReason::TooLong,
        CauseReason::TooMany,
        CauseReason::TypeInvalid,
    ];
    let Some(rules) = custom.versions.schema(&custom.gvk.version).rules() else {
        return;
    };
    let blocks = |cause: &Cause| {
        BLOCKING
            .iter()
            .any(|reason| reason.as_str() == cause.reason)
    };
    if errors.causes().iter().any(blocks) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.invalid(&FieldPath::new("<nil>"), &Value::Null, detail);
        return;
    }
    errors.extend(rules.validate(object, old));
}

/// Lists that had repeated items before may have them now.
fn list_types(custom: &CustomResource, new: &Value, old: &Value) -> FieldErrors {
    let root = FieldPath::default();
    let errors = custom.schema().validate_list_types(&root, new);
    let is_old_fault = || !custom.schema().validate_list_types(&root, old).is_empty();
    if !errors.is_empty() && is_old_fault() {
        return FieldErrors::new();
    }
    errors
}

fn spec_replicas(custom: &CustomResource, object: &Value, errors: &mut FieldErrors) {
    if let Some(paths) = &custom.scale {
        replicas(object, &paths.spec_replicas, errors);
    }
}

fn status_replicas(custom: &CustomResource, object: &Value, errors: &mut FieldErrors) {
    let Some(paths) = &custom.scale else {
        return;
    };
    replicas(object, &paths.status_replicas, errors);
    let selector = paths.label_selector.as_str();
    if !selector.is_empty()
        && let Err(fault) = scale::text(object, selector)
    {
        errors.invalid(&FieldPath::new(selector), &"".into(), &fault);
    }
}

fn replicas(object: &Value, path: &str, errors: &mut FieldErrors) {
    let field = FieldPath::new(path);
    match scale::integer(object, path) {
        Err(fault) => errors.invalid(&field, &0.into(), &fault),
        Ok(Some(replicas)) if replicas < 0 => {
            errors.invalid(&field, &replicas.into(), "should be a non-negative integer");
        }
        Ok(Some(replicas)) if i32::try_from(replicas).is_err() => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.invalid(&field, &replicas.into(), &detail);
        }
        Ok(_) => {}
    }
}
