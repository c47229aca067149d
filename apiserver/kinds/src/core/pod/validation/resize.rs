//! Faults of writes through `pods/resize`: CPU and memory may change, as long as the pod's class of
//! service stays.

use std::collections::BTreeMap;

use super::{is_empty, items, text};
use crate::core::pod::qos_class;
use crate::json::{Map, SmolStr, Value};
use crate::status::{FieldErrors, FieldPath};

const MIRROR: &str = "kubernetes.io/config.mirror";
const RESIZED: [&str; 2] = ["cpu", "memory"];
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// Faults of `new`, which is `old` with the requested resources.
pub fn validate_resize(new: &Value, old: &Value) -> FieldErrors {
    let refused = |detail: &str| {
        let mut errors = FieldErrors::new();
        errors.forbidden(&FieldPath::new("[]"), detail);
        errors
    };
    if !old["metadata"]["annotations"][MIRROR].is_null() {
        return refused("static pods cannot be resized");
    }
    if old["spec"]["os"]["name"] == "windows" {
        return refused("windows pods cannot be resized");
    }
    let mut errors = super::validate_pod(new);
    let path = FieldPath::new("spec");
    let class = match text(&old["status"]["qosClass"]) {
        "" => qos_class(old),
        class => class,
    };
    if class != qos_class(new) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, &new["status"]["qosClass"], detail);
    }
    if !is_resizable(old) {
        let detail = "Pod running on node without support for resize";
        errors.forbidden(&path, detail);
    }
    let (now, had) = (&new["spec"], &old["spec"]);
    validate_whole(&now["resources"], &had["resources"], &path, &mut errors);
    if !is_empty(&old["status"]["nodeAllocatableResourceClaimStatuses"]) {
        let detail = "pods with node allocatable resource claims cannot be resized";
        errors.forbidden(&path, detail);
    }
    if !keeps_containers(now, had, &path, &mut errors) {
        return errors;
    }
    for list in LISTS {
        let pairs = items(&now[list]).zip(items(&had[list]));
        for (index, (now, had)) in pairs.enumerate() {
            let path = path.child(list).index(index).child("resources");
            validate_kept(now, had, "resource", &path, &mut errors);
        }
    }
    for (now, had) in items(&now["containers"]).zip(items(&had["containers"])) {
        if !differs_in_resized_only(now, had) {
            errors.forbidden(&path, "only cpu and memory resources are mutable");
        }
    }
    let pairs = items(&now["initContainers"]).zip(items(&had["initContainers"]));
    for (index, (now, had)) in pairs.enumerate() {
        let path = path.child("initContainers").index(index);
        if !differs_in_resized_only(now, had) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&path, detail);
        }
        let restarts = items(&now["resizePolicy"])
            .filter(|policy| policy["restartPolicy"] == "RestartContainer")
            .count();
        if now != had && now["restartPolicy"] != "Always" {
            let detail = "non-sidecar init containers with a resize policy of RestartContainer \
                          cannot be resized";
            (0..restarts).for_each(|_| errors.forbidden(&path, detail));
        }
    }
    errors
}

/// Whether the node can resize the pod: if it can, it reports the resources of running containers.
fn is_resizable(pod: &Value) -> bool {
    let mut statuses = items(&pod["status"]["containerStatuses"]);
    let running = statuses.find(|status| !status["state"]["running"].is_null());
    running.is_none_or(|status| !status["resources"].is_null())
}

/// The resources of the pod as a whole.
fn validate_whole(now: &Value, had: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("resources");
    if now.is_null() && !had.is_null() {
        return errors.forbidden(&at, "pod-level resources cannot be removed");
    }
    let (now, had) = (wrapped(now), wrapped(had));
    validate_kept(&now, &had, "pod-level resource", &at, errors);
    if fixed(&now["resources"]) != fixed(&had["resources"]) {
        let detail = "only cpu and memory resources are mutable at pod-level";
        errors.forbidden(path, detail);
    }
}

fn wrapped(resources: &Value) -> Value {
    Value::Object(Map::from_iter([(
        "resources".to_owned(),
        resources.clone(),
    )]))
}

