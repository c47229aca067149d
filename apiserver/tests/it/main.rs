//! The API server as its clients see it: requests in process and over sockets, a module for each subject.
//!
//! All modules run in one process, so no test may change its state; `depth`, which must, is a program of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod admission_plugins;
mod admission_policies;
mod aggregation;
mod auditing;
mod controller_manager;
mod conversion;
mod crds;
mod custom_resources;
mod definitions;
mod escalation;
mod faults;
mod forks;
mod informers;
mod kinds;
mod kubelet;
mod lists;
mod loading;
mod long_lists;
mod metrics_apis;
mod openapi;
mod pace;
mod patches;
mod plugin_flags;
mod requests;
mod round_trips;
mod routes;
mod service_ranges;
mod serving_flags;
mod socket;
mod state;
mod subresources;
mod support;
mod tls;
mod watches;
mod webhooks;
mod wire;
mod writes;
