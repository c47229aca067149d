//! The harness, the program `kubeproof`, and the rules that files of the repository keep.
//!
//! All modules run in one process, so no test may change its state, and each uses directories of its own.

// Tests begin in the order of their names, and these take longest.
#[cfg(feature = "cli")]
mod a_planted_operator;
#[cfg(all(unix, feature = "cli"))]
mod branches;
#[cfg(feature = "cli")]
mod cli;
mod collection;
mod comparisons;
#[cfg(all(unix, feature = "cli"))]
mod envtest;
#[cfg(feature = "cli")]
mod exchange;
#[cfg(all(unix, feature = "cli"))]
mod guide;
#[cfg(feature = "cli")]
mod image;
#[cfg(feature = "cli")]
mod importing;
#[cfg(feature = "cli")]
mod incidents;
#[cfg(feature = "cli")]
mod init;
mod kruise_types;
#[cfg(feature = "cli")]
mod kruise_webhooks;
#[cfg(feature = "cli")]
mod kubectl;
mod kubectl_goldens;
#[cfg(all(unix, feature = "cli"))]
mod kubectl_stand_in;
mod layers;
#[cfg(feature = "cli")]
mod logs;
#[cfg(feature = "cli")]
mod manual;
mod new;
mod orders;
#[cfg(feature = "cli")]
mod outside;
mod planted;
mod planted_requests;
mod pod_programs;
#[cfg(feature = "cli")]
mod remote;
#[cfg(feature = "cli")]
mod report;
#[cfg(all(unix, feature = "cli"))]
mod rerunning;
mod rust_types;
#[cfg(feature = "cli")]
mod scheduler_config;
#[cfg(feature = "cli")]
mod schema;
#[cfg(feature = "cli")]
mod served;
#[cfg(feature = "cli")]
mod serving;
#[cfg(all(unix, feature = "cli"))]
mod shards;
mod shrinking;
mod sources;
mod strict;
#[cfg(feature = "cli")]
mod support;
#[cfg(feature = "cli")]
mod terminal;
mod testbed;
mod tidy;
