//! When a cluster has come to rest.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubeproof_apiserver::JournalEntry;
use serde_json::Value;

use super::{Cluster, Testbed, TestbedError, remote};
use crate::api::ApiError;
use crate::scenario::HumanDuration;

/// Without a write for so long, everything has come to rest.
pub const QUIET: Duration = Duration::from_secs(600);
/// What has not come to rest after so long never will.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

impl Testbed {
    /// Lets time pass until nothing but leases was written for `quiet`.
    ///
    /// Returns the time of the last write. The server's journal decides, so that the outcome does
    /// not depend on how the tasks are scheduled.
    ///
    /// # Errors
    /// [`TestbedError::Restless`] when that never happens.
    pub async fn settle(&self, quiet: Duration) -> Result<Timestamp, TestbedError> {
        let (quiet, longest) = match &self.cluster {
            Cluster::Simulated(cluster) => match &cluster.outside {
                None => (quiet, SETTLE_TIME_MAX),
                Some(running) => (quiet.min(running.quiet), remote::SETTLE_TIME_MAX),
            },
            Cluster::Remote(cluster) => (quiet.min(cluster.quiet), remote::SETTLE_TIME_MAX),
        };
        let began = self.now();
        let mut last = began;
        loop {
            let rest_at = later(last, quiet);
            let remaining = rest_at.duration_since(self.now());
            if remaining <= SignedDuration::ZERO {
                return Ok(last);
            }
            tokio::time::sleep(remaining.unsigned_abs()).await;
            if let Cluster::Simulated(cluster) = &self.cluster
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
                    resource: newest.gvr.resource.clone(),
                    name: newest.object["metadata"]["name"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                });
            }
        }
    }

    /// Waits until the journal has all that the server has answered so far.
    ///
    /// # Errors
    /// [`TestbedError`] when the watches of a remote cluster do not show it.
    pub async fn caught_up(&self) -> Result<(), TestbedError> {
        let Cluster::Remote(cluster) = &self.cluster else {
            return Ok(());
        };
        let caught_up = cluster.caught_up().await.map_err(ApiError::from)?;
        caught_up.then_some(()).ok_or(TestbedError::Behind)
    }
}

/// The time `by` after `time`, or the last one there is.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Whether the write only says that a node is there, which goes on for ever: it renews a lease, or the
/// times of a node's conditions.
fn is_heartbeat(entry: &JournalEntry) -> bool {
    if entry.gvr.resource != "nodes" {
        return entry.gvr.resource == "leases";
    }
    let previous = entry.previous.as_deref();
    previous
        .is_some_and(|previous| without_heartbeats(previous) == without_heartbeats(&entry.object))
}

/// What a node says but for when it said so.
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
