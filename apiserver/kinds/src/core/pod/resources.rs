//! Resources of a pod as a whole, in addition to those of its containers.

pub mod amounts;

use std::cmp::Ordering;

use kubeproof_machinery::pod_resources::is_pod_level;

use super::container::validate_amounts;
use crate::core::resource_names::is_overcommit_allowed;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default};
use crate::meta::validation::qualified_name;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, text};
use amounts::{Amounts, amounts, of_containers};

const HUGE_PAGES: &str = "hugepages-";

/// Defaults the requests of a pod with limits: to the requests of its containers, or else to its
/// limits.
pub(crate) fn default_resources(spec: &mut Value) {
    let own = &spec["resources"];
    if is_empty(&own["limits"]) && is_empty(&own["requests"]) {
        return;
    }
    let mut limits = amounts(&own["limits"]);
    let requests = amounts(&own["requests"]);
    for (name, amount) in of_containers(spec, "limits") {
        if name.starts_with(HUGE_PAGES) && !requests.contains_key(&name) {
            limits.entry(name).or_insert(amount);
        }
    }
    fill(spec, "limits", &limits);
    if limits.is_empty() {
        return;
    }
    let mut asked = of_containers(spec, "requests");
    asked.retain(|name, _| is_pod_level(name) && is_overcommit_allowed(name));
    for (name, amount) in limits {
        if is_pod_level(&name) {
            asked.entry(name).or_insert(amount);
        }
    }
    fill(spec, "requests", &asked);
}

/// Sets the amounts that the pod does not state itself.
fn fill(spec: &mut Value, field: &str, amounts: &Amounts) {
    if amounts.is_empty() {
        return;
    }
    let resources = child_mut(spec, "resources");
    default(resources, field, json!({}));
    let list = child_mut(&mut spec["resources"], field);
    for (name, amount) in amounts {
        default(list, name, amount.to_string());
    }
}

/// Whether the pod's own amounts decide about its class of service.
pub(crate) fn are_stated(spec: &Value) -> bool {
    !spec["resources"].is_null()
}

/// The faults of a pod's own amounts.
pub(crate) fn validate_pod_resources(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let own = &spec["resources"];
    if own.is_null() {
        return;
    }
    let path = path.child("resources");
    if spec["os"]["name"] == "windows" {
        return errors.forbidden(&path, "may not be set for a windows pod");
    }
    if !own["claims"].is_null() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.forbidden(&path.child("claims"), detail);
    }
    validate_amounts(own, &path, errors, |name, path, errors| {
        let faults = qualified_name(name);
        let standard = faults.is_empty();
        for fault in faults {
            errors.invalid(path, &name.into(), &fault);
        }
        if standard && !is_pod_level(name) {
            if !name.contains('/') && !crate::core::resource_names::is_standard(name) {
                let detail = "must be a standard resource type or fully qualified";
                return errors.invalid(path, &name.into(), detail);
            }
            let known = ["cpu", HUGE_PAGES, "memory"];
            errors.not_supported(path, &name.into(), &known);
        }
    });
    validate_consistency(spec, &path, errors);
}

/// The containers together, and each of them, take no more than the pod.
fn validate_consistency(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (field, what) in [("requests", "requests"), ("limits", "limits")] {
        let stated = amounts(&spec["resources"][field]);
        for (name, sum) in of_containers(spec, field) {
            let Some(own) = stated.get(&name) else {
                continue;
            };
            // Limits add up for huge pages alone.
            let counts = field == "requests" || name.starts_with(HUGE_PAGES);
            if counts && sum.compare(own) == Ordering::Greater {
                let path = path.child(field).key(&name);
                let detail =
                    format!("must be greater than or equal to aggregate container {what} of {sum}");
                errors.invalid(&path, &own.to_string().into(), &detail);
            }
        }
    }
    let limits = amounts(&spec["resources"]["limits"]);
    for (index, container) in items(&spec["containers"]).enumerate() {
        let own = amounts(&container["resources"]["limits"]);
        for (name, _) in entries(&container["resources"]["limits"]) {
            let Some((own, most)) = own.get(name.as_str()).zip(limits.get(name.as_str())) else {
                continue;
            };
            if own.compare(most) == Ordering::Greater {
                let path = path.child("containers").index(index).key(name);
                let detail = format!("must be less than or equal to pod limits of {most}");
                errors.invalid(&path.child("limits"), &own.to_string().into(), &detail);
            }
        }
    }
}

