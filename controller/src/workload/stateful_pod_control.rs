//! Creates, repairs and deletes pods with ordinals and their claims, recording an event for each.

use std::mem::take;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt};
use kubeproof_machinery::meta::ResourceVersion;
use kubeproof_runtime::metadata_response;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::retry::{DEFAULT_BACKOFF, retry_on_conflict};
use kubeproof_runtime::sync_error::Error;

use crate::workload::stateful_claims::{EnsureClaim, FixOwners, Repair};

/// The verb of an event, as it is spelled in reasons and messages.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
    Resize,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::Resize => "Resize",
        }
    }
}

/// The next step for a pod whose repair has met a conflict.
pub(crate) enum Again {
    /// The repair as planned.
    Same,
    /// Another repair.
    With(Box<Repair>),
    /// Nothing to repair any more.
    Done,
}

/// The pods of one set.
pub(crate) struct StatefulPodControl<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) recorder: &'a Recorder,
    /// The set, for events.
    pub(crate) involved: ObjectReference,
    /// Whether messages begin with the verb in lower case.
    pub(crate) has_lowercase_verbs: bool,
    /// Called with the resourceVersion after each creation and update of a pod or a claim. A deletion is not noted, so it is
    /// repeated until it is seen.
    ///
    /// Source: `stateful_pod_control.go`, `realStatefulPodControlObjectManager`.
    pub(crate) wrote_pod: &'a (dyn Fn(ResourceVersion) + Sync),
    pub(crate) wrote_claim: &'a (dyn Fn(ResourceVersion) + Sync),
}

