//! Faults of an update of a pod: only images, deadlines, added tolerations and lifted gates may change.

use serde_json::{Map, Value};

use super::{entries, is_empty, items, text, validate_pod};
use crate::registry::go_struct;
use crate::status::{FieldErrors, FieldPath};

const IMMUTABLE_SPEC: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Faults of `new`, which is to replace `old`.
pub(in crate::registry) fn validate_pod_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_pod(new);
    let path = FieldPath::new("spec");
    let lists = ["containers", "initContainers"];
    for list in lists {
        let count = |pod: &Value| items(&pod["spec"][list]).count();
        if count(new) != count(old) {
            let detail = "pod updates may not add or remove containers";
            errors.forbidden(&path.child(list), detail);
            return errors;
        }
        // Upstream asks for the images of an update once more.
        for (index, container) in items(&new["spec"][list]).enumerate() {
            if text(&container["image"]).is_empty() {
                errors.required(&path.child(list).index(index).child("image"), "");
            }
        }
    }
    if !validate_deadline(new, old, &path, &mut errors) {
        return errors;
    }
    if !keeps_tolerations(new, old) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&path.child("tolerations"), detail);
    }
    let (now, before) = (&new["spec"], &old["spec"]);
    for (index, gate) in items(&now["schedulingGates"]).enumerate() {
        if !items(&before["schedulingGates"]).any(|own| own == gate) {
            let detail = "only deletion is allowed, but found new scheduling gate";
            let path = path.child("schedulingGates").index(index);
            errors.forbidden(&path, &format!("{detail} '{}'", text(&gate["name"])));
        }
    }
    let mut comparable = now.clone();
    keep_changeable(&mut comparable, before);
    if !is_empty(&before["schedulingGates"]) {
        validate_gated(&mut comparable, before, &path, &mut errors);
    }
    let same = |spec: &Value| spec.as_object().map(without_empty).unwrap_or_default();
    if same(&comparable) != same(before) {
        let diff = go_struct::diff("PodSpec", before, &comparable);
        errors.forbidden(&path, &format!("{IMMUTABLE_SPEC}\n{diff}"));
    }
    errors
}

/// Fields but for empty lists and maps, which are as good as left out.
fn without_empty(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(_, value)| {
        let collection = value.is_array() || value.is_object();
        !(value.is_null() || (collection && is_empty(value)))
    });
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn restore(spec: &mut Value, before: &Value, field: &str) {
    if let Some(fields) = spec.as_object_mut() {
        match before.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    }
}

/// Gives `spec` the old values of what may change, by rules of its own.
fn keep_changeable(spec: &mut Value, before: &Value) {
    for list in ["containers", "initContainers"] {
        if let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) {
            for (container, own) in containers.iter_mut().zip(items(&before[list])) {
                container["image"] = own["image"].clone();
            }
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(spec, before, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if before[grace].as_i64().is_some_and(|own| own < 0) && spec[grace] == 1 {
        restore(spec, before, grace);
    }
}

/// A pod that waits at a gate may narrow down the nodes it can go to.
fn validate_gated(spec: &mut Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let kept = |(key, value): (&String, &Value)| spec["nodeSelector"].get(key) == Some(value);
    if !entries(&before["nodeSelector"]).all(kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&path.child("nodeSelector"), &spec["nodeSelector"], detail);
    }
    restore(spec, before, "nodeSelector");
}

/// A deadline may come and shrink, but neither grow nor go; whether to look further.
fn validate_deadline(new: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let path = path.child("activeDeadlineSeconds");
    let deadline = &new["spec"]["activeDeadlineSeconds"];
    let before = old["spec"]["activeDeadlineSeconds"].as_i64();
    match (deadline.as_i64(), before) {
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(&path, deadline, detail);
        }
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.invalid(&path, deadline, detail);
            return false;
        }
        (Some(now), Some(before)) if now > before => {
            let detail = "must be less than or equal to previous value";
            errors.invalid(&path, deadline, detail);
            return false;
        }
        _ => {}
    }
    true
}

/// Whether each toleration is still there, for however long.
fn keeps_tolerations(new: &Value, old: &Value) -> bool {
    let same = |own: &Value, other: &Value| {
        ["key", "operator", "value", "effect"]
            .iter()
            .all(|field| text(&own[*field]) == text(&other[*field]))
    };
    items(&old["spec"]["tolerations"])
        .all(|kept| items(&new["spec"]["tolerations"]).any(|own| same(own, kept)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_refused_with_the_difference() {
        let pod = |class: &str| {
            json!({"spec": {"restartPolicy": class, "dnsPolicy": "Default", "securityContext": {},
                "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                    "terminationMessagePolicy": "File"}]}})
        };
        let errors = validate_pod_update(&pod("Never"), &pod("Always"));
        let [cause] = errors.causes() else {
            panic!("{errors:?}")
        };
        assert!(
            cause
                .message
                .contains("\n- \"RestartPolicy\": \"Always\",\n+ \"RestartPolicy\": \"Never\",\n")
        );
        let empty = json!({"spec": {"restartPolicy": "Always", "dnsPolicy": "Default", "volumes": [],
            "securityContext": {}, "containers": pod("Always")["spec"]["containers"]}});
        assert!(validate_pod_update(&empty, &pod("Always")).is_empty());
    }
}
