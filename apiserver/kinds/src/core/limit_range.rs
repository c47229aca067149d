//! LimitRanges.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::resource_list::round_amounts;
use super::resource_names::{is_overcommit_allowed, validate_name, validate_name_in_container};
use crate::json::Value;
use crate::meta::object::{child_mut, default, meta_mut, name};
use crate::meta::validation::qualified_name;
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, items_mut, object_in, text};
use crate::validation::invalid_each;
use crate::{Context, MetadataCheck, Strategy};

#[derive(Debug)]
pub(crate) struct LimitRange;

impl Strategy for LimitRange {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    /// A container's default limit is the most it may have, its default request that limit.
    fn default(&self, range: &mut Value) {
        for limit in items_mut(child_mut(range, "spec"), "limits") {
            for amounts in [
                "max",
                "min",
                "default",
                "defaultRequest",
                "maxLimitRequestRatio",
            ] {
                if let Some(amounts) = limit.get_mut(amounts) {
                    round_amounts(amounts);
                }
            }
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

    /// One that has neither name nor prefix is named by a UUID; a prefix has become a name before.
    fn prepare_for_create(&self, range: &mut Value, context: Context<'_>) {
        if name(range).is_empty() {
            meta_mut(range).insert("name", context.entropy.uid().into());
        }
    }

    fn validate(&self, range: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let mut types = BTreeSet::new();
        for (index, limit) in items(&range["spec"]["limits"]).enumerate() {
            let path = FieldPath::new("spec.limits").index(index);
            let kind = text(&limit["type"]);
            validate_type(kind, &path.child("type"), &mut errors);
            if !types.insert(kind) {
                errors.duplicate(&path.child("type"), &kind.into());
            }
            validate_limit(limit, kind, &path, &mut errors);
        }
        errors
    }
}

fn validate_type(kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let faults = qualified_name(kind);
    let standard = ["Pod", "Container", "PersistentVolumeClaim"];
    if faults.is_empty() && !kind.contains('/') && !standard.contains(&kind) {
        let detail = "must be a standard limit type or fully qualified";
        errors.invalid(path, &kind.into(), detail);
    }
    invalid_each(faults, &kind.into(), path, errors);
}

fn validate_limit(limit: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let mut resources = BTreeSet::new();
    let mut names = |field: &str, errors: &mut FieldErrors| {
        for (resource, _) in entries(&limit[field]) {
            resources.insert(resource.clone());
            let path = path.child(field).key(resource);
            match kind {
                "Pod" | "Container" => validate_name_in_container(resource, &path, errors),
                _ => validate_name(resource, &path, errors),
            }
        }
    };
    names("max", errors);
    names("min", errors);
    for field in ["default", "defaultRequest"] {
        if kind != "Pod" {
            names(field, errors);
        } else if !is_empty(&limit[field]) {
            let detail = "may not be specified when `type` is 'Pod'";
            errors.forbidden(&path.child(field), detail);
        }
    }
    let has_storage = |field: &str| !limit[field]["storage"].is_null();
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.child("limits"), detail);
    }
    names("maxLimitRequestRatio", errors);
    for resource in resources {
        validate_amounts(limit, kind, &resource, path, errors);
    }
}

/// Two amounts of which the first may not exceed the second.
struct Bound {
    less: &'static str,
    more: &'static str,
    words: (&'static str, &'static str),
    /// Which field the fault is at, and whose value it shows.
    at: &'static str,
    shown: &'static str,
}

const BOUNDS: [Bound; 6] = [
    Bound {
        less: "min",
        more: "max",
        words: ("min", "max"),
        at: "min",
        shown: "min",
    },
    Bound {
        less: "min",
        more: "defaultRequest",
        words: ("min", "default request"),
        at: "defaultRequest",
        shown: "defaultRequest",
    },
    Bound {
        less: "defaultRequest",
        more: "max",
        words: ("default request", "max"),
        at: "defaultRequest",
        shown: "defaultRequest",
    },
    Bound {
        less: "defaultRequest",
        more: "default",
        words: ("default request", "default limit"),
        at: "defaultRequest",
        shown: "defaultRequest",
    },
    Bound {
        less: "min",
        more: "default",
        words: ("min", "default"),
        at: "default",
        shown: "min",
    },
    Bound {
        less: "default",
        more: "max",
        words: ("default", "max"),
        at: "default",
        shown: "max",
    },
];

