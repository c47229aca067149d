//! Auditing: a record of requests and their responses, as `audit.k8s.io/v1`.
//!
//! A [`Policy`] decides how much of a request is recorded, an [`Event`] is the record at a [`Stage`] of it, and
//! each [`Sink`] takes the events. [`Log`] is the sink that writes a file, and [`Options`] are the settings of
//! kube-apiserver's flags.
//!
//! Source: `k8s.io/apiserver/pkg/audit`.

mod document;
mod event;
mod file;
mod log;
mod options;
mod policy;
mod record;
mod rules;

use std::fmt;
use std::sync::Arc;

pub(crate) use document::Shown;
pub use event::{Event, Level, ObjectReference, ResponseStatus, Stage, UserInfo};
pub use log::{Format, Log, LogOptions, Mode, Truncation};
pub use options::{Options, OptionsError};
pub use policy::{GroupResources, Policy, PolicyError, Rule};
pub(crate) use record::{Facts, Record};
pub(crate) use rules::{RequestAttributes, ResourceAttributes};

/// The reason why a sink could not take an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);

/// A receiver of audit events. A closure on `&Event` is one that never fails.
pub trait Sink: Send + Sync {
    /// Takes an event. Requests wait for it.
    ///
    /// # Errors
    /// The reason why the event is lost. At [`Stage::RequestReceived`] the request is then refused with a 500; a sink
    /// whose losses are no concern of clients reports them elsewhere.
    fn take(&self, event: &Event) -> Result<(), SinkError>;
}

impl<F: Fn(&Event) + Send + Sync> Sink for F {
    fn take(&self, event: &Event) -> Result<(), SinkError> {
        self(event);
        Ok(())
    }
}

/// The policy of a server, and the sinks of its events.
#[derive(Clone)]
#[must_use]
pub struct Audit {
    policy: Arc<Policy>,
    sinks: Vec<Arc<dyn Sink>>,
}

impl Audit {
    /// Auditing by `policy`, without a sink.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: Arc::new(policy),
            sinks: Vec::new(),
        }
    }

    /// Adds a sink. Each sink takes every event, in the order in which sinks were added.
    pub fn sink(self, sink: impl Sink + 'static) -> Self {
        self.shared_sink(Arc::new(sink))
    }

    /// Adds a sink that others use, too.
    pub fn shared_sink(mut self, sink: Arc<dyn Sink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Hands an event to every sink; answers whether all have taken it.
    fn send(&self, event: &Event) -> bool {
        let mut all = true;
        for sink in &self.sinks {
            if let Err(error) = sink.take(event) {
                tracing::error!(%error, audit_id = event.audit_id, "audit event lost");
                all = false;
            }
        }
        all
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit")
            .field("rules", &self.policy.rules.len())
            .field("sinks", &self.sinks.len())
            .finish()
    }
}
