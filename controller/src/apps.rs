//! The controllers of the group `apps`.

pub mod daemonset;
pub mod deployment;
pub mod replicaset;
pub mod statefulset;