/// The containers stay as many, and where they are.
fn keeps_containers(now: &Value, had: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let mut kept = true;
    for list in ["containers", "initContainers"] {
        let path = path.child(list);
        if items(&now[list]).count() != items(&had[list]).count() {
            let detail = format!("{list} may not be added or removed on resize");
            errors.forbidden(&path, &detail);
            kept = false;
            continue;
        }
        for (index, (now, had)) in items(&now[list]).zip(items(&had[list])).enumerate() {
            if now["name"] != had["name"] {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&path.index(index).child("name"), &detail);
                kept = false;
            }
        }
    }
    kept
}

/// A resource with a request or limit must keep it.
fn validate_kept(now: &Value, had: &Value, what: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for half in ["requests", "limits"] {
        let now = &now["resources"][half];
        let had = had["resources"][half].as_object();
        if had
            .into_iter()
            .flatten()
            .any(|(name, _)| now.get(name).is_none())
        {
            let detail = format!("{what} {half} cannot be removed");
            errors.forbidden(&path.child(half), &detail);
        }
    }
}

fn differs_in_resized_only(now: &Value, had: &Value) -> bool {
    let without = |container: &Value| {
        let mut container = container.as_object().cloned().unwrap_or_default();
        container.remove("resources");
        container
    };
    let [is, was] = [now, had].map(|own| &own["resources"]);
    without(now) == without(had) && fixed(is) == fixed(was) && is["claims"].is_null() || now == had
}

/// The amounts that stay: of everything but CPU and memory.
fn fixed(resources: &Value) -> BTreeMap<&str, BTreeMap<&SmolStr, &Value>> {
    let half = |half: &'static str| {
        let amounts = resources[half].as_object().into_iter().flatten();
        let own = amounts.filter(|(name, _)| !RESIZED.contains(&name.as_str()));
        (half, own.collect())
    };
    BTreeMap::from(["requests", "limits"].map(half))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn pod(resources: Value, more: Value) -> Value {
        let mut container = json!({
            "name": "c", "image": "i", "imagePullPolicy": "Always",
            "terminationMessagePolicy": "File", "resources": resources,
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            container[field] = value.clone();
        }
        json!({"spec": {
            "restartPolicy": "Always", "dnsPolicy": "Default", "securityContext": {},
            "containers": [container],
        }})
    }

    fn faults(new: &Value, old: &Value) -> Vec<String> {
        let errors = validate_resize(new, old);
        let causes = errors.causes().iter();
        causes
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn only_cpu_and_memory_change() {
        let amounts =
            |cpu: &str, disk: &str| json!({"requests": {"cpu": cpu, "ephemeral-storage": disk}});
        let old = pod(amounts("1", "1Gi"), json!({}));
        assert_eq!(faults(&pod(amounts("2", "1Gi"), json!({})), &old), [""; 0]);
        let fixed = ["spec: Forbidden: only cpu and memory resources are mutable"];
        assert_eq!(faults(&pod(amounts("2", "2Gi"), json!({})), &old), fixed);
        let policy = json!({"resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        ]});
        assert_eq!(faults(&pod(amounts("2", "1Gi"), policy), &old), fixed);
    }

    #[test]
    fn requests_and_containers_stay_and_so_does_the_class() {
        let old = pod(json!({"requests": {"cpu": "1", "memory": "1"}}), json!({}));
        assert_eq!(
            faults(&pod(json!({"requests": {"cpu": "1"}}), json!({})), &old),
            [
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
            ]
        );
        let mut more = old.clone();
        more["spec"]["containers"][0]["name"] = json!("d");
        assert_eq!(
            faults(&more, &old),
            [
                "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
            ]
        );
        more["spec"]["containers"] = json!([]);
        assert!(faults(&more, &old).contains(
            &"spec.containers: Forbidden: containers may not be added or removed on resize".into()
        ));
        let windows = json!({"spec": {"os": {"name": "windows"}}});
        assert_eq!(
            faults(&windows, &windows),
            ["[]: Forbidden: windows pods cannot be resized"]
        );
    }
}
