//! Jobs and CronJobs.

pub(crate) mod cron_job;
pub mod job;

use super::ApiGroup;

/// The strategies of `batch`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "batch",
    strategies: &[("cronjobs", &cron_job::CronJob), ("jobs", &job::Job)],
};
