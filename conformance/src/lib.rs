//! Tests Kubernetes controllers end to end: an in-memory API server, simulated nodes and the controllers of a cluster
//! run in the test's own process and under virtual time. Hours of cluster time take milliseconds, and equal runs give
//! equal bytes.
//!
//! ```toml
//! [dev-dependencies]
//! kubeproof = { version = "0.1", default-features = false }
//! insta = "1"
//! tokio = { version = "1", features = ["macros", "rt"] }
//! ```
//!
//! A test starts a cluster, applies objects, waits until it has settled, and checks the timeline:
//!
//! ```
//! use std::time::Duration;
//!
//! use kube::CustomResourceExt;
//! use kubeproof::prelude::*;
//! # use operator::WebApp;
//! # #[path = "../examples/operator/operator.rs"]
//! # mod operator;
//!
//! const SHOP: &str = "
//! apiVersion: example.com/v1
//! kind: WebApp
//! metadata: {name: shop}
//! spec: {image: 'shop:1', host: shop.example.com}
//! ";
//!
//! # #[cfg(test)] // An attribute that the front page shows, and a doc test does not run.
//! #[tokio::test(start_paused = true)]
//! # async fn shown() {}
//! async fn a_shop_comes_up() -> Result<(), Box<dyn std::error::Error>> {
//!     let testbed = Testbed::builder()
//!         .nodes(1)
//!         .controllers(["deployment", "replicaset"])
//!         .manifests(Manifests::new().object(&WebApp::crd())?)
//!         .controller("webapp-operator", operator::run)
//!         .start()
//!         .await?;
//!     testbed.apply(SHOP).await?;
//!     testbed.settle(Duration::from_secs(60)).await?;
//!     // insta::assert_snapshot!(testbed.timeline());
//!     assert!(testbed.timeline().contains("pod shop-7f675449cf-00001 ready"));
//!     Ok(())
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
//! # runtime.block_on(a_shop_comes_up()).unwrap();
//! ```
//!
//! The timeline says what the testbed was given, and has a line for each change: the time, the writer, the change. This
//! is how it begins:
//!
//! ```text
//! # given: 1 node; controllers: deployment, replicaset; customresourcedefinition webapps.example.com
//!   +0s      test                        webapp shop created (replicas 1)
//!   +0s      webapp-operator             webapp shop finalizer example.com/dns added
//!   +0s      webapp-operator             configmap dns created
//!   +0s      webapp-operator             configmap shop created
//!   +0s      webapp-operator             service shop created
//!   +0s      webapp-operator             deployment shop created (replicas 1)
//!   +0s      deployment-controller       replicaset shop-7f675449cf created (replicas 1)
//! ```
//!
//! [`examples/operator`](https://github.com/kubeproof/kubeproof/tree/main/conformance/examples/operator) has this
//! operator and all of its tests: goldens, an exploration of possible faults, and a property.
//!
//! | | |
//! | --- | --- |
//! | [`Testbed`] | a cluster for one test: objects, time, timeline, outcome |
//! | [`testbed::Snapshot`] | the state of a testbed, from which many tests start |
//! | [`explore::testbed`] | repeats a test for each possible fault: crashes, conflicts, lost responses, broken watches |
//! | [`explore::replay`] | repeats one of these runs, as a regression test |
//! | [`properties`] | invariants that are checked at every revision, in CEL or in Rust |
#![cfg_attr(
    feature = "scenarios",
    doc = "| [`scenarios!`] | scenario files as tests of a crate |"
)]
//! | [`ApiServer`] | the server alone, in process or on a socket |
//! | [`controller`] | the controllers and the simulated nodes, which run against any API server |
//!
//! # Features
//!
//! All of them are optional; a test of a controller needs no feature.
//!
//! - `openapi`: the OpenAPI documents of the server
//! - `scenarios`: the macro `scenarios!`
//! - `cli`: the program `kubeproof`
//!
//! # Code map
//!
//! The program and the tests of this package share the other modules, which may change at any time. From the bottom
//! up; each module names only modules above it in this list:
//!
//! - `causes`, `user_agent`, `time`: errors on one line, names of clients, durations
//! - `credentials`, `in_process`, `quota_usage`, `type_checking`, `device_selection`, `nodes`: the server's services
//!   to controllers and nodes
//! - `wire`, `api`, `table`, `generated`: connections of clients, any resource as JSON, tables, generated names
//! - `refusals`, `timeline`, `outcome`: refused writes, the journal as text, the final state as text
//! - [`properties`], `kruise`: invariants; webhooks and definitions of OpenKruise
//! - `scenario`, `fault_plan`, `log`, `quiescence`: scenario files, faults of a run, logs, waits until a cluster has settled
//! - `recording`: what a control plane did in a scenario, object by object
//! - [`testbed`], `first_scenario`, `runner`: a cluster for one test; scenarios made from a schema; a scenario on a testbed or
//!   on an existing cluster
//! - `replay`, [`explore`], `shrink`, `suite`: logs run again, runs with faults, minimal reproducers, comparisons with goldens
//! - `report`, `rbac`, `upgrade`, `exchange`, `cli`: pages, roles for requests, changes of version, recorded exchanges, the program

pub mod explore;
pub mod properties;
pub mod testbed;

#[doc(hidden)]
pub mod api;
mod causes;
#[doc(hidden)]
pub mod credentials;
#[doc(hidden)]
pub mod device_selection;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod exchange;
mod fault_plan;
#[doc(hidden)]
pub mod first_scenario;
mod fold;
mod generated;
mod heartbeat;
#[doc(hidden)]
pub mod in_process;
#[doc(hidden)]
pub mod incident;
#[doc(hidden)]
pub mod kruise;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod nodes;
#[doc(hidden)]
pub mod outcome;
mod quiescence;
#[doc(hidden)]
pub mod quota_usage;
#[doc(hidden)]
pub mod rbac;
#[doc(hidden)]
pub mod recording;
#[doc(hidden)]
pub mod refusals;
#[doc(hidden)]
pub mod replay;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod runner;
#[doc(hidden)]
pub mod scenario;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod served;
#[doc(hidden)]
pub mod shrink;
#[doc(hidden)]
pub mod suite;
#[doc(hidden)]
pub mod table;
#[doc(hidden)]
pub mod threads;
mod time;
#[doc(hidden)]
pub mod timeline;
#[doc(hidden)]
pub mod type_checking;
#[doc(hidden)]
pub mod upgrade;
mod user_agent;
#[doc(hidden)]
pub mod wire;

pub use kubeproof_apiserver::{
    self as apiserver, ApiServer, Clock, FieldValidation, LivelockLimits, Manifests, json,
};
pub use kubeproof_controller as controller;
pub use kubeproof_node as node;
#[cfg(feature = "scenarios")]
pub use suite::Scenarios;
pub use testbed::Testbed;

/// The types that a test of a controller needs.
pub mod prelude {
    pub use kubeproof_apiserver::fault::{Effect, Fault, Refusal, Requests};
    pub use kubeproof_apiserver::{ApiServer, Clock, FieldValidation, Manifests};

    pub use crate::explore::{self, Kind, Plan};
    pub use crate::properties::{Declaration, Violation};
    pub use crate::testbed::{Snapshot, Testbed, TestbedBuilder, TestbedError};
}
