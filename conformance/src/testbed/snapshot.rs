//! The state of a testbed at one moment, from which others begin.

use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_apiserver::{ApiServer, Clock, JournalEntry};

use super::{Testbed, TestbedError, TestbedOptions, check_runtime};
use crate::properties::DeclaredProperties;

/// A simulated cluster at one moment: set up once, tested many times.
///
/// A snapshot is bound to no runtime and may be shared between threads. It shares its objects with all testbeds that
/// begin from it, so that the cost of taking and starting it does not depend on their number.
#[derive(Clone)]
pub struct Snapshot {
    server: ApiServer,
    time: Timestamp,
    options: TestbedOptions,
    declared: DeclaredProperties,
    past: Past,
    /// The version at which the first of the testbeds began that led here.
    started_rv: u64,
}

/// The writes that led to where a testbed began.
#[derive(Clone, Debug, Default)]
pub(super) struct Past(Arc<Vec<JournalEntry>>);

impl Past {
    /// These writes, and then those.
    pub(super) fn followed_by(&self, later: Vec<JournalEntry>) -> Vec<JournalEntry> {
        if self.0.is_empty() {
            return later;
        }
        let mut all = Vec::clone(&self.0);
        all.extend(later);
        all
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Snapshot");
        let shown = shown.field("time", &self.time);
        shown
            .field("writes", &self.past.0.len())
            .finish_non_exhaustive()
    }
}

impl Testbed {
    /// Returns the present state of the cluster: objects, past events, the time, the journal. It does not include
    /// requests under way, faults, or the memory of controllers and kubelets: take it when everything has settled
    /// ([`Testbed::settle`]).
    ///
    /// # Errors
    /// [`TestbedError::NoSnapshot`] when a controller under test is one.
    pub fn snapshot(&self) -> Result<Snapshot, TestbedError> {
        let cluster = self.cluster();
        if cluster.program.is_some() {
            return Err(TestbedError::NoSnapshot);
        }
        Ok(Snapshot {
            server: cluster.server.fork(),
            time: self.now(),
            options: TestbedOptions {
                shown: self.shown.clone(),
                namespace: self.api.namespace().to_owned(),
                ..cluster.options.clone()
            },
            declared: self.declared.clone(),
            past: Past(Arc::new(self.journal())),
            started_rv: self.started_rv,
        })
    }
}

impl Snapshot {
    /// Starts a testbed from the snapshot: the same nodes and controllers, restarted, and virtual time that continues
    /// from that moment. Changes in it are invisible to other testbeds. Its journal and its timeline begin with the
    /// writes that led to the snapshot.
    ///
    /// # Errors
    /// [`TestbedError`] when a controller does not start or discovery fails, and outside of a tokio
    /// runtime.
    pub async fn start(&self) -> Result<Testbed, TestbedError> {
        check_runtime()?;
        let clock = Clock::simulated(self.time);
        let server = self.server.fork_under(clock.clone());
        let declared = self.declared.clone();
        let before = (declared, self.past.clone());
        let mut testbed = Testbed::begin(server, clock, self.options.clone(), before).await?;
        testbed.started_rv = self.started_rv;
        Ok(testbed)
    }
}

#[cfg(test)]
mod tests;
