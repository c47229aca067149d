//! Changes of metadata that any kind can show: owners, labels, finalizers, termination.

use kubeproof_machinery::json::Value;

use super::in_place;
use super::names::RevisionNames;

/// Annotations that say nothing of their own: those that steer the simulation are in the step's
/// heading, those of the volume binder come with the claim's phase.
const HIDDEN_ANNOTATIONS: &[&str] = &[
    "kubeproof.dev/",
    "lifecycle.apps.kruise.io/timestamp",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
];
/// The label that says where a pod of OpenKruise's workloads stands.
const STATE_LABEL: &str = "lifecycle.apps.kruise.io/state";
/// The label with the hash of a pod's revision, which changes with it.
const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// The label that binds a pod to a revision.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";

/// Returns the changes of the metadata from `old` to `new`, each as a few words.
pub(super) fn changes(old: &Value, new: &Value, revisions: &RevisionNames) -> Vec<String> {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    let mut changes = owners(&old["ownerReferences"], &new["ownerReferences"]);
    changes.extend(labels(&old["labels"], &new["labels"], revisions));
    changes.extend(annotations(&old["annotations"], &new["annotations"]));
    changes.extend(finalizers(&old["finalizers"], &new["finalizers"]));
    changes.extend(termination(old, new));
    changes
}

fn termination(old: &Value, new: &Value) -> Option<String> {
    if new["deletionTimestamp"].is_null() {
        return None;
    }
    let finalizers = words(&new["finalizers"]);
    let grace = |metadata: &Value| metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if !old["deletionTimestamp"].is_null() {
        let (before, after) = (grace(old), grace(new));
        // With no grace and no finalizer left, the very next write removes the object.
        let removed_next = after == 0 && finalizers.is_empty();
        return (before != after && !removed_next).then(|| format!("grace {before}s → {after}s"));
    }
    Some(match (grace(new), finalizers.is_empty()) {
        (0, true) => "terminating".to_owned(),
        (0, false) => format!("terminating (held by {})", finalizers.join(", ")),
        (grace, true) => format!("terminating (grace {grace}s)"),
        (grace, false) => {
            format!(
                "terminating (grace {grace}s, held by {})",
                finalizers.join(", ")
            )
        }
    })
}

fn owners(old: &Value, new: &Value) -> Vec<String> {
    let list = |refs: &Value| refs.as_array().cloned().unwrap_or_default();
    let (before, after) = (list(old), list(new));
    let same_uid = |refs: &[Value], wanted: &Value| {
        refs.iter()
            .find(|known| known["uid"] == wanted["uid"])
            .cloned()
    };
    let mut changes = Vec::new();
    for gone in before
        .iter()
        .filter(|known| same_uid(&after, known).is_none())
    {
        changes.push(format!("owner {} removed", owner(gone)));
    }
    for now in &after {
        match same_uid(&before, now) {
            None => changes.push(format!("owner {} added", owner(now))),
            Some(then) if then["controller"] != now["controller"] => {
                changes.push(format!("owner now {}", owner(now)));
            }
            Some(_) => {}
        }
    }
    changes
}

/// An owner reference in words.
pub(super) fn owner(reference: &Value) -> String {
    let role = if reference["controller"] == true {
        " (controller)"
    } else {
        ""
    };
    format!(
        "{} {}{role}",
        reference["kind"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase(),
        reference["name"].as_str().unwrap_or_default()
    )
}

fn labels(old: &Value, new: &Value, revisions: &RevisionNames) -> Vec<String> {
    let mut differing = differing_keys(old, new);
    if differing.iter().any(|key| key == REVISION_LABEL) {
        differing.retain(|key| key != TEMPLATE_HASH_LABEL);
    }
    differing
        .into_iter()
        .map(|key| {
            let value = new[&key].as_str();
            match (key.as_str(), value) {
                (REVISION_LABEL, Some(value)) => format!("now @{}", revisions.short(value)),
                (STATE_LABEL, Some(value)) => format!("state {value}"),
                (_, Some(value)) => format!("label {key}={value}"),
                (_, None) => format!("label {key} removed"),
            }
        })
        .collect()
}

fn annotations(old: &Value, new: &Value) -> Vec<String> {
    let differing = differing_keys(old, new).into_iter();
    differing
        .filter(|key| !HIDDEN_ANNOTATIONS.iter().any(|prefix| key.contains(prefix)))
        .map(|key| match new[&key].as_str() {
            Some(value) if in_place::is_shown(&key) => in_place::describe(&key, value),
            Some(value) => format!("annotation {key}={value}"),
            None => format!("annotation {key} removed"),
        })
        .collect()
}

fn differing_keys(old: &Value, new: &Value) -> Vec<String> {
    let keys = |map: &Value| -> Vec<String> {
        map.as_object()
            .into_iter()
            .flat_map(|map| map.keys().map(ToString::to_string))
            .collect()
    };
    let mut all = keys(old);
    all.extend(keys(new));
    all.sort();
    all.dedup();
    all.retain(|key| old[key] != new[key]);
    all
}

fn finalizers(old: &Value, new: &Value) -> Vec<String> {
    let (before, after) = (words(old), words(new));
    let removed = before.iter().filter(|known| !after.contains(known));
    let added = after.iter().filter(|known| !before.contains(known));
    removed
        .map(|name| format!("finalizer {name} removed"))
        .chain(added.map(|name| format!("finalizer {name} added")))
        .collect()
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn adoption_and_release_read_as_owners() {
        let reference =
            json!({"kind": "StatefulSet", "name": "web", "uid": "u", "controller": true});
        let owned = json!({"metadata": {"ownerReferences": [reference]}});
        let orphan = json!({"metadata": {}});
        let revisions = RevisionNames::default();
        assert_eq!(
            changes(&orphan, &owned, &revisions),
            ["owner statefulset web (controller) added"]
        );
        assert_eq!(
            changes(&owned, &orphan, &revisions),
            ["owner statefulset web (controller) removed"]
        );
    }

    #[test]
    fn annotations_that_steer_the_simulation_are_not_shown() {
        let annotated = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
        let none = json!({"metadata": {}});
        let revisions = RevisionNames::default();
        assert!(changes(&none, &annotated("kubeproof.dev/ready"), &revisions).is_empty());
        assert_eq!(
            changes(&none, &annotated("a"), &revisions),
            ["annotation a=x"]
        );
    }
}
