//! Carries a plan out: requests in their order, each with the event that tells of it.

use std::mem::take;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};

use super::Controller;
use super::reconcile::{Action, Batch, EnsureClaim, FixOwners, Observed, Repair};
use super::set::Set;
use super::status::Computed;
use crate::recorder::EventType;
use crate::sync_error::Error;

/// How often a status write that conflicts is tried.
const CONFLICT_ATTEMPTS_MAX: usize = 5;

/// How long the repair of a pod waits after each conflict but the last.
const REPAIR_DELAYS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

/// What an event tells about, as it is spelled in reasons and messages.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }
}

/// The effects of one sync.
pub(super) struct Effects<'a> {
    controller: &'a Controller,
    observed: Observed<'a>,
    set: &'a Set,
    pods: Api<Pod>,
    claims: Api<PersistentVolumeClaim>,
}

impl<'a> Effects<'a> {
    pub(super) fn new(controller: &'a Controller, observed: Observed<'a>) -> Self {
        let client = &controller.ctx.client;
        let set = observed.set;
        Self {
            controller,
            observed,
            set,
            pods: Api::namespaced(client.clone(), set.namespace()),
            claims: Api::namespaced(client.clone(), set.namespace()),
        }
    }

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
            let at_once = batch.into_iter().map(|actions| self.perform_all(actions));
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

