//! The clusters that take the steps of scenarios.

use std::time::Duration;

use jiff::Timestamp;
use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::fault::Fault;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_node as node;

use super::remote_cluster::RemoteCluster;
use super::step_error::{ClusterError, StepError};
use crate::api::Api;
use crate::refusals::Refusal;
use crate::testbed::Testbed;
use crate::timeline::SyncBegan;

/// A cluster that takes the steps of a scenario.
#[derive(Clone, Copy)]
pub(super) enum Cluster<'a> {
    /// A testbed in this process.
    Testbed(&'a Testbed),
    /// A cluster that exists already.
    Remote(&'a RemoteCluster),
}

impl<'a> Cluster<'a> {
    /// The testbed, for steps that only a simulated cluster can take.
    ///
    /// # Errors
    /// [`StepError::NotSimulated`]
    pub(super) fn testbed(self) -> Result<&'a Testbed, StepError> {
        match self {
            Self::Testbed(testbed) => Ok(testbed),
            Self::Remote(_) => Err(StepError::NotSimulated),
        }
    }

    /// Makes simulated nodes fail.
    ///
    /// # Errors
    /// [`StepError::NotSimulated`] when the run has no such nodes.
    pub(super) fn node_faults(self) -> Result<&'a node::Faults, StepError> {
        match self {
            Self::Testbed(testbed) => Ok(testbed.faults()),
            Self::Remote(cluster) => {
                let nodes = cluster.nodes().map(|nodes| &nodes.faults);
                nodes.ok_or(StepError::NotSimulated)
            }
        }
    }

    /// Returns the containers of simulated nodes.
    ///
    /// # Errors
    /// [`StepError::NotSimulated`] when the run has no such nodes.
    pub(super) fn containers(self) -> Result<&'a node::Containers, StepError> {
        match self {
            Self::Testbed(testbed) => Ok(testbed.containers()),
            Self::Remote(cluster) => {
                let nodes = cluster.nodes().map(|nodes| &nodes.containers);
                nodes.ok_or(StepError::NotSimulated)
            }
        }
    }

    /// Starts the programs under test, if there are any.
    pub(super) async fn start_programs(self) -> Result<(), ClusterError> {
        match self {
            Self::Testbed(testbed) => Ok(testbed.start_programs().await?),
            Self::Remote(_) => Ok(()),
        }
    }

    pub(super) fn api(self) -> &'a Api {
        match self {
            Self::Testbed(testbed) => testbed.api(),
            Self::Remote(cluster) => cluster.api(),
        }
    }

    pub(super) fn client(self) -> kube::Client {
        match self {
            Self::Testbed(testbed) => testbed.client(),
            Self::Remote(cluster) => cluster.client(),
        }
    }

    pub(super) fn now(self) -> Timestamp {
        match self {
            Self::Testbed(testbed) => testbed.now(),
            Self::Remote(cluster) => cluster.now(),
        }
    }

    /// The version of the last write.
    pub(super) fn resource_version(self) -> ResourceVersion {
        match self {
            Self::Testbed(testbed) => testbed.resource_version(),
            Self::Remote(cluster) => ResourceVersion::new(*cluster.subscribe().borrow()),
        }
    }

    /// Returns every write so far, in revision order; of an existing cluster, the writes that its watches show.
    pub(super) fn journal(self) -> Vec<JournalEntry> {
        match self {
            Self::Testbed(testbed) => testbed.journal(),
            Self::Remote(cluster) => cluster.journal(),
        }
    }

    /// Returns the refused writes of controllers so far; an existing cluster does not show them.
    pub(super) fn refusals(self) -> Vec<Refusal> {
        match self {
            Self::Testbed(testbed) => testbed.refusals(),
            Self::Remote(_) => Vec::new(),
        }
    }

    /// Returns the syncs of controllers so far; an existing cluster does not show them.
    pub(super) fn syncs(self) -> Vec<SyncBegan> {
        match self {
            Self::Testbed(testbed) => testbed.syncs(),
            Self::Remote(_) => Vec::new(),
        }
    }

    /// Returns every fault so far, with the number of requests that it has met.
    pub(super) fn faults_met(self) -> Vec<(Fault, u32)> {
        match self {
            Self::Testbed(testbed) => testbed.faults_met(),
            Self::Remote(_) => Vec::new(),
        }
    }

    /// Woken by each write.
    pub(super) fn subscribe(self) -> tokio::sync::watch::Receiver<u64> {
        match self {
            Self::Testbed(testbed) => testbed.subscribe(),
            Self::Remote(cluster) => cluster.subscribe(),
        }
    }

    /// Waits until the journal has all that the server has answered so far.
    pub(super) async fn caught_up(self) -> Result<(), ClusterError> {
        match self {
            Self::Testbed(_) => Ok(()),
            Self::Remote(cluster) => Ok(cluster.caught_up().await?),
        }
    }

    /// Notes that the step with this index begins.
    pub(super) fn begin_step(self, index: usize) {
        if let Self::Remote(cluster) = self {
            cluster.begin_step(index);
        }
    }

    /// Waits until nothing was written for `quiet`; returns the time of the last write.
    pub(super) async fn settle(self, quiet: Duration) -> Result<Timestamp, ClusterError> {
        match self {
            Self::Testbed(testbed) => Ok(testbed.settle(quiet).await?),
            Self::Remote(cluster) => Ok(cluster.settle(quiet).await?),
        }
    }
}