fn validate_amounts(
    limit: &Value,
    kind: &str,
    resource: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    // The defaults of a pod are refused without further checks.
    let amount = |field: &str| match (kind, field) {
        ("Pod", "default" | "defaultRequest") => &Value::Null,
        _ => &limit[field][resource],
    };
    for bound in &BOUNDS {
        let (low, high) = (amount(bound.less), amount(bound.more));
        if exceeds(low, high) {
            let (less, more) = bound.words;
            let (low, high) = (text(low), text(high));
            let detail = format!("{less} value {low} is greater than {more} value {high}");
            let path = path.child(bound.at).key(resource);
            errors.invalid(&path, amount(bound.shown), &detail);
        }
    }
    validate_ratio(limit, resource, path, errors);
    let (most, least) = (amount("default"), amount("defaultRequest"));
    if !is_overcommit_allowed(resource) && (exceeds(most, least) || exceeds(least, most)) {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {resource}",
            text(most),
            text(least)
        );
        let path = path.child("defaultRequest").key(resource);
        errors.invalid(&path, least, &detail);
    }
}

/// Validates the ratio of limit to request.
fn validate_ratio(limit: &Value, resource: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let ratio = &limit["maxLimitRequestRatio"][resource];
    let path = path.child("maxLimitRequestRatio").key(resource);
    if exceeds(&"1".into(), ratio) {
        let detail = format!("ratio {} is less than 1", text(ratio));
        errors.invalid(&path, ratio, &detail);
    }
    let number = |value: &Value| Some(Quantity::parse(value.as_str()?).ok()?.approximate());
    let bounds = number(&limit["min"][resource]).zip(number(&limit["max"][resource]));
    if let (Some(own), Some((min, max))) = (number(ratio), bounds)
        && own > max / min
    {
        let detail = format!(
            "ratio {} is greater than max/min = {:.6}",
            text(ratio),
            max / min
        );
        errors.invalid(&path, ratio, &detail);
    }
}

fn exceeds(one: &Value, other: &Value) -> bool {
    let parse = |value: &Value| Quantity::parse(value.as_str()?).ok();
    let pair = parse(one).zip(parse(other));
    pair.is_some_and(|(one, other)| one.compare(&other) == Ordering::Greater)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

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

    #[test]
    fn each_fault_is_where_upstream_says() {
        let table = [
            (
                json!({"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}}),
                vec![
                    "spec.limits[0].defaultRequest[cpu]: Invalid value: \"2\": default request value 2 is greater than max value 1",
                    "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 2 is greater than max value 1",
                ],
            ),
            (
                json!({"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}),
                vec![
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
                ],
            ),
            (
                json!({"type": "Container", "default": {"a.io/gpu": "2"}, "defaultRequest": {"a.io/gpu": "1"}}),
                vec![
                    "spec.limits[0].defaultRequest[a.io/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in a.io/gpu",
                ],
            ),
            (
                json!({"type": "Pod", "max": {"pods": "1"}}),
                vec![
                    "spec.limits[0].max[pods]: Invalid value: \"pods\": must be a standard resource for containers",
                ],
            ),
            (
                json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
                vec![],
            ),
            (
                json!({"max": {"cpu": "1"}}),
                vec![
                    "spec.limits[0].type: Invalid value: \"\": name part must be non-empty",
                    "spec.limits[0].type: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ],
            ),
        ];
        for (limit, want) in table {
            let mut range = json!({"spec": {"limits": [limit]}});
            LimitRange.default(&mut range);
            let errors = LimitRange.validate(&range);
            let causes = errors.causes().iter();
            let found: Vec<String> = causes
                .map(|own| format!("{}: {}", own.field, own.message))
                .collect();
            assert_eq!(found, want);
        }
    }
}
