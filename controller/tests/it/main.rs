//! Controllers and nodes against the in-memory API server, under virtual time; `threads` in real time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod containers;
mod kruise_daemon;
mod kubelet;
mod provisioner;
mod stages;
mod statefulset;
mod support;
mod threads;
mod workloads;
