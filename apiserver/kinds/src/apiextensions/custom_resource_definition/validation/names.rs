//! The names of a definition.

use super::{list, text};
use crate::json::Value;
use crate::meta::validation::dns1035_label;
use crate::status::{FieldErrors, FieldPath};

/// The names that a definition must have.
pub(super) fn validate_required(names: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, field).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
}

/// The form of the names that there are.
pub(super) fn validate(names: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["plural", "singular"] {
        let name = text(names, field);
        let faults = dns1035_label(name);
        if !name.is_empty() && !faults.is_empty() {
            errors.invalid(&path.child(field), &name.into(), &faults.join(","));
        }
    }
    for field in ["kind", "listKind"] {
        let name = text(names, field);
        let faults = dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !faults.is_empty() {
            let rule = "may have mixed case, but should otherwise match: ";
            let detail = format!("{rule}{}", faults.join(","));
            errors.invalid(&path.child(field), &name.into(), &detail);
        }
    }
    let mut each = |field: &str| {
        for (index, name) in list(&names[field]).iter().enumerate() {
            let faults = dns1035_label(name.as_str().unwrap_or_default());
            if !faults.is_empty() {
                let path = path.child(field).index(index);
                errors.invalid(&path, name, &faults.join(","));
            }
        }
    };
    each("shortNames");
    let kind = text(names, "kind");
    let same = !kind.is_empty() && kind == text(names, "listKind");
    if same {
        let detail = "kind and listKind may not be the same";
        errors.invalid(&path.child("listKind"), &kind.into(), detail);
    }
    let mut each = |field: &str| {
        for (index, name) in list(&names[field]).iter().enumerate() {
            let faults = dns1035_label(name.as_str().unwrap_or_default());
            if !faults.is_empty() {
                let path = path.child(field).index(index);
                errors.invalid(&path, name, &faults.join(","));
            }
        }
    };
    each("categories");
}
