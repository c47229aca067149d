//! Validation of `metadata.ownerReferences`.

use super::{field, invalid_struct, text};
use crate::json::{Value, html_escape};
use crate::status::{FieldErrors, FieldPath};

/// References are complete, none is an `Event`, and at most one is the controller.
pub fn validate_owner_references(meta: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let references = meta.get("ownerReferences").and_then(Value::as_array);
    let mut controller: Option<String> = None;
    for reference in references.into_iter().flatten() {
        validate_owner_reference(reference, path, errors);
        if field(reference, "controller") != &Value::Bool(true) {
            continue;
        }
        let current = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
        match &controller {
            Some(_) if errors.is_full() => return,
            Some(first) => {
                let list: Vec<String> = references.into_iter().flatten().map(shown).collect();
                let detail = format!(
                    "Only one reference can have Controller set to true. \
                     Found \"true\" in references for {first} and {current}"
                );
                invalid_struct(errors, path, &format!("[{}]", list.join(",")), &detail);
            }
            None => controller = Some(current),
        }
    }
}

fn validate_owner_reference(reference: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let api_version = text(reference, "apiVersion");
    let (kind, name) = (text(reference, "kind"), text(reference, "name"));
    let version = match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [version] | [_, version] => *version,
        _ => "",
    };
    for (key, value, detail) in [
        ("apiVersion", version, "version must not be empty"),
        ("kind", kind, "must not be empty"),
        ("name", name, "must not be empty"),
        ("uid", text(reference, "uid"), "must not be empty"),
    ] {
        if value.is_empty() {
            errors.invalid(&path.child(key), &text(reference, key).into(), detail);
        }
    }
    if api_version == "v1" && kind == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        invalid_struct(errors, path, &shown(reference), detail);
    }
}

fn shown(reference: &Value) -> String {
    let mut members = Vec::new();
    for key in ["apiVersion", "kind", "name", "uid"] {
        members.push(format!("\"{key}\":{}", Value::from(text(reference, key))));
    }
    for key in ["controller", "blockOwnerDeletion"] {
        if let Value::Bool(set) = field(reference, key) {
            members.push(format!("\"{key}\":{set}"));
        }
    }
    html_escape(&format!("{{{}}}", members.join(","))).into_owned()
}