    /// What is to be done about one pod, up to the first error.
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
            } => self.create(&pod, claims, owners).await,
            Action::EnsureClaims {
                pod,
                claims,
                owners,
            } => {
                self.ensure_claims(&pod, claims).await?;
                self.fix_owners(owners).await
            }
            Action::Repair(repair) => self.repair(*repair).await,
            Action::FixOwners(owners) => self.fix_owners(owners).await,
            Action::Delete { pod } | Action::DeleteForUpdate { pod } => self.delete(&pod).await,
        }
    }

    async fn create(
        &self,
        pod: &Pod,
        claims: Vec<EnsureClaim>,
        owners: Vec<FixOwners>,
    ) -> Result<(), Error> {
        let name = pod.name_any();
        if let Err(error) = self.ensure_claims(&name, claims).await {
            self.tell_pod(Verb::Create, &name, Some(&error)).await;
            return Err(error);
        }
        let created = self.pods.create(&PostParams::default(), pod).await;
        let outcome = match created.map_err(Error::from) {
            Ok(created) => {
                self.controller.wrote_pod(self.set, &created);
                Ok(())
            }
            // The name is taken; it is tried again until it is free.
            Err(error) if error.is_already_exists() => return Err(error),
            Err(error) => Err(error),
        };
        // Claims are seen to even without a pod, and their failure is told instead of the pod's.
        if let Err(error) = self.fix_owners(owners).await {
            self.tell_pod(Verb::Update, &name, Some(&error)).await;
            return Err(error);
        }
        self.tell_pod(Verb::Create, &name, outcome.as_ref().err())
            .await;
        outcome
    }

    /// Tries every claim, even after one failed.
    async fn ensure_claims(&self, pod: &str, claims: Vec<EnsureClaim>) -> Result<(), Error> {
        let mut errors = Vec::new();
        for claim in claims {
            match claim {
                EnsureClaim::BeingDeleted(name) => {
                    errors.push(Error::Claim(format!("pvc {name} is being deleted")));
                }
                EnsureClaim::Create(claim) => {
                    let name = claim.name_any();
                    match self.claims.create(&PostParams::default(), &claim).await {
                        Ok(created) => {
                            self.controller.wrote_claim(self.set, &created);
                            self.tell_claim(pod, &name, None).await;
                        }
                        Err(error) => {
                            let error = Error::from(error);
                            let told = format!("failed to create PVC {name}: {error}");
                            errors.push(Error::Claim(told));
                            if !error.is_already_exists() {
                                self.tell_claim(pod, &name, Some(&error)).await;
                            }
                        }
                    }
                }
            }
        }
        Error::collect(errors)
    }

    async fn fix_owners(&self, owners: Vec<FixOwners>) -> Result<(), Error> {
        for fix in owners {
            if let Some(claim) = fix.conflicting {
                // The spelling is upstream's, which tools match.
                let message = format!(
                    "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as \
                     a manging controller, the retention policy is ignored for this claim"
                );
                self.tell(EventType::Warning, "ConflictingController", &message)
                    .await;
            }
            let Some(claim) = fix.update else { continue };
            let name = claim.name_any();
            match self
                .claims
                .replace(&name, &PostParams::default(), &claim)
                .await
            {
                Ok(updated) => self.controller.wrote_claim(self.set, &updated),
                Err(error) => {
                    let error = Error::from(error);
                    return Err(Error::Claim(format!(
                        "could not update claim {name} for delete policy ownerRefs: {error}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Repairs a pod; on conflict decides again about the pod as the cache has it by then.
    async fn repair(&self, mut repair: Repair) -> Result<(), Error> {
        let name = repair.pod.name_any();
        let mut delays = REPAIR_DELAYS.into_iter();
        let outcome = loop {
            let prepared = match self.ensure_claims(&name, take(&mut repair.claims)).await {
                Ok(()) => self.fix_owners(take(&mut repair.owners)).await,
                Err(error) => Err(error),
            };
            if let Err(error) = prepared {
                break Err(error);
            }
            let params = PostParams::default();
            let error = match self.pods.replace(&name, &params, &repair.pod).await {
                Ok(updated) => {
                    self.controller.wrote_pod(self.set, &updated);
                    break Ok(());
                }
                Err(error) => Error::from(error),
            };
            let Some(delay) = delays.next().filter(|_| error.is_conflict()) else {
                break Err(error);
            };
            let cached = self.controller.pods.get(self.set.namespace(), &name);
            tokio::time::sleep(delay).await;
            // A pod that the cache has lost is tried once more as it was.
            let Some(cached) = cached else { continue };
            // So are claims that the attempts before have made.
            let claims = self.controller.claims_of(self.set, self.observed.pods);
            let observed = Observed {
                claims: &claims,
                ..self.observed
            };
            match observed.repair(&cached) {
                Some(next) => repair = next,
                None => break Ok(()),
            }
        };
        self.tell_pod(Verb::Update, &name, outcome.as_ref().err())
            .await;
        outcome
    }

    async fn delete(&self, name: &str) -> Result<(), Error> {
        let deleted = self.pods.delete(name, &DeleteParams::default()).await;
        let outcome = match deleted.map_err(Error::from) {
            Ok(answer) => {
                if let Some(pod) = answer.left() {
                    self.controller.wrote_pod(self.set, &pod);
                }
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        };
        self.tell_pod(Verb::Delete, name, outcome.as_ref().err())
            .await;
        outcome
    }

    async fn tell_pod(&self, verb: Verb, pod: &str, error: Option<&Error>) {
        let (reason, set) = (verb.as_str(), self.set.name());
        let verb = self.spelled(reason);
        match error {
            None => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                self.tell(EventType::Normal, &format!("Successful{reason}"), &message)
                    .await;
            }
            Some(error) => {
                let message =
                    format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
                self.tell(EventType::Warning, &format!("Failed{reason}"), &message)
                    .await;
            }
        }
    }

    /// The verb as messages of the controller's version have it.
    fn spelled(&self, verb: &str) -> String {
        match self.set.profile().is_old() {
            true => verb.to_lowercase(),
            false => verb.to_owned(),
        }
    }

    async fn tell_claim(&self, pod: &str, claim: &str, error: Option<&Error>) {
        let (set, create) = (self.set.name(), self.spelled(Verb::Create.as_str()));
        match error {
            None => {
                let message =
                    format!("{create} Claim {claim} Pod {pod} in StatefulSet {set} success");
                self.tell(EventType::Normal, "SuccessfulCreate", &message)
                    .await;
            }
            Some(error) => {
                let message = format!(
                    "{create} Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}"
                );
                self.tell(EventType::Warning, "FailedCreate", &message)
                    .await;
            }
        }
    }

    async fn tell(&self, event_type: EventType, reason: &str, message: &str) {
        self.controller
            .recorder
            .publish(&self.set.reference(), event_type, reason, message)
            .await;
    }
}

/// Writes `status` if the set's differs, onto a re-read set when the write conflicts.
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
    let mut object = set.object.clone();
    let mut attempt = 1;
    loop {
        object.status = Some(status.to_wire());
        match sets
            .replace_status(set.name(), &PostParams::default(), &object)
            .await
        {
            Ok(written) => {
                controller.wrote_status(set, &written);
                return Ok(());
            }
            Err(error) => {
                let error = Error::from(error);
                if !error.is_conflict() || attempt == CONFLICT_ATTEMPTS_MAX {
                    return Err(error);
                }
            }
        }
        attempt += 1;
        object = sets.get(set.name()).await?;
        if object.metadata.uid.as_deref() != Some(set.uid()) {
            // Another set has taken the name; this one's status is nobody's.
            return Ok(());
        }
    }
}
