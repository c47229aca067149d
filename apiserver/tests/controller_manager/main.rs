//! What a kube-controller-manager of v1.36 asks of the server, part by part: the requests that its
//! controllers and client-go send, with their bodies and headers, and what the controllers go on from.
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
