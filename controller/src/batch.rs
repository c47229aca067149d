//! The controllers of the group `batch`.

pub mod cronjob;
pub mod job;
pub mod ttl_after_finished;
