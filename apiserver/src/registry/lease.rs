//! Leases.

use serde_json::Value;

use super::Strategy;
use super::checks::not_negative;
use crate::status::{FieldErrors, FieldPath};

#[derive(Debug)]
pub(super) struct Lease;

impl Strategy for Lease {
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
}
