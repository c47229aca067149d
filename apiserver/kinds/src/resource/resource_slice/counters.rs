//! Counters that devices of a slice share, and what each device takes of them.

use crate::json::Value;
use crate::meta::validation::dns1123_label;
use crate::resource::devices::{validate_counter_name, validate_set};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, items, text};
use crate::validation::invalid_each;

const SETS_MAX: usize = 8;
const CONSUMED_SETS_MAX: usize = 2;
const COUNTERS_MAX: usize = 32;

/// Faults of the sets of counters of a slice, which has no devices then.
pub(super) fn validate_sets(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let of_name = |own: &Value, path: &FieldPath, errors: &mut FieldErrors| {
        validate_counter_name(text(&own["name"]), &path.child("name"), errors);
        validate_counters(&own["counters"], &path.child("counters"), errors);
    };
    let at = path.child("sharedCounters");
    validate_set(
        &spec["sharedCounters"],
        SETS_MAX,
        |own| text(&own["name"]),
        &at,
        errors,
        of_name,
    );
}

/// Faults of the counters that a device consumes.
pub(super) fn validate_consumption(device: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let of_set = |own: &Value, path: &FieldPath, errors: &mut FieldErrors| {
        validate_counter_name(text(&own["counterSet"]), &path.child("counterSet"), errors);
        validate_counters(&own["counters"], &path.child("counters"), errors);
    };
    let at = path.child("consumesCounters");
    validate_set(
        &device["consumesCounters"],
        CONSUMED_SETS_MAX,
        |own| text(&own["counterSet"]),
        &at,
        errors,
        of_set,
    );
}

fn validate_counters(counters: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match entries(counters).count() {
        0 => return errors.required(path, ""),
        count if count > COUNTERS_MAX => return errors.too_many(path, count, COUNTERS_MAX),
        _ => {}
    }
    for (name, _) in entries(counters) {
        invalid_each(dns1123_label(name), &name.as_str().into(), path, errors);
    }
}

/// Whether a device takes anything of a counter.
pub(super) fn consumes(device: &Value) -> bool {
    items(&device["consumesCounters"]).next().is_some()
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn sets_have_names_and_counters() {
        let table = [
            (
                json!([{"name": "a", "counters": {"c": {"value": "1"}}}]),
                vec![],
            ),
            (
                json!([{"name": ""}]),
                vec!["s.sharedCounters[0].name", "s.sharedCounters[0].counters"],
            ),
            (
                json!([{"name": "a", "counters": {"!": {}}}, {"name": "a", "counters": {"c": {}}}]),
                vec!["s.sharedCounters[0].counters", "s.sharedCounters[1]"],
            ),
        ];
        for (sets, want) in table {
            let mut errors = FieldErrors::new();
            let spec = json!({ "sharedCounters": sets });
            validate_sets(&spec, &FieldPath::new("s"), &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{spec}");
        }
        let device = json!({"consumesCounters": vec![json!({}); 3]});
        let mut errors = FieldErrors::new();
        validate_consumption(&device, &FieldPath::new("d"), &mut errors);
        assert_eq!(
            errors.causes()[0].message,
            "Too many: 3: must have at most 2 items"
        );
        assert!(consumes(&device));
    }
}
