//! Leases.

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::status::{FieldErrors, FieldPath};
use crate::strategy::{Context, Strategy};
use crate::validation::not_negative;

#[derive(Debug)]
pub(crate) struct Lease;

/// Fields of coordinated leader election, which is disabled.
const OF_ELECTIONS: [&str; 2] = ["strategy", "preferredHolder"];

fn has(lease: &Value, field: &str) -> bool {
    lease["spec"].get(field).is_some_and(|own| !own.is_null())
}

fn drop_fields(lease: &mut Value, is_dropped: impl Fn(&str) -> bool) {
    if let Some(spec) = lease["spec"].as_object_mut() {
        spec.retain(|field, _| !OF_ELECTIONS.contains(&field.as_str()) || !is_dropped(field));
    }
}

impl Strategy for Lease {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn validates_finalizers(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, lease: &mut Value, _context: Context<'_>) {
        drop_fields(lease, |_| true);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        drop_fields(new, |field| !has(old, field));
    }

    fn validate(&self, lease: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &lease["spec"];
        let duration = &spec["leaseDurationSeconds"];
        if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
            let path = path.child("leaseDurationSeconds");
            errors.invalid(&path, duration, "must be greater than 0");
        }
        not_negative(spec, &["leaseTransitions"], &path, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.str("/spec/holderIdentity")),
            view.age(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn what_coordinated_elections_use_is_dropped_unless_it_was_there() {
        let all = json!({"spec": {"strategy": "x", "preferredHolder": "a", "holderIdentity": "b"}});
        let old = json!({"spec": {"strategy": "x", "holderIdentity": "b"}});
        let mut new = all.clone();
        drop_fields(&mut new, |_| true);
        assert_eq!(new, json!({"spec": {"holderIdentity": "b"}}));
        let mut new = all;
        drop_fields(&mut new, |field| !has(&old, field));
        assert_eq!(new, old);
    }
}