/// A variable that is read from a file, which a volume of the pod has.
pub(crate) fn validate_files_of_variables(
    spec: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(&spec[list]).enumerate() {
            let path = path.child(list).index(index).child("env");
            for (index, variable) in items(&container["env"]).enumerate() {
                let reference = &variable["valueFrom"]["fileKeyRef"];
                if reference.is_null() {
                    continue;
                }
                let path = path.index(index).child("valueFrom").child("fileKeyRef");
                let path = path.child("volumeName");
                let name = text(&reference["volumeName"]);
                let volume = items(&spec["volumes"]).find(|own| own["name"] == name);
                match volume.map(|own| own["emptyDir"].is_null()) {
                    None => errors.not_found(&path, &name.into()),
                    Some(true) => {
                        let detail = "referenced volume must be of type emptyDir";
                        errors.invalid(&path, &name.into(), detail);
                    }
                    Some(false) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(own: Value, containers: Value) -> Value {
        let resources = |own: &Value| json!({"resources": own});
        let containers: Vec<Value> = items(&containers).map(resources).collect();
        json!({"resources": own, "containers": containers})
    }

    #[test]
    fn a_pod_with_limits_asks_for_what_its_containers_ask_for() {
        let mut spec = pod(
            json!({"limits": {"cpu": "2", "memory": "1Gi"}}),
            json!([{"requests": {"cpu": "500m"}}, {"requests": {"cpu": "250m"}}]),
        );
        default_resources(&mut spec);
        let want = json!({"cpu": "750m", "memory": "1Gi"});
        assert_eq!(spec["resources"]["requests"], want);
        let before = spec.clone();
        default_resources(&mut spec);
        assert_eq!(spec, before);
        let mut spec = pod(json!({"requests": {"cpu": "1"}}), json!([]));
        default_resources(&mut spec);
        assert_eq!(spec["resources"], json!({"requests": {"cpu": "1"}}));
    }

    #[test]
    fn containers_take_no_more_than_their_pod() {
        let table = [
            (
                json!({"limits": {"cpu": "1"}}),
                json!([{"limits": {"cpu": "1"}}]),
                vec![],
            ),
            (
                json!({"requests": {"cpu": "1"}}),
                json!([{"requests": {"cpu": "600m"}}, {"requests": {"cpu": "600m"}}]),
                vec![
                    "s.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 1200m",
                ],
            ),
            (
                json!({"limits": {"memory": "1Gi"}}),
                json!([{"limits": {"memory": "2Gi"}}]),
                vec![
                    "s.resources.containers[0][memory].limits: Invalid value: \"2Gi\": must be less than or equal to pod limits of 1Gi",
                ],
            ),
            (
                json!({"limits": {"ephemeral-storage": "1Gi"}}),
                json!([]),
                vec![
                    "s.resources.limits[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                ],
            ),
            (
                json!({"limits": {"foo": "1"}}),
                json!([]),
                vec![
                    "s.resources.limits[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                ],
            ),
        ];
        for (own, containers, want) in table {
            let mut errors = FieldErrors::new();
            validate_pod_resources(&pod(own, containers), &FieldPath::new("s"), &mut errors);
            let causes = errors.causes().iter();
            let found: Vec<String> = causes
                .map(|own| format!("{}: {}", own.field, own.message))
                .collect();
            assert_eq!(found, want);
        }
    }
}
