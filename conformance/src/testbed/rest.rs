//! Waits for a cluster to settle.

use std::pin::pin;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubeproof_apiserver::JournalEntry;
use serde_json::Value;

use super::time::{Pulse, check_runtime};
use super::{Cluster, Testbed, TestbedError, remote};
use crate::api::ApiError;
use crate::time::HumanDuration;

/// Everything counts as settled after this long without a write.
#[doc(hidden)]
pub const QUIET: Duration = Duration::from_secs(600);
/// A cluster that has not settled after this long is given up.
pub(crate) const SETTLE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// A task that keeps the runtime busy is reported after this real time without a request.
const SPINNING_TIME: Duration = Duration::from_secs(5);

impl Testbed {
    /// Lets time pass until nothing but leases was written for `quiet`; at most for 24 hours.
    ///
    /// Returns the time of the last write. The server's journal decides, so that the outcome does
    /// not depend on how the tasks are scheduled.
    ///
    /// # Errors
    /// The errors of [`Testbed::settle_within`].
    pub async fn settle(&self, quiet: Duration) -> Result<Timestamp, TestbedError> {
        let longest = match self.cluster() {
            Cluster::Simulated(cluster) if cluster.outside.is_none() => SETTLE_TIME_MAX,
            Cluster::Simulated(_) | Cluster::Remote(_) => remote::SETTLE_TIME_MAX,
        };
        self.settle_within(quiet, longest).await
    }

    /// Waits like [`Testbed::settle`], for at most `longest` of virtual time.
    ///
    /// # Errors
    /// - [`TestbedError::Restless`] when something is still written after that time,
    /// - [`TestbedError::Livelock`] when a controller keeps asking within one instant,
    /// - [`TestbedError::Spinning`] when one keeps the runtime busy and asks for nothing,
    /// - [`TestbedError::ControllerEnded`] when one has panicked or returned,
    /// - [`TestbedError::Violated`] when a property is violated, in a testbed of
    ///   [`Testbed::builder`].
    pub async fn settle_within(
        &self,
        quiet: Duration,
        longest: Duration,
    ) -> Result<Timestamp, TestbedError> {
        check_runtime()?;
        let last = self.come_to_rest(quiet, longest).await?;
        self.judge_rest();
        if self.simulated().is_ok_and(|own| own.options.judges) {
            self.judge()?;
        }
        Ok(last)
    }

    /// Lets time pass until nothing was written for `quiet`, and judges nothing.
    ///
    /// # Errors
    /// The errors of [`Testbed::settle_within`], except for violations.
    pub(crate) async fn come_to_rest(
        &self,
        quiet: Duration,
        longest: Duration,
    ) -> Result<Timestamp, TestbedError> {
        let quiet = match self.cluster() {
            Cluster::Simulated(cluster) => match &cluster.outside {
                None => quiet,
                Some(running) => quiet.min(running.quiet),
            },
            Cluster::Remote(cluster) => quiet.min(cluster.quiet),
        };
        let began = self.now();
        let mut last = began;
        loop {
            let rest_at = later(last, quiet);
            let remaining = rest_at.duration_since(self.now());
            self.check_controllers()?;
            if remaining <= SignedDuration::ZERO {
                return Ok(last);
            }
            self.pass(remaining.unsigned_abs()).await?;
            if let Cluster::Simulated(cluster) = self.cluster()
                && let Some(running) = &cluster.outside
            {
                running.runs()?;
            }
            let journal = self.journal();
            let newest = journal.iter().rev().find(|entry| !is_heartbeat(entry));
            let Some(newest) = newest.filter(|newest| newest.time > last) else {
                continue;
            };
            last = newest.time;
            if last > later(began, longest) {
                return Err(TestbedError::Restless {
                    after: HumanDuration(longest),
                    user_agent: newest.user_agent.to_string(),
                    object: named(newest),
                });
            }
        }
    }

    /// Lets `time` pass.
    ///
    /// # Errors
    /// [`TestbedError::Spinning`] when that never happens.
    async fn pass(&self, time: Duration) -> Result<(), TestbedError> {
        let Cluster::Simulated(cluster) = self.cluster() else {
            tokio::time::sleep(time).await;
            return Ok(());
        };
        if cluster.outside.is_some() || cluster.options.real_time {
            tokio::time::sleep(time).await;
            return Ok(());
        }
        let mut pulse = Pulse::start();
        let mut passed = pin!(tokio::time::sleep(time));
        let state = || (cluster.server.clock().now(), cluster.server.requests());
        let (mut seen, mut since) = (state(), Duration::ZERO);
        loop {
            let beat = tokio::select! {
                biased;
                () = &mut passed => return Ok(()),
                beat = pulse.beat() => beat,
            };
            let now = state();
            if now != seen {
                (seen, since) = (now, beat);
            } else if beat.saturating_sub(since) >= SPINNING_TIME {
                let subjects = cluster.options.subjects.iter();
                return Err(TestbedError::Spinning {
                    waited: HumanDuration(SPINNING_TIME),
                    subjects: subjects.map(|subject| subject.user_agent).collect(),
                });
            }
        }
    }

    /// Waits until the journal has all that the server has answered so far.
    ///
    /// # Errors
    /// [`TestbedError`] when the watches of a remote cluster do not show it.
    #[doc(hidden)]
    pub async fn caught_up(&self) -> Result<(), TestbedError> {
        let Cluster::Remote(cluster) = self.cluster() else {
            return Ok(());
        };
        let caught_up = cluster.caught_up().await.map_err(ApiError::from)?;
        caught_up.then_some(()).ok_or(TestbedError::Behind)
    }
}

fn named(entry: &JournalEntry) -> String {
    let name = entry.object["metadata"]["name"].as_str();
    format!("{} {}", entry.gvr.resource, name.unwrap_or_default())
}

/// The time `by` after `time`, or the last one there is.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Whether the write only shows that a node is alive, which never ends: it renews a lease, or the times of a node's
/// conditions.
fn is_heartbeat(entry: &JournalEntry) -> bool {
    if entry.gvr.resource != "nodes" {
        return entry.gvr.resource == "leases";
    }
    let previous = entry.previous.as_deref();
    previous
        .is_some_and(|previous| without_heartbeats(previous) == without_heartbeats(&entry.object))
}

/// Returns the node without the times of its heartbeats.
fn without_heartbeats(node: &Value) -> Value {
    let mut node = node.clone();
    if let Some(metadata) = node["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    let conditions = node["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        condition["lastHeartbeatTime"].take();
    }
    node
}
