//! The backoff before a failed pod's replacement, which grows with consecutive failures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubeproof_runtime::clock::{go_seconds, later};
use kubeproof_runtime::pod::{ContainerStatus, Pod};
use kubeproof_runtime::store::ObjectKey;
use parking_lot::Mutex;

/// The wait after the first failure; it doubles with each further one.
const FIRST: SignedDuration = SignedDuration::from_secs(10);
/// No wait is longer.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    failures: usize,
    last: Option<Timestamp>,
}

/// The records of all jobs. A restarted controller has none.
#[derive(Default)]
pub(super) struct Records(Mutex<BTreeMap<ObjectKey, Record>>);

impl Records {
    pub(super) fn of(&self, key: &ObjectKey) -> Record {
        self.0.lock().get(key).copied().unwrap_or_default()
    }

    pub(super) fn store(&self, key: &ObjectKey, record: Record) {
        self.0.lock().insert(key.clone(), record);
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

impl Record {
    /// The record after these pods were found to have ended.
    pub(super) fn after(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let latest = |pods: &[Arc<Pod>]| pods.iter().filter_map(|pod| finished_at(pod)).max();
        if succeeded.is_empty() {
            return match failed.len() {
                0 => self,
                count => Self {
                    failures: self.failures + count,
                    last: latest(failed),
                },
            };
        }
        let success = latest(succeeded);
        let later: Vec<Arc<Pod>> = failed
            .iter()
            .filter(|pod| finished_at(pod) > success)
            .cloned()
            .collect();
        Self {
            failures: later.len(),
            last: latest(&later),
        }
    }

    /// The rest of the backoff from `now` on; zero if it is over.
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        remaining(self.failures, self.last, now)
    }
}

/// The time from `now` until the backoff ends after `failures` failures, the last of them at
/// `last`.
pub(super) fn remaining(failures: usize, last: Option<Timestamp>, now: Timestamp) -> Duration {
    let (Some(last), 1..) = (last, failures) else {
        return Duration::ZERO;
    };
    // The number of doublings is capped: more cannot matter.
    let wait = (1..failures.min(32)).try_fold(FIRST, |wait, _| wait.checked_mul(2));
    let wait = wait.map_or(LONGEST, |wait| wait.min(LONGEST));
    Duration::try_from(wait - now.duration_since(last)).unwrap_or(Duration::ZERO)
}

/// The time when the pod finished: the end of its last container, else of its readiness, else its
/// deletion, else its creation.
pub(super) fn finished_at(pod: &Pod) -> Option<Timestamp> {
    containers_finished_at(pod)
        .or_else(|| unready_since(pod))
        .or_else(|| {
            let deletion = pod.metadata.deletion_timestamp.as_ref()?.0;
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
            Some(later(deletion, -go_seconds(grace)))
        })
        .or_else(|| Some(pod.metadata.creation_timestamp.as_ref()?.0))
}

/// When the last container ended, if all have. Of the init containers sidecars count, which outlive
/// the others.
fn containers_finished_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let init = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.init_containers.as_deref());
    let is_sidecar = |status: &&ContainerStatus| {
        init.unwrap_or_default().iter().any(|container| {
            container.name == status.name && container.restart_policy.as_deref() == Some("Always")
        })
    };
    let containers = status.container_statuses.iter().flatten();
    let inits = status.init_container_statuses.iter().flatten();
    let mut last = None;
    for status in containers.chain(inits.filter(is_sidecar)) {
        let terminated = status.state.as_ref()?.terminated.as_ref()?;
        last = last.max(Some(terminated.finished_at.as_ref()?.0));
    }
    last
}

fn unready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref()?.0;
    (ready.status == "False").then_some(since)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(status: Value) -> Arc<Pod> {
        let mut pod: Pod = from_value(json!({"metadata": {}, "status": status})).unwrap();
        pod.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
        Arc::new(pod)
    }

    fn container(state: Value) -> Value {
        json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
               "state": state})
    }

    fn ended(second: i64) -> Arc<Pod> {
        let state = json!({"terminated": {"exitCode": 1, "finishedAt": at(second).to_string()}});
        pod(json!({"containerStatuses": [container(state)]}))
    }

    #[test]
    fn the_wait_doubles_up_to_ten_minutes_and_ends_with_time() {
        let waits: Vec<u64> = (0..9)
            .map(|failures| remaining(failures, Some(at(100)), at(100)).as_secs())
            .collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(remaining(500, Some(at(100)), at(100)).as_secs(), 600);
        assert_eq!(remaining(2, Some(at(100)), at(115)).as_secs(), 5);
        assert_eq!(remaining(2, Some(at(100)), at(120)), Duration::ZERO);
        assert_eq!(remaining(2, Some(at(100)), at(500)), Duration::ZERO);
    }

    #[test]
    fn a_success_forgives_the_failures_before_it() {
        let two = Record::default().after(&[], &[ended(10), ended(5)]);
        assert_eq!(
            two,
            Record {
                failures: 2,
                last: Some(at(10))
            }
        );
        let three = two.after(&[], &[ended(20)]);
        assert_eq!(
            three,
            Record {
                failures: 3,
                last: Some(at(20))
            }
        );
        assert_eq!(three.after(&[], &[]), three);
        assert_eq!(three.after(&[ended(30)], &[]), Record::default());
        let mixed = three.after(&[ended(30)], &[ended(25), ended(30), ended(31), ended(40)]);
        assert_eq!(
            mixed,
            Record {
                failures: 2,
                last: Some(at(40))
            }
        );
    }

    #[test]
    fn a_pods_finish_time_is_taken_from_the_best_that_is_known() {
        assert_eq!(finished_at(&ended(7)), Some(at(7)));
        let unready = json!({"type": "Ready", "status": "False",
            "lastTransitionTime": at(6).to_string()});
        let running = pod(
            json!({"containerStatuses": [container(json!({"running": {}}))],
            "conditions": [unready]}),
        );
        assert_eq!(finished_at(&running), Some(at(6)));
        let mut deleted = (*pod(json!({}))).clone();
        deleted.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(35)));
        deleted.metadata.deletion_grace_period_seconds = Some(30);
        assert_eq!(finished_at(&deleted), Some(at(5)));
        assert_eq!(finished_at(&pod(json!({}))), Some(at(1)));
    }
}
