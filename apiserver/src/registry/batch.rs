//! Jobs and CronJobs.

pub(crate) mod cron_job;
pub(crate) mod job;
