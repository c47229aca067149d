//! Validation of the features that a node declares.

use std::sync::LazyLock;

use regex::Regex;

use crate::json::Value;
use crate::status::{FieldErrors, FieldPath, quoted};
use crate::unstructured::{items, text};

const NAME_BYTES_MAX: usize = 253;
const FORM: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";

/// Faults of the features: they have names, each once, in the order of the alphabet.
pub(super) fn validate(features: &Value, errors: &mut FieldErrors) {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*$").expect("it compiles"));
    let path = FieldPath::new("status.declaredFeatures");
    let all: Vec<&Value> = items(features).collect();
    for (index, own) in all.iter().enumerate() {
        let name = text(own);
        let why = match name.len() > NAME_BYTES_MAX {
            true => format!("must be no more than {NAME_BYTES_MAX} characters"),
            false => FORM.to_owned(),
        };
        if name.len() > NAME_BYTES_MAX || !NAME.is_match(name) {
            let detail = format!("invalid feature name {}: {why}", quoted(name));
            errors.invalid(&path.index(index), own, &detail);
        }
        let Some(next) = all.get(index + 1) else {
            continue;
        };
        let path = path.index(index + 1);
        if name == text(next) {
            errors.duplicate(&path, next);
        } else if name > text(next) {
            errors.invalid(&path, next, "list must be sorted alphabetically");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn features_have_names_and_an_order() {
        let table = [
            (json!(["A", "B/c"]), vec![]),
            (json!(["b"]), vec!["status.declaredFeatures[0]"]),
            (
                json!(["B", "A", "A"]),
                vec!["status.declaredFeatures[1]", "status.declaredFeatures[2]"],
            ),
        ];
        for (features, want) in table {
            let mut errors = FieldErrors::new();
            validate(&features, &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{features}");
        }
    }
}
