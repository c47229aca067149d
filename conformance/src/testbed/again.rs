//! Controllers that start again when everything has settled.

use std::time::Duration;

use kubeproof_apiserver::meta::ResourceVersion;

use super::{Testbed, TestbedError};
use crate::properties::Violation;
use crate::properties::general::second_writes;

impl Testbed {
    /// Restarts all controllers, as after a crash, and waits until everything has settled again, as
    /// [`settle`](Self::settle) does. They are to find nothing to write:
    /// [`SecondReconcile`](crate::properties::general::SecondReconcile). Call it after `settle`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kubeproof::Testbed;
    ///
    /// # let mut runtime = tokio::runtime::Builder::new_current_thread();
    /// # let runtime = runtime.enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// # const REPLICA_SET: &str = "
    /// # apiVersion: apps/v1
    /// # kind: ReplicaSet
    /// # metadata: {name: web}
    /// # spec:
    /// #   replicas: 1
    /// #   selector: {matchLabels: {app: web}}
    /// #   template:
    /// #     metadata: {labels: {app: web}}
    /// #     spec: {containers: [{name: web, image: 'nginx:1.25'}]}
    /// # ";
    /// let testbed = Testbed::builder().nodes(1).controllers(["replicaset"]).start().await?;
    /// testbed.apply(REPLICA_SET).await?;
    /// testbed.settle(Duration::from_secs(60)).await?;
    /// testbed.reconcile_again(Duration::from_secs(60)).await?;
    /// # testbed.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Cancel safety: the controllers have been restarted, and the time that has passed stays passed.
    ///
    /// # Errors
    /// The errors of [`settle_within`](Self::settle_within); [`TestbedError::Violated`] with the objects that were
    /// written.
    pub async fn reconcile_again(&self, quiet: Duration) -> Result<(), TestbedError> {
        let after_rv = self.resource_version();
        self.again.lock().push((after_rv, ResourceVersion::MAX));
        self.cluster().crashes.restart();
        let settled = self.settle(quiet).await;
        if let Some((_, last_rv)) = self.again.lock().last_mut() {
            *last_rv = self.resource_version();
        }
        settled.map(drop)
    }

    /// The writes of restarted controllers that had nothing to write.
    pub(crate) fn second_writes(&self) -> Vec<Violation> {
        let again = self.again.lock().clone();
        if again.is_empty() {
            return Vec::new();
        }
        let journal = self.journal();
        let found = again.into_iter();
        found
            .flat_map(|versions| second_writes(&journal, versions))
            .collect()
    }

    /// The versions at which nothing had been written for at least `quiet`.
    pub(crate) fn settled(&self, quiet: Duration) -> Vec<ResourceVersion> {
        let settled = self.settled.lock();
        let settled = settled.iter().filter(|(_, own)| *own >= quiet);
        settled.map(|(rv, _)| *rv).collect()
    }
}
