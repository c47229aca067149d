//! Servers that begin where another one is, or was.

use std::sync::Arc;

use parking_lot::Mutex;

use super::flow_control::FlowControl;
use super::offload::Offload;
use super::panics::Panics;
use super::{ApiServer, Core};
use crate::apiextensions;
use crate::clock::Clock;
use crate::endpoints::health::Checked;
#[cfg(feature = "openapi")]
use crate::endpoints::openapi::OpenApi;
use crate::meta::ResourceVersion;
use crate::nesting;
use crate::storage::{JournalEntry, WindowError};

/// The reason why a past state cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// Events since then are forgotten.
    #[error("resourceVersion {resource_version} is no longer available: the oldest is {oldest}")]
    Forgotten {
        /// The requested resourceVersion.
        resource_version: ResourceVersion,
        /// The oldest resourceVersion that can be opened.
        oldest: ResourceVersion,
    },
    /// The resourceVersion has not been assigned yet.
    #[error("resourceVersion {resource_version} does not exist yet: the latest is {latest}")]
    Future {
        /// The requested resourceVersion.
        resource_version: ResourceVersion,
        /// The latest resourceVersion.
        latest: ResourceVersion,
    },
}

impl ApiServer {
    /// A separate server that begins with the objects, past events and tokens of this one. Later
    /// writes to either are invisible to the other.
    ///
    /// Objects are shared, so it takes the same short time however many there are. It has the same
    /// clock until one of them is set, draws the names that this one would draw next, asks the same
    /// webhooks, is not audited, and has no faults, no kubelet and an empty journal.
    #[must_use]
    pub fn fork(&self) -> Self {
        let clock = self.core.clock.forked();
        self.forked(None, clock).expect("the present is there")
    }

    /// A fork with its own clock: simulated time belongs to one runtime, and a fork may live in
    /// another.
    #[must_use]
    pub fn fork_under(&self, clock: Clock) -> Self {
        self.forked(None, clock).expect("the present is there")
    }

    /// A fork of the past state at a resourceVersion. State outside storage is as it is now: tokens, names to be drawn.
    ///
    /// # Errors
    /// [`ForkError`] when the resourceVersion is forgotten, or has not been assigned yet.
    pub fn fork_at(&self, resource_version: ResourceVersion) -> Result<Self, ForkError> {
        let forked = self.forked(Some(resource_version), self.core.clock.forked());
        forked.map_err(|error| match error {
            WindowError::Expired { compacted } => ForkError::Forgotten {
                resource_version,
                oldest: compacted,
            },
            WindowError::Future { current } => ForkError::Future {
                resource_version,
                latest: current,
            },
        })
    }

    /// Replays the writes of another server in a fresh one, which remembers them as its own.
    ///
    /// `entries` are in order of their versions; they are not validated or admitted again.
    pub fn restore(&self, entries: &[JournalEntry]) {
        let core = &self.core;
        nesting::where_stored(|| {
            core.storage.restore(entries);
            core.entropy
                .set_apart(core.storage.resource_version().get());
            apiextensions::after_fork(&self.core);
        });
    }

    fn forked(&self, at: Option<ResourceVersion>, clock: Clock) -> Result<Self, WindowError> {
        let core = &self.core;
        let storage = core.storage.fork(at)?;
        let forked = Self::cyclic(|weak| {
            let services = core.services.clone();
            let services = services.with_local(core.local_webhooks.called_by(weak));
            let auth = core
                .auth
                .forked(core.cluster.forked(storage, clock, services));
            let store = core.store.forked(core.admission.forked(auth));
            Core {
                state: core.state.forked(store),
                #[cfg(feature = "openapi")]
                openapi: OpenApi::default(),
                authority: Arc::clone(&core.authority),
                external_url: core.external_url.clone(),
                components: Arc::new(Mutex::new(core.components.lock().clone())),
                checked: Checked::default(),
                started: core.started,
                local_webhooks: core.local_webhooks.clone(),
                panics: Panics::default(),
                livelocks: core.livelocks.forked(),
                flow_control: FlowControl::default(),
                offload: Offload::new(),
                audit: None,
            }
        });
        nesting::where_stored(|| apiextensions::after_fork(&forked.core));
        Ok(forked)
    }
}
