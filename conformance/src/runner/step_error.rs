//! Errors of steps, and of the clusters that take them.

use kube::core::Status;

use super::remote_cluster::RemoteError;
use crate::api::ApiError;
use crate::testbed::TestbedError;

/// A cluster that does not settle or show its writes.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The error of a testbed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The error of an existing cluster.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl ClusterError {
    /// Whether a loop of requests keeps it from settling.
    pub(super) fn is_livelock(&self) -> bool {
        matches!(self, Self::Testbed(error) if error.is_livelock())
    }
}

/// A step that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// One of several objects is refused.
    #[error("{object}: {source}")]
    Object {
        /// The object, and the file it is in.
        object: String,
        /// Why.
        source: Box<ApiError>,
    },
    /// The testbed refuses a fault.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The cluster did not settle.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Only a simulated cluster can take the step.
    #[error("the step needs a simulated cluster")]
    NotSimulated,
    /// A refusal was expected.
    #[error("expected {0}, but the server accepted the request")]
    Accepted(u16),
    /// Another refusal was expected.
    #[error("expected {expected}, but got {got}")]
    OtherRefusal {
        /// The refusal that the scenario expects.
        expected: String,
        /// The answer of the server.
        got: String,
    },
    /// The harness does not support the command.
    #[error("{0}")]
    Command(String),
    /// No fault of that name is in force.
    #[error("no active fault is named {0:?}")]
    NoFault(String),
    /// The value of a metric cannot be put.
    #[error(transparent)]
    Metric(#[from] kubeproof_apiserver::MetricError),
    /// No simulated node has that name.
    #[error(transparent)]
    UnknownNode(#[from] kubeproof_node::UnknownNode),
    /// The object did not get as described.
    #[error("timed out after {0}")]
    Timeout(crate::scenario::HumanDuration),
    /// The object did not get as waited for.
    #[error("timed out after {within}: {found}")]
    NotMet {
        /// The time waited.
        within: crate::scenario::HumanDuration,
        /// The state at the end of the wait.
        found: String,
    },
}

impl StepError {
    /// Whether a loop of requests kept the cluster from settling.
    pub(super) fn is_livelock(&self) -> bool {
        match self {
            Self::Testbed(error) => error.is_livelock(),
            Self::Cluster(error) => error.is_livelock(),
            _ => false,
        }
    }

    /// The server's refusal, if it is one.
    pub(super) fn refusal(&self) -> Option<&Status> {
        let error = match self {
            Self::Api(error) => error,
            Self::Object { source, .. } => source,
            _ => return None,
        };
        match error {
            ApiError::Refused(status) => Some(status),
            _ => None,
        }
    }
}
