//! Which sets a change of a pod concerns.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::Key;
use super::set::{KIND, Set};
use crate::controller_ref::controller_of;
use crate::informer::Change;
use crate::pod;

/// A set to sync, at once or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trigger {
    pub(super) key: Key,
    pub(super) after: Duration,
}

impl Trigger {
    fn now(set: &Set) -> Self {
        Self {
            key: Key::of(set),
            after: Duration::ZERO,
        }
    }
}

/// The sets that have to be synced because of `change`; `sets` are those of its namespace.
pub(super) fn of_pod(change: &Change<Pod>, sets: &[Set]) -> Vec<Trigger> {
    match change {
        Change::Added(pod) if pod::is_terminating(pod) => owner(pod, sets),
        Change::Added(pod) if controller_of(&pod.metadata).is_some() => owner(pod, sets),
        Change::Added(pod) => selecting(pod, sets),
        Change::Deleted(pod) => owner(pod, sets),
        Change::Updated { old, new } => of_update(old, new, sets),
    }
}

fn of_update(old: &Arc<Pod>, new: &Arc<Pod>, sets: &[Set]) -> Vec<Trigger> {
    if old.resource_version() == new.resource_version() {
        return Vec::new();
    }
    let before = controller_of(&old.metadata);
    let after = controller_of(&new.metadata);
    let mut triggers = Vec::new();
    if before != after {
        triggers.extend(owner(old, sets));
    }
    if after.is_none() {
        if before.is_some() || old.labels() != new.labels() {
            triggers.extend(selecting(new, sets));
        }
        return triggers;
    }
    let became_ready = !pod::has_ready_condition(old) && pod::has_ready_condition(new);
    for trigger in owner(new, sets) {
        let set = sets.iter().find(|set| Key::of(set) == trigger.key);
        let min_ready_seconds = set.map_or(0, Set::min_ready_seconds);
        triggers.push(trigger.clone());
        if let Ok(seconds @ 1..) = u64::try_from(min_ready_seconds)
            && became_ready
        {
            triggers.push(Trigger {
                after: Duration::from_secs(seconds),
                ..trigger
            });
        }
    }
    triggers
}

/// The set that controls the pod, if it is still the same one.
fn owner(pod: &Pod, sets: &[Set]) -> Vec<Trigger> {
    let Some(controller) = controller_of(&pod.metadata) else {
        return Vec::new();
    };
    let is_it = |set: &&Set| is_same(controller, set);
    sets.iter()
        .find(is_it)
        .map(Trigger::now)
        .into_iter()
        .collect()
}

fn is_same(controller: &OwnerReference, set: &Set) -> bool {
    controller.kind == KIND && controller.name == set.name() && controller.uid == set.uid()
}

/// The sets that select the pod; an empty selector selects nothing.
fn selecting(pod: &Pod, sets: &[Set]) -> Vec<Trigger> {
    let selects = |set: &&Set| {
        let selector = Selector::try_from(set.spec().selector.clone());
        selector.is_ok_and(|selector| !selector.selects_all() && selector.matches(pod.labels()))
    };
    sets.iter().filter(selects).map(Trigger::now).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, app: &str) -> Set {
        let object = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid")},
            "spec": {
                "minReadySeconds": 10, "serviceName": "", "selector": {"matchLabels": {"app": app}},
                "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": []}}
            }
        }))
        .unwrap();
        Set::parse(&object).unwrap()
    }

    fn pod(rv: u32, owner: &str, app: &str, ready: &str) -> Arc<Pod> {
        let mut value = json!({
            "metadata": {"namespace": "ns", "name": "web-0", "resourceVersion": rv.to_string(),
                "labels": {"app": app}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        });
        if !owner.is_empty() {
            value["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
                "kind": "StatefulSet", "name": owner, "uid": format!("{owner}-uid"),
                "controller": true}]);
        }
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn triggered(change: &Change<Pod>) -> Vec<String> {
        let sets = [set("db", "nginx"), set("web", "nginx"), set("x", "other")];
        let told = |trigger: &Trigger| format!("{}+{}", trigger.key.name, trigger.after.as_secs());
        of_pod(change, &sets).iter().map(told).collect()
    }

    #[test]
    fn pods_trigger_their_owner_and_orphans_whoever_selects_them() {
        let none: [&str; 0] = [];
        assert_eq!(
            triggered(&Change::Added(pod(1, "web", "nginx", "False"))),
            ["web+0"]
        );
        assert_eq!(
            triggered(&Change::Added(pod(1, "", "nginx", "False"))),
            ["db+0", "web+0"]
        );
        assert_eq!(
            triggered(&Change::Deleted(pod(1, "web", "nginx", "False"))),
            ["web+0"]
        );
        assert_eq!(
            triggered(&Change::Deleted(pod(1, "", "nginx", "False"))),
            none
        );
        let mut stranger = Pod::clone(&pod(1, "web", "nginx", "False"));
        stranger.metadata.owner_references.as_mut().unwrap()[0].uid = "gone".to_owned();
        assert_eq!(triggered(&Change::Added(Arc::new(stranger))), none);
    }

    #[test]
    fn updates_trigger_the_old_and_the_new_owner() {
        let update = |old, new| triggered(&Change::Updated { old, new });
        let none: [&str; 0] = [];
        let web = || pod(1, "web", "nginx", "False");
        assert_eq!(update(web(), web()), none, "same resourceVersion");
        assert_eq!(update(web(), pod(2, "web", "nginx", "False")), ["web+0"]);
        assert_eq!(
            update(web(), pod(2, "web", "nginx", "True")),
            ["web+0", "web+10"]
        );
        assert_eq!(
            update(web(), pod(2, "x", "other", "False")),
            ["web+0", "x+0"]
        );
        assert_eq!(
            update(web(), pod(2, "", "other", "False")),
            ["web+0", "x+0"]
        );
        let orphan = || pod(1, "", "nginx", "False");
        assert_eq!(update(orphan(), pod(2, "", "nginx", "True")), none);
        assert_eq!(update(orphan(), pod(2, "", "other", "False")), ["x+0"]);
    }
}
