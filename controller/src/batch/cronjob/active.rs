//! The list of active jobs in a cron job's status.

use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::ObjectReference;

/// The jobs that run as far as the status knows.
pub(super) fn list(cron: &mut CronJob) -> &mut Vec<ObjectReference> {
    cron.status
        .get_or_insert_default()
        .active
        .get_or_insert_default()
}

pub(super) fn contains(cron: &CronJob, uid: &str) -> bool {
    find(cron, |one| one.uid.as_deref() == Some(uid))
}

pub(super) fn contains_name(cron: &CronJob, name: &str) -> bool {
    find(cron, |one| one.name.as_deref() == Some(name))
}

pub(super) fn is_empty(cron: &CronJob) -> bool {
    !find(cron, |_| true)
}

pub(super) fn remove(cron: &mut CronJob, uid: &str) {
    list(cron).retain(|one| one.uid.as_deref() != Some(uid));
}

fn find(cron: &CronJob, is_wanted: impl Fn(&ObjectReference) -> bool) -> bool {
    let active = cron
        .status
        .as_ref()
        .and_then(|status| status.active.as_ref());
    active.is_some_and(|active| active.iter().any(is_wanted))
}
