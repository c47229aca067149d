//! Executes a plan: requests in their order, recording an event for each.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kubeproof_runtime::metadata_response;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::retry::{DEFAULT_RETRY, retry_on_conflict};
use kubeproof_runtime::sync_error::Error;

use super::Controller;
use super::reconcile::{Action, Batch, Observed};
use super::set::Set;
use super::status::Computed;
use crate::workload::stateful_claims::Repair;
use crate::workload::stateful_pod_control::{Again, StatefulPodControl};

/// The effects of one sync.
pub(super) struct Effects<'a> {
    pub(super) controller: &'a Controller,
    pub(super) observed: Observed<'a>,
    pub(super) set: &'a Set,
    pub(super) control: StatefulPodControl<'a>,
}

impl Effects<'_> {
    /// Runs `batches` up to the first one with errors, each at once, and counts the deletions that
    /// replace pods into `status`.
    pub(super) async fn run(
        &self,
        batches: Vec<Batch>,
        status: &mut Computed,
    ) -> Result<(), Error> {
        for batch in batches {
            let is_update = |action: &Action| matches!(action, Action::DeleteForUpdate { .. });
            let updates = batch.iter().flatten().filter(|action| is_update(action));
            let updates = updates.count();
            let created = self.counted_at_once(&batch);
            let at_once = batch
                .into_iter()
                .map(|actions| Box::pin(self.perform_all(actions)));
            let done = join_all(at_once).await.into_iter();
            Error::collect(done.filter_map(Result::err).collect())?;
            for pod in &created {
                let (current, update) = (self.observed.current, self.observed.update);
                let revisions = (current.name.as_str(), update.name.as_str());
                let profile = self.set.profile();
                status.counters.add_created(pod, revisions, profile);
            }
            status.counters.current -= i32::try_from(updates).unwrap_or(0);
        }
        Ok(())
    }

    /// The pods created by `batch` that count before they are seen, as old controllers had it. One
    /// that replaces another has been counted.
    fn counted_at_once(&self, batch: &Batch) -> Vec<Pod> {
        let firsts = batch.iter().filter_map(|actions| actions.first());
        let created = firsts.filter_map(|action| match action {
            Action::Create { pod, .. } => Some((**pod).clone()),
            _ => None,
        });
        let is_old = self.set.profile().is_old();
        created.filter(|_| is_old).collect()
    }

    /// Performs the actions for one pod, up to the first error.
    async fn perform_all(&self, actions: Vec<Action>) -> Result<(), Error> {
        for action in actions {
            self.perform(action).await?;
        }
        Ok(())
    }

    async fn perform(&self, action: Action) -> Result<(), Error> {
        match action {
            Action::Create {
                pod,
                claims,
                owners,
            } => self.control.create(&pod, claims, owners).await,
            Action::EnsureClaims {
                pod,
                claims,
                owners,
            } => {
                self.control.ensure_claims(&pod, claims).await?;
                self.control.fix_owners(owners).await
            }
            Action::Repair(repair) => self.repair(*repair).await,
            Action::FixOwners(owners) => self.control.fix_owners(owners).await,
            Action::Delete { pod } | Action::DeleteForUpdate { pod } => {
                self.control.delete(&pod).await
            }
        }
    }

    /// Repairs a pod; on conflict decides again about the pod as the cache has it by then.
    async fn repair(&self, repair: Repair) -> Result<(), Error> {
        let namespace = self.set.namespace();
        let cached = |name: &str| self.controller.pods.get(namespace, name);
        let again = |pod: Option<Arc<Pod>>| {
            // A pod that the cache has lost is tried once more as it was.
            let Some(pod) = pod else { return Again::Same };
            // So are claims that the attempts before have made.
            let claims = self.controller.claims_of(self.set, self.observed.pods);
            let observed = Observed {
                claims: &claims,
                ..self.observed
            };
            match observed.repair(&pod) {
                Some(next) => Again::With(Box::new(next)),
                None => Again::Done,
            }
        };
        self.control.repair(repair, cached, again).await
    }
}

/// Writes `status` if the set's differs, onto the cached set of the name when the write conflicts.
///
/// Source: `UpdateStatefulSetStatus` of `realStatefulSetStatusUpdater`.
pub(super) async fn write_status(
    controller: &Controller,
    set: &Set,
    mut status: Computed,
) -> Result<(), Error> {
    status.complete_rolling_update(set);
    if !status.differs_from(&set.status()) {
        return Ok(());
    }
    let sets: Api<StatefulSet> = Api::namespaced(controller.ctx.client.clone(), set.namespace());
    let mut object = set.object();
    let mut delays = DEFAULT_RETRY.into_iter();
    loop {
        object.status = Some(status.to_wire());
        match metadata_response::replace_status(&sets, set.name(), &object).await {
            Ok(rv) => {
                let uid = object.metadata.uid.as_deref().unwrap_or_default();
                controller.wrote_status(set, uid, rv);
                return Ok(());
            }
            Err(error) => retry_on_conflict(&mut delays, error.into()).await?,
        }
        // The set as it is cached, even if another has taken its name since, which gets a status that is not its own.
        if let Some(cached) = controller.sets.get(set.namespace(), set.name()) {
            object = Set::parse(&cached, None, controller.settings)?.object();
        }
    }
}
