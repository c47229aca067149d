//! Runs Kubernetes controllers end to end against an in-memory API server under virtual time, and
//! compares what happened with golden transcripts.
//!
//! - [`scenario`]: the files that say what is given and done
//! - [`testbed`]: server, simulated nodes and controllers in one process
//! - [`in_process`]: clients of a server in this process
//! - [`nodes`]: what makes the server ask the simulated nodes for logs and streams
//! - [`runner`]: a scenario to its transcript
//! - [`refusals`]: what the server refused controllers
//! - [`timeline`] and [`outcome`]: the two parts of a transcript
//! - [`suite`]: scenario files and their goldens; [`scenarios!`] makes them tests of any crate
//! - [`kruise`]: the webhooks of OpenKruise's kinds, and their definitions
//! - [`properties`]: what holds at every revision, whatever a golden says
//! - [`explore`]: scenarios with something going wrong at every point
//! - [`log`]: what a replay of a run needs, and what happened in it
//! - [`exchange`]: recorded exchanges with a real API server, and their replay
//! - [`credentials`]: what the server signs for controllers
//! - [`quota_usage`]: the server's counting of quotas, for the controller of their statuses
//! - [`type_checking`]: the server's checker of admission policies, for the controller of their statuses
//! - [`wire`]: the way between clients and server, and what passed on it
//! - [`api`], [`table`]: what steps use of the API, and how kubectl prints its tables

pub mod api;
pub mod credentials;
pub mod exchange;
pub mod explore;
mod generated;
pub mod in_process;
pub mod kruise;
pub mod log;
pub mod nodes;
pub mod outcome;
pub mod properties;
pub mod quota_usage;
pub mod refusals;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod suite;
pub mod table;
pub mod testbed;
pub mod timeline;
pub mod type_checking;
pub mod wire;

pub use kubeproof_apiserver::{self as apiserver, ApiServer, Clock, LivelockLimits, Manifests};
pub use kubeproof_controller as controller;

/// What a test of a controller needs.
pub mod prelude {
    pub use kubeproof_apiserver::fault::{Effect, Fault, Refusal, Requests};
    pub use kubeproof_apiserver::{ApiServer, Clock, Manifests};

    pub use crate::explore::{self, Kind, Plan};
    pub use crate::properties::{Declaration, Violation};
    pub use crate::testbed::{Snapshot, Testbed, TestbedBuilder, TestbedError};
}