impl StatefulPodControl<'_> {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    pub(crate) async fn create(
        &self,
        pod: &Pod,
        claims: Vec<EnsureClaim>,
        owners: Vec<FixOwners>,
    ) -> Result<(), Error> {
        let name = pod.name_any();
        if let Err(error) = self.ensure_claims(&name, claims).await {
            self.record_pod_event(Verb::Create, &name, Some(&error))
                .await;
            return Err(error);
        }
        let created = metadata_response::create(&self.pods(), pod).await;
        let outcome = match created.map_err(Error::from) {
            Ok(rv) => {
                (self.wrote_pod)(rv);
                Ok(())
            }
            // The name is taken; it is tried again until it is free.
            Err(error) if error.is_already_exists() => return Err(error),
            Err(error) => Err(error),
        };
        // Claims are repaired even without a pod; their failure is reported instead of the pod's.
        if let Err(error) = self.fix_owners(owners).await {
            self.record_pod_event(Verb::Update, &name, Some(&error))
                .await;
            return Err(error);
        }
        self.record_pod_event(Verb::Create, &name, outcome.as_ref().err())
            .await;
        outcome
    }

    /// Tries every claim, even after one failed.
    pub(crate) async fn ensure_claims(
        &self,
        pod: &str,
        claims: Vec<EnsureClaim>,
    ) -> Result<(), Error> {
        let mut errors = Vec::new();
        for claim in claims {
            match claim {
                EnsureClaim::BeingDeleted(name) => {
                    errors.push(Error::Claim(format!("pvc {name} is being deleted")));
                }
                EnsureClaim::Create(claim) => {
                    let name = claim.name_any();
                    match metadata_response::create(&self.claims(), &claim).await {
                        Ok(rv) => {
                            (self.wrote_claim)(rv);
                            self.record_claim_event(Verb::Create, pod, &name, None)
                                .await;
                        }
                        Err(error) => {
                            let error = Error::from(error);
                            let message = format!("failed to create PVC {name}: {error}");
                            errors.push(Error::Claim(message));
                            if !error.is_already_exists() {
                                self.record_claim_event(Verb::Create, pod, &name, Some(&error))
                                    .await;
                            }
                        }
                    }
                }
            }
        }
        Error::collect(errors)
    }

    pub(crate) async fn fix_owners(&self, owners: Vec<FixOwners>) -> Result<(), Error> {
        for fix in owners {
            if let Some(claim) = fix.conflicting {
                // The spelling is upstream's, which tools match.
                let message = format!(
                    "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as \
                     a manging controller, the retention policy is ignored for this claim"
                );
                self.record_event(EventType::Warning, "ConflictingController", &message)
                    .await;
            }
            let Some(claim) = fix.update else { continue };
            let name = claim.name_any();
            match metadata_response::replace(&self.claims(), &name, &claim).await {
                Ok(rv) => (self.wrote_claim)(rv),
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

    /// Repairs a pod. After a conflict the pod as it is `cached` then is decided about `again`, a
    /// little later.
    pub(crate) async fn repair(
        &self,
        mut repair: Repair,
        cached: impl Fn(&str) -> Option<Arc<Pod>>,
        again: impl Fn(Option<Arc<Pod>>) -> Again,
    ) -> Result<(), Error> {
        let name = repair.pod.name_any();
        let mut delays = DEFAULT_BACKOFF.into_iter();
        let outcome = loop {
            let prepared = match self.ensure_claims(&name, take(&mut repair.claims)).await {
                Ok(()) => self.fix_owners(take(&mut repair.owners)).await,
                Err(error) => Err(error),
            };
            if let Err(error) = prepared {
                break Err(error);
            }
            let error = match metadata_response::replace(&self.pods(), &name, &repair.pod).await {
                Ok(rv) => {
                    (self.wrote_pod)(rv);
                    break Ok(());
                }
                Err(error) => Error::from(error),
            };
            let pod = cached(&name);
            if let Err(error) = retry_on_conflict(&mut delays, error).await {
                break Err(error);
            }
            match again(pod) {
                Again::Same => {}
                Again::With(next) => repair = *next,
                Again::Done => break Ok(()),
            }
        };
        self.record_pod_event(Verb::Update, &name, outcome.as_ref().err())
            .await;
        outcome
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        let deleted = self.pods().delete(name, &DeleteParams::default()).await;
        let outcome = match deleted.map_err(Error::from) {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        };
        self.record_pod_event(Verb::Delete, name, outcome.as_ref().err())
            .await;
        outcome
    }

    async fn record_pod_event(&self, verb: Verb, pod: &str, error: Option<&Error>) {
        let (reason, set) = (verb.as_str(), self.set_name());
        let verb = self.spelled(reason);
        match error {
            None => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                self.record_event(EventType::Normal, &format!("Successful{reason}"), &message)
                    .await;
            }
            Some(error) => {
                let message =
                    format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
                self.record_event(EventType::Warning, &format!("Failed{reason}"), &message)
                    .await;
            }
        }
    }

    /// The verb as messages of the controller's version have it.
    fn spelled(&self, verb: &str) -> String {
        match self.has_lowercase_verbs {
            true => verb.to_lowercase(),
            false => verb.to_owned(),
        }
    }

    /// Writes a claim of `pod` that has grown.
    pub(crate) async fn resize_claim(
        &self,
        pod: &str,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), Error> {
        let name = claim.name_any();
        let written = metadata_response::replace(&self.claims(), &name, claim).await;
        let outcome = written.map(|rv| (self.wrote_claim)(rv));
        let outcome = outcome.map_err(Error::from);
        let error = outcome.as_ref().err();
        self.record_claim_event(Verb::Resize, pod, &name, error)
            .await;
        outcome.map_err(|error| Error::Claim(format!("could not update claim {name}: {error}")))
    }

    async fn record_claim_event(&self, verb: Verb, pod: &str, claim: &str, error: Option<&Error>) {
        let (reason, set) = (verb.as_str(), self.set_name());
        let verb = self.spelled(reason);
        match error {
            None => {
                let message =
                    format!("{verb} Claim {claim} Pod {pod} in StatefulSet {set} success");
                self.record_event(EventType::Normal, &format!("Successful{reason}"), &message)
                    .await;
            }
            Some(error) => {
                let message = format!(
                    "{verb} Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}"
                );
                self.record_event(EventType::Warning, &format!("Failed{reason}"), &message)
                    .await;
            }
        }
    }

    fn set_name(&self) -> &str {
        self.involved.name.as_deref().unwrap_or_default()
    }

    pub(crate) async fn record_event(&self, event_type: EventType, reason: &str, message: &str) {
        self.recorder
            .publish(&self.involved, event_type, reason, message)
            .await;
    }
}
