//! Errors that keep a testbed from starting, settling or answering.

use std::fmt;
use std::time::Duration;

use kubeproof_apiserver::{LoadError, ManifestError, NotServed};
use kubeproof_controller::Ended;

use super::failures::list;
use crate::api::ApiError;
use crate::causes::write_with_causes;
use crate::properties::Violation;
use crate::quiescence::NotSettled;
use crate::time::HumanDuration;

/// An error of a [`Testbed`](super::Testbed). As [`fmt::Debug`], which `unwrap` prints, it is the message with its
/// causes.
#[derive(thiserror::Error)]
pub enum TestbedError {
    /// A built-in controller cannot be started, for example because its name is unknown.
    #[error("cannot start the controllers: {0}")]
    Start(#[source] kubeproof_controller::Error),
    /// The server refuses a manifest of the builder.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The socket or the files of an external program cannot be created.
    #[error("cannot run the external program: {0}")]
    ExternalProgram(#[source] std::io::Error),
    /// The service account of the external programs cannot be used.
    #[error("service account {account}: {source}")]
    Account {
        /// `NAMESPACE/NAME`
        account: String,
        /// The response of the server.
        source: Box<kube::Error>,
    },
    /// An external program has exited, or sends no request.
    #[error("{0}")]
    Ended(String),
    /// Tokio's time is not paused. Virtual time passes only under paused time.
    #[error(
        "tokio's time is not paused: write #[tokio::test(start_paused = true)], or ask for real time with TestbedBuilder::real_time"
    )]
    NotPaused,
    /// The call is outside of a tokio runtime.
    #[error(
        "there is no tokio runtime: call this from an async function under #[tokio::test(start_paused = true)]"
    )]
    NoRuntime,
    /// No request that the server serves can match the fault.
    #[error("the fault matches no request: {0}")]
    Fault(#[source] NotServed),
    /// A controller has panicked, or returned without permission.
    #[error("{0}; TestbedBuilder::may_end allows a controller to return")]
    ControllerEnded(Ended),
    /// [`TestbedBuilder::may_end`](super::TestbedBuilder::may_end) names a controller that does not exist.
    #[error("no controller under test is named {name}; there are: {}", .known.join(", "))]
    UnknownController {
        /// The user agent given.
        name: String,
        /// The user agents of the controllers under test.
        known: Vec<&'static str>,
    },
    /// [`TestbedBuilder::allow`](super::TestbedBuilder::allow) names a rule that does not exist.
    #[error("there is no rule {name:?}; the rules are: {}", .known.join(", "))]
    UnknownRule {
        /// The name given.
        name: String,
        /// The names of the rules.
        known: Vec<String>,
    },
    /// A controller sends too many requests within one instant of virtual time. The text names the controller, its
    /// requests, and the last versions of the object that it writes.
    #[error("{0}")]
    Livelock(String),
    /// A controller keeps the runtime busy without sending requests, so that virtual time cannot pass.
    #[error(
        "a controller keeps the runtime busy without sending requests: virtual time has stood still for {waited}; the controllers under test are {}",
        .under_test.join(", ")
    )]
    Spinning {
        /// For how long, in real time.
        waited: HumanDuration,
        /// The user agents of the controllers under test.
        under_test: Vec<&'static str>,
    },
    /// A program computes without waiting and without sending requests, so that virtual time cannot pass.
    #[error(
        "a program computes without waiting and without sending requests: virtual time has stood still for {waited}"
    )]
    Computing {
        /// For how long, in real time.
        waited: HumanDuration,
    },
    /// Properties are violated: the violations that were not reported before, in the order of their writes.
    #[error("{}", list(.0))]
    Violated(Vec<Violation>),
    /// A request of the testbed itself fails, such as discovery or a table of the outcome.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// A property in CEL does not compile; the text has the errors.
    #[error("{0}")]
    Property(String),
    /// A text or file cannot be read as objects.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// [`Testbed::apply`](super::Testbed::apply) was given no object.
    #[error("there is nothing to apply: no document, or only empty ones and comments")]
    NothingToApply,
    /// The server refuses an object that the test applies.
    #[error("cannot apply {object}: {source}")]
    Apply {
        /// The object as `FILE: API-VERSION KIND NAME`.
        object: String,
        /// The response of the server.
        source: Box<ApiError>,
    },
    /// A document has fields twice.
    #[error("cannot apply {object}: strict decoding error: {duplicates}")]
    DuplicateFields {
        /// The object as `FILE: API-VERSION KIND NAME`.
        object: String,
        /// `line 7: key "replicas" already set in map`.
        duplicates: String,
    },
    /// The memory of an external program cannot be captured.
    #[error("a testbed with an external program has no snapshot")]
    NoSnapshot,
    /// The cluster does not settle: writes continue.
    #[error(transparent)]
    NotSettled(#[from] NotSettled),
    /// Programs under test still work after the longest wait.
    #[error(
        "the programs have not settled: they still work after {waited}, of which they waited {starved} for a processor"
    )]
    Unsettled {
        /// The real time of the wait.
        waited: HumanDuration,
        /// The part of it in which the programs would have run if they had had a processor.
        starved: HumanDuration,
    },
}

impl TestbedError {
    /// Whether a client sends too many requests within one instant.
    pub(crate) fn is_livelock(&self) -> bool {
        matches!(self, Self::Livelock(_))
    }

    /// [`Self::Unsettled`] in whole seconds.
    pub(super) fn unsettled(waited: Duration, starved: Duration) -> Self {
        let whole = |time: Duration| HumanDuration(Duration::from_secs(time.as_secs()));
        Self::Unsettled {
            waited: whole(waited),
            starved: whole(starved),
        }
    }
}

impl fmt::Debug for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(self, f)
    }
}
