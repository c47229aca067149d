//! Carries a plan out: requests in their order, up to the first error.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, ResourceExt};
use kubeproof_runtime::pod::{Pod, REVISION_LABEL};
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::sync_error::Error;

use super::Controller;
use super::observed::Observed;
use super::reconcile::{Action, Counter, Resize, Step};
use super::status::failed;
use crate::kruise::api::stateful_set::StatefulSetStatus;
use crate::kruise::in_place::UpdateSpec;
use crate::kruise::lifecycle::{self, State};
use crate::kruise::pod_writes::{PodWrite, PodWriter};
use crate::workload::stateful_claims::Repair;
use crate::workload::stateful_pod_control::{Again, StatefulPodControl};

/// The effects of one sync.
pub(super) struct Effects<'a> {
    pub(super) controller: &'a Controller,
    pub(super) observed: Observed<'a>,
    pub(super) control: StatefulPodControl<'a>,
    pub(super) writer: PodWriter,
}

impl Effects<'_> {
    /// Runs `steps` and lowers the counters of `status` with them.
    pub(super) async fn run(
        &self,
        steps: Vec<Step>,
        status: &mut StatefulSetStatus,
    ) -> Result<(), Error> {
        let mut outdated = BTreeSet::new();
        for step in steps {
            self.perform(step.action, status, &mut outdated).await?;
            match step.falls {
                Some(Counter::Current) => status.current_replicas -= 1,
                Some(Counter::Updated) => status.updated_replicas -= 1,
                None => {}
            }
        }
        Ok(())
    }

    async fn perform(
        &self,
        action: Action,
        status: &mut StatefulSetStatus,
        outdated: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let now = self.observed.now;
        match action {
            Action::Create {
                pod,
                claims,
                owners,
            } => {
                let created = self.control.create(&pod, claims, owners).await;
                if let Err(error) = &created {
                    let message = format!("StatefulPodControl failed to create Pod error: {error}");
                    failed(status, "FailedCreatePod", message, now);
                }
                created
            }
            Action::EnsureClaims { pod, claims } => self.control.ensure_claims(&pod, claims).await,
            Action::Repair(repair) => {
                let repaired = self.repair(*repair).await;
                if let Err(error) = &repaired {
                    let message = format!("StatefulPodControl failed to update Pod error: {error}");
                    failed(status, "FailedUpdatePod", message, now);
                }
                repaired
            }
            Action::FixOwners(owners) => self.control.fix_owners(owners).await,
            Action::Delete(pod) => self.delete(&pod).await,
            Action::Write(pod, write) => self.write(&pod, &write, outdated).await,
            Action::UpdateInPlace(pod, spec) => self.update_in_place(&pod, &spec).await,
            Action::Resize(pod, resizes) => self.resize(&pod, resizes).await,
            Action::Count => Ok(()),
            Action::Fail(error) => Err(error),
        }
    }

    /// Writes the pod, unless a former write of this sync was not made because it is `outdated`: then another sync follows,
    /// and no state is to precede the condition that is still due.
    async fn write(
        &self,
        pod: &Pod,
        write: &PodWrite,
        outdated: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let name = pod.name_any();
        if !outdated.contains(&name) && self.writer.write(pod, write).await?.is_none() {
            outdated.insert(name);
        }
        Ok(())
    }

    async fn repair(&self, repair: Repair) -> Result<(), Error> {
        let namespace = self.observed.set.namespace();
        let cached = |name: &str| self.controller.pods.get(namespace, name);
        let again = |pod: Option<Arc<Pod>>| {
            let Some(pod) = pod else { return Again::Same };
            let claims = self.controller.claims_in(namespace);
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

    async fn delete(&self, pod: &Pod) -> Result<(), Error> {
        let name = pod.name_any();
        let deleted = self.control.delete(&name).await;
        if let Err(error) = &deleted {
            let message = format!("failed to delete pod {name}: {error}");
            self.record_event(EventType::Warning, "FailedDelete", &message)
                .await;
        }
        deleted
    }

    async fn resize(&self, pod: &Pod, resizes: Vec<Resize>) -> Result<(), Error> {
        let pod = pod.name_any();
        for resize in resizes {
            let claim = match resize {
                Resize::Update(claim) => claim,
                Resize::Refuse(name) => {
                    let why = "contains diff other than spec resource, wait pvc to be deleted";
                    let message = format!("failed to update pvc {name}: {why}");
                    self.record_event(EventType::Warning, "FailedUpdatePVC", &message)
                        .await;
                    return Err(Error::Refused(format!("can not patch pvc {name}: {why}")));
                }
            };
            let spec = claim.spec.as_ref();
            if let Some(class) = spec.and_then(|spec| spec.storage_class_name.as_deref()) {
                self.check_class(class, &pod).await?;
            }
            self.control.resize_claim(&pod, &claim).await?;
        }
        Ok(())
    }

    /// Whether claims of the class can grow at all.
    async fn check_class(&self, class: &str, pod: &str) -> Result<(), Error> {
        let client = self.controller.ctx.client.clone();
        let class_found = Api::<StorageClass>::all(client).get(class).await;
        let found = class_found.map_err(Error::from).map_err(|error| {
            Error::Refused(format!(
                "could not get sc {class} for {pod} when checking PVC spec: {error}"
            ))
        })?;
        if found.allow_volume_expansion == Some(true) {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "storage class {class} for {pod} does not support volume expansion"
        )))
    }

    async fn update_in_place(&self, pod: &Pod, spec: &UpdateSpec) -> Result<(), Error> {
        let (name, revision) = (pod.name_any(), &spec.revision);
        let has_state = lifecycle::state(pod).is_some();
        let relabel = |pod: &mut Pod| {
            pod.labels_mut()
                .insert(REVISION_LABEL.to_owned(), revision.clone());
            if has_state {
                lifecycle::set_state(pod, State::Updating, self.observed.now);
            }
        };
        match self.writer.start_update(pod, spec, relabel).await {
            Ok(written) => {
                self.controller.updates.expect(&written);
                let message =
                    format!("successfully update pod {name} in-place(revision {revision})");
                self.record_event(EventType::Normal, "SuccessfulUpdatePodInPlace", &message)
                    .await;
                Ok(())
            }
            Err(error) => {
                let message =
                    format!("failed to update pod {name} in-place(revision {revision}): {error}");
                self.record_event(EventType::Warning, "FailedUpdatePodInPlace", &message)
                    .await;
                Err(error)
            }
        }
    }

    async fn record_event(&self, event_type: EventType, reason: &str, message: &str) {
        self.control.record_event(event_type, reason, message).await;
    }
}
