//! The status of a set: what is counted, when a rollout is complete, what is worth a write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kubeproof_runtime::pod::{self, Pod};

use super::observed::Observed;
use super::set::Set;
use crate::kruise::api::stateful_set::{StatefulSetCondition, StatefulSetStatus};
use crate::kruise::in_place::whole_second;

/// Counts the pods for the status; zeros that Go omits are omitted.
pub(super) fn count<'a>(
    observed: &Observed<'_>,
    pods: impl Iterator<Item = &'a Pod> + Clone,
) -> StatefulSetStatus {
    let set = observed.set;
    let (current, update) = (&observed.current.name, &observed.update.name);
    let created = pods.clone().filter(|pod| pod::is_created(pod));
    let of = |counts: &dyn Fn(&Pod) -> bool| {
        let counted = created.clone().filter(|pod| counts(pod)).count();
        i32::try_from(counted).unwrap_or(i32::MAX)
    };
    let is_updated = |pod: &Pod| pod::revision(pod) == update;
    let is_available = |pod: &Pod| observed.is_available(pod);
    let shown = |count: i32| Some(count).filter(|count| *count != 0);
    StatefulSetStatus {
        observed_generation: set.meta().generation,
        replicas: of(&|_| true),
        ready_replicas: of(&pod::is_ready),
        available_replicas: of(&|pod| pod::is_ready(pod) && is_available(pod)),
        current_replicas: of(&|pod| !pod::is_terminating(pod) && pod::revision(pod) == current),
        updated_replicas: of(&|pod| !pod::is_terminating(pod) && is_updated(pod)),
        updated_ready_replicas: shown(of(&|pod| pod::is_ready(pod) && is_updated(pod))),
        updated_available_replicas: shown(of(&|pod| is_updated(pod) && is_available(pod))),
        current_revision: Some(current.clone()),
        update_revision: Some(update.clone()),
        collision_count: Some(observed.collision_count),
        conditions: None,
        label_selector: Some(observed.label_selector.to_owned()).filter(|text| !text.is_empty()),
        volume_claims: None,
    }
}

/// Makes the update revision the current one when every pod there is, is ready at it.
pub(super) fn complete_rolling_update(status: &mut StatefulSetStatus, set: &Set) {
    let is_complete = [status.updated_replicas, status.ready_replicas] == [status.replicas; 2];
    if is_complete && !set.is_on_delete() {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// Notes that a pod could not be created or updated, which ends a sync: there is no other condition.
pub(super) fn failed(status: &mut StatefulSetStatus, what: &str, message: String, now: Timestamp) {
    status.conditions = Some(vec![StatefulSetCondition {
        type_: what.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(whole_second(now))),
        reason: None,
        message: Some(message),
    }]);
}

/// Whether `stored` differs enough to warrant a write. Counts of ready or available updated pods do
/// not, nor does a failure.
pub(super) fn differs(status: &StatefulSetStatus, stored: &StatefulSetStatus) -> bool {
    let counted = |status: &StatefulSetStatus| StatefulSetStatus {
        updated_ready_replicas: None,
        updated_available_replicas: None,
        conditions: None,
        ..status.clone()
    };
    counted(status) != counted(stored)
}
