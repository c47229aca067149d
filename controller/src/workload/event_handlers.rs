//! Finds the workloads to sync after a change of an object that they may own.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::store::{Change, ObjectKey};

/// An object that owns the objects that it selects.
pub(crate) trait Workload {
    /// The kind of the workload, as owner references name it.
    const KIND: &'static str;

    /// The metadata of the workload.
    fn meta(&self) -> &ObjectMeta;

    /// The selector of the workload's pods.
    fn selector(&self) -> LabelSelector;

    /// The delay until the next sync after a pod became ready, because only then it is available.
    fn recheck_after(&self) -> Option<Duration> {
        None
    }
}

/// A workload to sync, at once or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) key: ObjectKey,
    pub(crate) after: Duration,
}

impl Request {
    fn now(workload: &impl Workload) -> Self {
        Self {
            key: key_of(workload.meta()),
            after: Duration::ZERO,
        }
    }
}

fn key_of(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

/// The workloads to sync because of a pod's change; `workloads` are those of its namespace.
pub(crate) fn requests_for_pod<W: Workload>(change: &Change<Pod>, workloads: &[W]) -> Vec<Request> {
    let mut requests = requests_for_owners(change, workloads);
    if let Change::Updated { old, new } = change
        && !pod::has_ready_condition(old)
        && pod::has_ready_condition(new)
        && let Some(workload) = owner(&new.metadata, workloads)
        && let Some(after) = workload.recheck_after()
    {
        requests.push(Request {
            after,
            ..Request::now(workload)
        });
    }
    requests
}

/// The workloads to sync because of the change of something that they may own.
pub(crate) fn requests_for_owners<K: ResourceExt, W: Workload>(
    change: &Change<K>,
    workloads: &[W],
) -> Vec<Request> {
    let owning = |object: &K| owner(object.meta(), workloads).map(Request::now);
    match change {
        Change::Added(object) => {
            let is_orphan = controller_of(object.meta()).is_none();
            if is_orphan && object.meta().deletion_timestamp.is_none() {
                return selecting(object.labels(), workloads);
            }
            owning(object).into_iter().collect()
        }
        Change::Deleted { last: object, .. } => owning(object).into_iter().collect(),
        Change::Updated { old, new } => requests_for_update(&**old, &**new, workloads),
    }
}

fn requests_for_update<K: ResourceExt, W: Workload>(
    old: &K,
    new: &K,
    workloads: &[W],
) -> Vec<Request> {
    let before = controller_of(old.meta());
    let after = controller_of(new.meta());
    let mut requests = Vec::new();
    if before != after {
        requests.extend(owner(old.meta(), workloads).map(Request::now));
    }
    if after.is_some() {
        requests.extend(owner(new.meta(), workloads).map(Request::now));
    } else if before.is_some() || old.labels() != new.labels() {
        requests.extend(selecting(new.labels(), workloads));
    }
    requests
}

/// The workload that controls the object `meta`, if it is still the same one.
pub(crate) fn owner<'a, W: Workload>(meta: &ObjectMeta, workloads: &'a [W]) -> Option<&'a W> {
    let controller = controller_of(meta)?;
    workloads.iter().find(|workload| {
        let meta = workload.meta();
        controller.kind == W::KIND
            && Some(&controller.name) == meta.name.as_ref()
            && Some(&controller.uid) == meta.uid.as_ref()
    })
}

/// The workloads that select these labels; an empty selector selects nothing.
fn selecting<W: Workload>(
    labels: &std::collections::BTreeMap<String, String>,
    workloads: &[W],
) -> Vec<Request> {
    let selects = |workload: &&W| {
        Selector::try_from(workload.selector())
            .is_ok_and(|selector| !selector.selects_all() && selector.matches(labels))
    };
    workloads.iter().filter(selects).map(Request::now).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    /// A workload whose pods are available when they have been ready for ten seconds.
    struct Set {
        meta: ObjectMeta,
        selector: LabelSelector,
    }

    impl Workload for Set {
        const KIND: &'static str = "StatefulSet";

        fn meta(&self) -> &ObjectMeta {
            &self.meta
        }

        fn selector(&self) -> LabelSelector {
            self.selector.clone()
        }

        fn recheck_after(&self) -> Option<Duration> {
            Some(Duration::from_secs(10))
        }
    }

    fn set(name: &str, app: &str) -> Set {
        let meta = json!({"namespace": "ns", "name": name, "uid": format!("{name}-uid")});
        Set {
            meta: from_value(meta).unwrap(),
            selector: from_value(json!({"matchLabels": {"app": app}})).unwrap(),
        }
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
        Arc::new(from_value(value).unwrap())
    }

    fn deleted(pod: Arc<Pod>) -> Change<Pod> {
        Change::Deleted {
            old: Arc::clone(&pod),
            last: pod,
        }
    }

    fn triggered(change: &Change<Pod>) -> Vec<String> {
        let sets = [set("db", "nginx"), set("web", "nginx"), set("x", "other")];
        let described =
            |request: &Request| format!("{}+{}", request.key.name, request.after.as_secs());
        requests_for_pod(change, &sets)
            .iter()
            .map(described)
            .collect()
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
            triggered(&deleted(pod(1, "web", "nginx", "False"))),
            ["web+0"]
        );
        assert_eq!(triggered(&deleted(pod(1, "", "nginx", "False"))), none);
        let mut stranger = Pod::clone(&pod(1, "web", "nginx", "False"));
        stranger.metadata.owner_references.as_mut().unwrap()[0].uid = "gone".to_owned();
        assert_eq!(triggered(&Change::Added(Arc::new(stranger))), none);
    }

    #[test]
    fn updates_trigger_the_old_and_the_new_owner() {
        let update = |old, new| triggered(&Change::Updated { old, new });
        let none: [&str; 0] = [];
        let web = || pod(1, "web", "nginx", "False");
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
