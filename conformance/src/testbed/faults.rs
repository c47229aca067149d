//! Faults of nodes and of requests, crashes, and the points at which they could strike.

use std::collections::BTreeSet;
#[cfg(feature = "cli")]
use std::sync::atomic::Ordering;

use kubeproof_apiserver::fault::{Fault, Point};
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{MetricError, MetricValue};
use kubeproof_node as node;

use super::{Mode, Testbed, TestbedError};
use crate::fault_plan::Plan;
use crate::properties::{self, Caches, Violation};

impl Testbed {
    /// Returns the faults of the simulated nodes: power off, disconnect, restore.
    #[must_use]
    pub fn faults(&self) -> &node::Faults {
        self.cluster().manager.faults()
    }

    /// Restarts the built-in controllers, as after a crash. Controllers under test go on.
    pub fn restart_controllers(&self) {
        self.cluster().manager.restart_controllers();
    }

    /// Injects a fault between clients and server, from now on until it is used up, expires or is lifted.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kubeproof::prelude::*;
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
    ///
    /// let testbed = Testbed::builder().controllers(["replicaset"]).start().await?;
    /// testbed.inject(Fault {
    ///     name: "no more pods".to_owned(),
    ///     requests: Requests {
    ///         verb: Some("create".to_owned()),
    ///         resource: Some("pods".to_owned()),
    ///         ..Requests::default()
    ///     },
    ///     after: 0,
    ///     times: Some(2),
    ///     lasts: None,
    ///     effect: Effect::Refuse(Refusal {
    ///         code: 500,
    ///         reason: "InternalError".to_owned(),
    ///         message: "the quota service is down".to_owned(),
    ///         retry_after_seconds: None,
    ///     }),
    /// })?;
    /// testbed.apply(REPLICA_SET).await?;
    /// testbed.settle(Duration::from_secs(60)).await?;
    /// let timeline = testbed.timeline();
    /// assert!(timeline.contains("refused 500 InternalError: POST pods"));
    /// assert!(timeline.contains("pod web-00001 created"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TestbedError::Fault`] for a verb or resource that the server does not serve.
    pub fn inject(&self, fault: Fault) -> Result<(), TestbedError> {
        let checked = self.cluster().server.check_fault(&fault);
        checked.map_err(TestbedError::Fault)?;
        self.cluster().server.inject(fault);
        Ok(())
    }

    /// Injects the faults of `plan` from now on, and notes the points of other possible faults.
    pub(crate) fn plan_faults(&self, plan: &Plan) {
        self.cluster().server.record_points();
        let (faults, stale) = match self.cluster().options.mode.is_virtual() {
            true => (plan.to_faults(), plan.stale_reads()),
            false => (plan.to_brief_faults(), plan.brief_stale_reads()),
        };
        for fault in faults {
            self.cluster().server.plan(fault);
        }
        self.cluster().crashes.stale().set(stale);
    }

    /// Calls `takes` with the index of each of `plans` at the point where its first fault would strike, to decide
    /// whether it does.
    #[cfg(feature = "cli")]
    pub(crate) fn branch(
        &self,
        plans: &[Plan],
        takes: impl Fn(usize) -> bool + Send + Sync + 'static,
    ) {
        self.cluster().server.record_points();
        let faults = plans.iter().map(Plan::to_faults).collect();
        let seen: Vec<_> = plans.iter().map(Plan::stale_reads).collect();
        let stale = self.cluster().crashes.stale().clone();
        let branches = std::sync::Arc::clone(&self.branches);
        branches.store(true, Ordering::Relaxed);
        let takes = move |index: usize| {
            let is_taken = takes(index);
            if is_taken {
                branches.store(false, Ordering::Relaxed);
                stale.set(seen[index].clone());
            }
            is_taken
        };
        self.cluster()
            .server
            .branch(faults, std::sync::Arc::new(takes));
    }

    /// Returns the points since the plan began at which faults could have struck.
    #[doc(hidden)]
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        self.cluster().server.points()
    }

    /// Whether the caches of controllers have shown the present so far.
    pub(crate) fn caches(&self) -> Caches {
        match self.cluster().options.mode {
            Mode::Virtual => Caches::with(&self.faults_met()),
            Mode::RealTime | Mode::Programs(_) => Caches::lagging(&self.faults_met()),
        }
    }

    /// The versions of the writes so far whose answer a fault has kept from the writer.
    pub(crate) fn unanswered(&self) -> BTreeSet<ResourceVersion> {
        let hits = self.fault_hits();
        if hits.is_empty() {
            return BTreeSet::new();
        }
        properties::unanswered(&self.journal(), &hits, &self.faults_met())
    }

    /// The violations by requests of the controllers under test.
    pub(crate) fn request_violations(&self) -> Vec<Violation> {
        self.cluster().monitor.found()
    }

    /// Forgets these mistakes.
    pub(crate) fn forget_requests(&self) {
        self.cluster().monitor.forget();
    }

    /// Puts a value of a custom or an external metric, or takes it away. A testbed with nodes has the metrics APIs.
    ///
    /// # Errors
    /// The value cannot be read, its object is of no resource of the server, or there are no metrics APIs.
    pub fn put_metric(&self, value: &MetricValue) -> Result<(), MetricError> {
        self.cluster().server.put_metric(value)
    }

    /// Ends the faults of that name. Returns false when none is in force.
    pub fn lift(&self, name: &str) -> bool {
        self.cluster().server.lift(name)
    }

    /// Returns the containers on the simulated nodes.
    #[must_use]
    pub fn containers(&self) -> &node::Containers {
        self.cluster().manager.containers()
    }
}
