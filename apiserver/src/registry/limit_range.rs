//! LimitRanges.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::Strategy;
use super::checks::{entries, is_empty, items, items_mut, object_in, text};
use crate::meta::object::{child_mut, default};
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};

const AMOUNTS: [&str; 5] = [
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

#[derive(Debug)]
pub(super) struct LimitRange;

impl Strategy for LimitRange {
    /// A container's default limit is the most it may have, its default request that limit.
    fn default(&self, range: &mut Value) {
        for limit in items_mut(child_mut(range, "spec"), "limits") {
            if limit.get("type").is_none_or(|own| own != "Container") {
                continue;
            }
            for (from, to) in [
                ("max", "default"),
                ("default", "defaultRequest"),
                ("min", "defaultRequest"),
            ] {
                let Some(Value::Object(amounts)) = limit.get(from).cloned() else {
                    continue;
                };
                for (resource, amount) in amounts {
                    default(object_in(limit, to), &resource, amount);
                }
            }
        }
    }

    fn validate(&self, range: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let mut types = BTreeSet::new();
        for (index, limit) in items(&range["spec"]["limits"]).enumerate() {
            let path = FieldPath::new("spec.limits").index(index);
            let kind = text(&limit["type"]);
            let standard = ["Pod", "Container", "PersistentVolumeClaim"];
            if !standard.contains(&kind) && !kind.contains('/') {
                let detail = "must be a standard limit type or fully qualified";
                errors.invalid(&path.child("type"), &kind.into(), detail);
            }
            if !types.insert(kind) {
                errors.duplicate(&path.child("type"), &kind.into());
            }
            validate_limit(limit, kind, &path, &mut errors);
        }
        errors
    }
}

fn validate_limit(limit: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let mut resources = BTreeSet::new();
    for field in AMOUNTS {
        for (resource, _) in entries(&limit[field]) {
            resources.insert(resource.as_str());
            let storage = resource == "storage" || resource.starts_with("hugepages-");
            let compute = matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage");
            if !storage && !compute && !resource.contains('/') {
                let detail = "must be a standard resource type or fully qualified";
                let path = path.child(field).key(resource);
                errors.invalid(&path, &resource.as_str().into(), detail);
            }
        }
    }
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if !is_empty(&limit[field]) {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.forbidden(&path.child(field), detail);
            }
        }
    }
    let has_storage = |field: &str| !limit[field]["storage"].is_null();
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.child("limits"), detail);
    }
    for resource in resources {
        validate_amounts(limit, resource, path, errors);
    }
}

fn validate_amounts(limit: &Value, resource: &str, path: &FieldPath, errors: &mut FieldErrors) {
    // The lesser and the greater amount, the words for them, and which of them the fault is at.
    for (less, more, words, at, shown) in [
        ("min", "max", ("min", "max"), "min", "min"),
        (
            "min",
            "defaultRequest",
            ("min", "default request"),
            "defaultRequest",
            "defaultRequest",
        ),
        (
            "defaultRequest",
            "max",
            ("default request", "max"),
            "defaultRequest",
            "defaultRequest",
        ),
        (
            "defaultRequest",
            "default",
            ("default request", "default limit"),
            "defaultRequest",
            "defaultRequest",
        ),
        ("min", "default", ("min", "default"), "default", "min"),
        ("default", "max", ("default", "max"), "default", "default"),
    ] {
        let (low, high) = (&limit[less][resource], &limit[more][resource]);
        if exceeds(low, high) {
            let detail = format!(
                "{} value {} is greater than {} value {}",
                words.0,
                text(low),
                words.1,
                text(high)
            );
            let path = path.child(at).key(resource);
            errors.invalid(&path, &limit[shown][resource], &detail);
        }
    }
    let ratio = &limit["maxLimitRequestRatio"][resource];
    if exceeds(&"1".into(), ratio) {
        let detail = format!("ratio {} is less than 1", text(ratio));
        let path = path.child("maxLimitRequestRatio").key(resource);
        errors.invalid(&path, ratio, &detail);
    }
}

fn exceeds(one: &Value, other: &Value) -> bool {
    let parse = |value: &Value| Quantity::parse(text(value)).ok();
    match (
        one.as_str().and(parse(one)),
        other.as_str().and(parse(other)),
    ) {
        (Some(one), Some(other)) => one.compare(&other) == Ordering::Greater,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_get_their_defaults_from_the_bounds() {
        let mut range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}});
        LimitRange.default(&mut range);
        let limit = &range["spec"]["limits"][0];
        assert_eq!(limit["default"], json!({"cpu": "2"}));
        assert_eq!(limit["defaultRequest"], json!({"cpu": "2"}));
        assert!(LimitRange.validate(&range).is_empty());
    }
}
