//! A cluster that exists already, and what a run knows about it.

use std::time::Duration;

use kubeproof_node as node;

/// An existing cluster, and what a run knows about it.
#[derive(Clone)]
pub struct Target {
    /// The client of the scenario's steps.
    pub client: kube::Client,
    /// The simulated nodes that the run has joined to the cluster.
    pub nodes: Option<OwnNodes>,
    /// The cluster counts as settled after this long without a change.
    pub quiet: Duration,
}

/// Handles of simulated nodes that a run has joined to a cluster.
#[derive(Clone, Debug)]
pub struct OwnNodes {
    /// Makes them fail.
    pub faults: node::Faults,
    /// What runs on them.
    pub containers: node::Containers,
}
