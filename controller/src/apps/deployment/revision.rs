//! Annotations through which a deployment and its ReplicaSets keep their history.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;

use super::{fenceposts, replicas};

/// The number of a rollout, on its ReplicaSet and on the deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier numbers of a ReplicaSet that was rolled back to, between commas.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The deployment's replicas when its ReplicaSet was scaled last.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The deployment's replicas plus surge when its ReplicaSet was scaled last.
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// The longest history, in bytes.
const HISTORY_LENGTH_MAX: usize = 2000;
/// Annotations that belong to the deployment alone, or to its ReplicaSets alone.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// The highest number among `sets`, 0 without any.
pub(super) fn highest<'a>(sets: impl Iterator<Item = &'a ReplicaSet>) -> i64 {
    sets.filter_map(|set| number(set.annotations()))
        .max()
        .unwrap_or(0)
        .max(0)
}

fn number(annotations: &BTreeMap<String, String>) -> Option<i64> {
    annotations.get(REVISION)?.parse().ok()
}

/// The deployment's replicas when `set` was scaled last.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    set.annotations().get(DESIRED)?.parse().ok()
}

/// The deployment's replicas plus surge when `set` was scaled last, if annotated.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    set.annotations().get(MAX)?.parse().ok()
}

/// Brings the annotations of the deployment's new ReplicaSet up to date; `revision` is its number
/// unless it has a higher one. Returns whether that changed anything.
pub(super) fn annotate_new(
    annotations: &mut BTreeMap<String, String>,
    deployment: &Deployment,
    revision: i64,
) -> bool {
    let before = annotations.clone();
    for (key, value) in deployment.annotations() {
        if !NOT_COPIED.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let old = annotations.get(REVISION).cloned();
    let old_number = match &old {
        // A revision that cannot be parsed counts as the highest and is kept.
        Some(text) => text.parse().unwrap_or(i64::MAX),
        None => 0,
    };
    if old_number < revision {
        annotations.insert(REVISION.to_owned(), revision.to_string());
        if let Some(old) = old {
            remember(annotations, &old);
        }
    }
    *annotations != before
}

/// Adds `old` to the history, which forgets its beginning when it gets too long.
fn remember(annotations: &mut BTreeMap<String, String>, old: &str) {
    let history = annotations.entry(HISTORY.to_owned()).or_default();
    if !history.is_empty() {
        history.push(',');
    }
    history.push_str(old);
    while history.len() > HISTORY_LENGTH_MAX {
        let Some((_, rest)) = history.split_once(',') else {
            break;
        };
        *history = rest.to_owned();
    }
}

/// Notes on a ReplicaSet what it is scaled for. Returns whether that changed anything.
pub(super) fn annotate_scale(
    annotations: &mut BTreeMap<String, String>,
    deployment: &Deployment,
) -> bool {
    let desired = replicas(deployment);
    let (surge, _) = fenceposts(deployment);
    let notes = [
        (DESIRED, desired.to_string()),
        (MAX, (desired + surge).to_string()),
    ];
    let mut changed = false;
    for (key, value) in notes {
        changed |= annotations.insert(key.to_owned(), value.clone()) != Some(value);
    }
    changed
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    fn deployment() -> Deployment {
        from_value(json!({
            "metadata": {"name": "web", "annotations": {"team": "a", REVISION: "9",
                "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
            "spec": {"replicas": 10, "selector": {}, "template": {},
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}
        }))
        .unwrap()
    }

    #[test]
    fn a_new_set_is_numbered_and_remembers_its_earlier_numbers() {
        let mut annotations = BTreeMap::new();
        assert!(annotate_new(&mut annotations, &deployment(), 1));
        let expected = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            pairs.collect()
        };
        assert_eq!(annotations, expected(&[("team", "a"), (REVISION, "1")]));
        assert!(!annotate_new(&mut annotations, &deployment(), 1));
        assert!(annotate_new(&mut annotations, &deployment(), 3));
        assert!(annotate_new(&mut annotations, &deployment(), 5));
        assert!(!annotate_new(&mut annotations, &deployment(), 4), "lower");
        let rolled = [("team", "a"), (REVISION, "5"), (HISTORY, "1,3")];
        assert_eq!(annotations, expected(&rolled));
    }

    #[test]
    fn the_history_forgets_its_beginning() {
        let long = "1,".repeat(999) + "22";
        let mut annotations = BTreeMap::from([(HISTORY.to_owned(), long)]);
        remember(&mut annotations, "333");
        let history = &annotations[HISTORY];
        assert!(history.ends_with(",22,333"));
        assert!(history.len() <= HISTORY_LENGTH_MAX && history.len() > 1990);
    }

    #[test]
    fn a_scaled_set_notes_replicas_with_and_without_surge() {
        let mut annotations = BTreeMap::new();
        assert!(annotate_scale(&mut annotations, &deployment()));
        assert_eq!((&*annotations[DESIRED], &*annotations[MAX]), ("10", "13"));
        assert!(!annotate_scale(&mut annotations, &deployment()));
    }
}
