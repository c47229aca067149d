//! The order in which surplus pods are deleted.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kubeproof_runtime::pod::{self, ContainerStatus, Pod, deletion_cost as cost, node, phase_rank};

/// The `count` of `pods` to delete, the first to go first.
///
/// `related` are the pods of all sets with the same owner: where many of them share a node, one
/// can be spared there.
pub(super) fn to_delete(
    mut pods: Vec<Arc<Pod>>,
    related: &[Arc<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count < pods.len() {
        let on_node = count_by_node(related);
        pods.sort_by(|a, b| compare(a, b, &on_node, now));
        pods.truncate(count);
    }
    pods
}

fn count_by_node(related: &[Arc<Pod>]) -> BTreeMap<&str, usize> {
    let mut on_node = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod::is_active(pod)) {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    on_node
}

fn compare(a: &Pod, b: &Pod, on_node: &BTreeMap<&str, usize>, now: Timestamp) -> Ordering {
    let colocated = |pod| Reverse(on_node.get(node(pod)).copied().unwrap_or(0));
    let rank = |pod| {
        let is_assigned = !node(pod).is_empty();
        let is_ready = pod::has_ready_condition(pod);
        (
            is_assigned,
            phase_rank(pod),
            is_ready,
            cost(pod),
            colocated(pod),
        )
    };
    rank(a)
        .cmp(&rank(b))
        .then_with(|| {
            let both_ready = pod::has_ready_condition(a) && pod::has_ready_condition(b);
            if both_ready {
                by_age(a, b, pod::ready_since, now)
            } else {
                Ordering::Equal
            }
        })
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| by_age(a, b, created, now))
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.creation_timestamp().map(|time| time.0)
}

/// Orders younger pods first, an unknown age before all. Ages of one order of magnitude are ordered
/// by uid, so that not always the youngest goes.
fn by_age(a: &Pod, b: &Pod, since: impl Fn(&Pod) -> Option<Timestamp>, now: Timestamp) -> Ordering {
    match (since(a), since(b)) {
        (a, b) if a == b => Ordering::Equal,
        (Some(since_a), Some(since_b)) => magnitude(since_a, now)
            .cmp(&magnitude(since_b, now))
            .then_with(|| a.uid().cmp(&b.uid())),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// The binary logarithm of the age in nanoseconds; -1 for none.
fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    let age = now.duration_since(since).as_nanos();
    let age = u128::try_from(age).unwrap_or(0);
    age.checked_ilog2().map_or(-1, i64::from)
}

/// The most restarts of any container, and then of any sidecar.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else {
        return (0, 0);
    };
    let most = |statuses: &[ContainerStatus], counts: &dyn Fn(&str) -> bool| {
        let counted = statuses.iter().filter(|status| counts(&status.name));
        counted
            .map(|status| status.restart_count)
            .max()
            .unwrap_or(0)
    };
    let init = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.init_containers.as_deref());
    let is_sidecar = |name: &str| {
        let mut init = init.unwrap_or_default().iter();
        init.any(|container| {
            container.name == name && container.restart_policy.as_deref() == Some("Always")
        })
    };
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let inits = status
        .init_container_statuses
        .as_deref()
        .unwrap_or_default();
    (most(containers, &|_| true), most(inits, &is_sidecar))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    /// A ready pod on a node, a day old, with `changes` merged in.
    fn pod(name: &str, changes: Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        merge(&mut pod, changes);
        Arc::new(from_value(pod).unwrap())
    }

    fn merge(target: &mut Value, changes: Value) {
        match changes {
            Value::Object(fields) => {
                for (key, value) in fields {
                    merge(&mut target[key], value);
                }
            }
            other => *target = other,
        }
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<String> {
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn the_less_useful_of_two_pods_goes_first() {
        let ready_at = |time: &str| {
            json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": time}]}})
        };
        let restarted = json!({"status": {"containerStatuses": [{"name": "c", "image": "i",
            "imageID": "", "ready": true, "restartCount": 3}]}});
        let steps = [
            json!({"spec": {"nodeName": ""}}),
            json!({"status": {"phase": "Pending"}}),
            json!({"status": {"phase": "Unknown"}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}),
            json!({"spec": {"nodeName": "crowded"}}),
            ready_at("2026-01-01T23:00:00Z"),
            restarted,
            json!({"metadata": {"creationTimestamp": "2026-01-01T23:00:00Z"}}),
            json!({}),
        ];
        let mut pods: Vec<Arc<Pod>> = (b'a'..)
            .map(|letter| char::from(letter).to_string())
            .zip(steps)
            .map(|(name, changes)| pod(&name, changes))
            .collect();
        let expected = names(&pods);
        let crowd = json!({"spec": {"nodeName": "crowded"}});
        let mut related = pods.clone();
        related.extend((0..20).map(|at| pod(&format!("related-{at}"), crowd.clone())));
        pods.reverse();
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let chosen = to_delete(pods, &related, 9, now);
        assert_eq!(names(&chosen), expected[..9]);
    }

    #[test]
    fn ages_of_one_magnitude_are_told_apart_by_uid() {
        let at = |time: &str| {
            json!({"metadata": {"creationTimestamp": time}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": time}]}})
        };
        let pods = vec![
            pod("b", at("2026-01-01T00:00:10Z")),
            pod("a", at("2026-01-01T00:00:00Z")),
        ];
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        assert_eq!(names(&to_delete(pods.clone(), &[], 1, now)), ["a"]);
        assert_eq!(names(&to_delete(pods, &[], 2, now)), ["b", "a"], "all");
    }
}
