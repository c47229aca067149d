//! The state of a testbed at one moment, from which others begin.

use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, Clock, JournalEntry};

use super::{Before, Testbed, TestbedError, TestbedOptions, check_runtime};
use crate::properties::DeclaredProperties;

/// The state of a testbed at one moment, which many tests start from.
///
/// A snapshot is bound to no runtime and may be shared between threads. It shares its objects with all testbeds that
/// start from it, so the cost of taking and starting it does not depend on the number of objects.
///
/// ```
/// use std::time::Duration;
///
/// use kubeproof::Testbed;
///
/// # let mut runtime = tokio::runtime::Builder::new_current_thread();
/// # let runtime = runtime.enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let testbed = Testbed::builder().start().await?;
/// testbed.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await?;
/// testbed.settle(Duration::from_secs(60)).await?;
/// let snapshot = testbed.snapshot()?;
///
/// let (one, other) = (snapshot.start().await?, snapshot.start().await?);
/// one.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}").await?;
/// assert!(one.timeline().contains("configmap a created"));
/// assert!(one.timeline().contains("configmap b created"));
/// assert!(!other.timeline().contains("configmap b created"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    server: ApiServer,
    time: Timestamp,
    options: TestbedOptions,
    declared: DeclaredProperties,
    given: Vec<String>,
    past: Past,
    /// The version at which the first of the testbeds began that led here.
    started_rv: ResourceVersion,
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
    /// Captures the objects, the past events, the time and the journal. It does not capture requests under way, faults,
    /// or the memory of controllers and kubelets, so call it after [`Testbed::settle`].
    ///
    /// # Errors
    /// [`TestbedError::NoSnapshot`] when a controller under test is one.
    pub fn snapshot(&self) -> Result<Snapshot, TestbedError> {
        let cluster = self.cluster();
        if cluster.programs.is_some() {
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
            given: self.given.clone(),
            past: Past(Arc::new(self.journal())),
            started_rv: self.started_rv,
        })
    }
}

impl Snapshot {
    /// Starts a testbed with the captured state. Nodes and controllers are started anew; virtual time continues from
    /// the moment of the snapshot. Changes are invisible to other testbeds. The journal and the timeline begin with
    /// the writes that led to the snapshot.
    ///
    /// # Errors
    /// [`TestbedError::NoRuntime`] outside of a tokio runtime, and [`TestbedError::Start`] when a controller does not
    /// start.
    pub async fn start(&self) -> Result<Testbed, TestbedError> {
        check_runtime()?;
        let clock = Clock::simulated(self.time);
        let server = self.server.fork_under(clock.clone());
        let declared = self.declared.clone();
        let before = Before {
            declared,
            given: self.given.clone(),
            past: self.past.clone(),
            reserved: None,
        };
        let mut testbed = Testbed::begin(server, clock, self.options.clone(), before).await?;
        testbed.started_rv = self.started_rv;
        Ok(testbed)
    }
}

#[cfg(test)]
mod tests;
