//! Requests of a kube-controller-manager of v1.36, part by part: its controllers and client-go send
//! them with these bodies and headers, and rely on these parts of the answers.
//!
//! Sources: kubernetes cmd/kube-controller-manager and pkg/controller, client-go release-1.36.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod collection;
mod identity;
mod namespaces;
mod nodes;
mod policies;
mod services;
mod start;
mod volumes;
mod workloads;
