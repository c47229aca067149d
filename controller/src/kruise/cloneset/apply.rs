//! Carries out the decisions of a sync, recording an event for each write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::decode;
use kubeproof_runtime::named_expectations::Expected;
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use serde_json::Value;

use super::Controller;
use super::pods::{available_ids, instance_id, new_claims, new_pod};
use super::scale::{Observed, ScaleStep};
use super::set::{Set, UpdatePolicy};
use crate::kruise::lifecycle::{self, State};
use crate::kruise::pod_writes::{PodWrite, PodWriter, UpdateStep, update_step};
use crate::kruise::refresh::{Rules, refresh};
use crate::kruise::{Gates, in_place, revision};
use crate::workload::pod_control::slow_start;
use crate::workload::revision_control::{Chosen, Revision};
use crate::workload::template_hash::go_json;

/// The effects of one sync.
pub(super) struct Effects<'a> {
    controller: &'a Controller,
    set: &'a Set,
    key: ObjectKey,
    chosen: &'a Chosen,
    revisions: &'a [Arc<ControllerRevision>],
    claims: &'a [Arc<PersistentVolumeClaim>],
    /// The claims by their instance ID.
    claims_of: BTreeMap<&'a str, Vec<&'a PersistentVolumeClaim>>,
    pods_api: Api<Pod>,
    claims_api: Api<PersistentVolumeClaim>,
    writer: PodWriter,
    /// The delays until the next syncs of the set.
    pub(super) timers: Vec<Duration>,
}

impl<'a> Effects<'a> {
    pub(super) fn new(
        controller: &'a Controller,
        set: &'a Set,
        chosen: &'a Chosen,
        revisions: &'a [Arc<ControllerRevision>],
        claims: &'a [Arc<PersistentVolumeClaim>],
    ) -> Self {
        let client = &controller.ctx.client;
        let mut claims_of: BTreeMap<&str, Vec<&PersistentVolumeClaim>> = BTreeMap::new();
        for claim in claims {
            let id = instance_id(&claim.metadata);
            claims_of.entry(id).or_default().push(claim);
        }
        Self {
            controller,
            set,
            key: ObjectKey::of(&set.object),
            chosen,
            revisions,
            claims,
            claims_of,
            pods_api: Api::namespaced(client.clone(), set.namespace()),
            claims_api: Api::namespaced(client.clone(), set.namespace()),
            writer: PodWriter {
                pods: Api::namespaced(client.clone(), set.namespace()),
                now: (controller.ctx.now)(),
            },
            timers: Vec::new(),
        }
    }

    /// Creates or deletes pods. Returns whether it has changed anything, even when it failed.
    pub(super) async fn scale(&self, observed: Observed<'_>) -> (bool, Result<(), Error>) {
        let plan = observed.reconcile_scale();
        if let Some(limit) = plan.limit {
            let message = format!(
                "scaleUp is limited because of scaleStrategy.maxUnavailable, limit: {limit}"
            );
            self.warn("ScaleUpLimited", &message).await;
        }
        match plan.step {
            None => (false, Ok(())),
            Some(ScaleStep::Keep(pods)) => self.keep(&pods).await,
            Some(ScaleStep::Create { current, update }) => {
                self.create(observed, current, update).await
            }
            Some(ScaleStep::Delete(pods)) => self.delete(&pods).await,
        }
    }

    async fn keep(&self, pods: &[Arc<Pod>]) -> (bool, Result<(), Error>) {
        let mut is_changed = false;
        for pod in pods {
            let write = PodWrite::State {
                state: State::PreparingNormal,
                restored: None,
                marks_not_ready: false,
            };
            match self.write(pod, &write).await {
                Ok(changed) => is_changed |= changed,
                Err(error) => return (is_changed, Err(error)),
            }
        }
        (is_changed, Ok(()))
    }

    /// Writes about a pod whose new version is then waited for; false when there was nothing to do.
    async fn write(&self, pod: &Pod, write: &PodWrite) -> Result<bool, Error> {
        let written = self.writer.write(pod, write).await?;
        if let Some(written) = &written {
            self.controller.versions.expect(written);
        }
        Ok(written.is_some())
    }

    async fn create(
        &self,
        observed: Observed<'_>,
        current: usize,
        update: usize,
    ) -> (bool, Result<(), Error>) {
        let templates = match self.chosen.templates(&self.controller.read_revisions) {
            Ok(templates) => templates,
            Err(error) => return (false, Err(error)),
        };
        let taken: Vec<_> = observed.pods.iter().map(|pod| &pod.metadata).collect();
        let claimed: Vec<_> = self.claims.iter().map(|claim| &claim.metadata).collect();
        let now = observed.now;
        let failures = self.controller.queue.num_requeues(&self.key);
        let uid = self.set.uid();
        let ids = available_ids(current + update, uid, &taken, &claimed, now, failures);
        let pods: Vec<(String, Pod)> = ids
            .into_iter()
            .enumerate()
            .map(|(index, id)| {
                let revision: &Revision = match index < current {
                    true => &templates.0,
                    false => &templates.1,
                };
                let pod = new_pod(self.set, &revision.name, &revision.template, &id, now);
                (id, pod)
            })
            .collect();
        let expectations = &self.controller.expectations;
        for (_, pod) in &pods {
            expectations.expect(&self.key, Expected::Creation, &pod.name_any());
        }
        let known: BTreeSet<String> = self.claims.iter().map(|claim| claim.name_any()).collect();
        let mut left = pods.as_slice();
        let (mut is_changed, mut outcome) = (false, Ok(()));
        for size in slow_start(pods.len()) {
            let (batch, rest) = left.split_at(size);
            let at_once = batch
                .iter()
                .map(|(id, pod)| Box::pin(self.create_one(id, pod, &known)));
            let done = join_all(at_once).await;
            left = rest;
            is_changed |= done.iter().any(Result::is_ok);
            if let Some(error) = done.into_iter().find_map(Result::err) {
                outcome = Err(error);
                break;
            }
        }
        // Nobody will see what was not tried.
        for (_, pod) in left {
            expectations.observe(&self.key, Expected::Creation, &pod.name_any());
        }
        (is_changed, outcome)
    }

    async fn create_one(
        &self,
        id: &str,
        pod: &Pod,
        known_claims: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let created = self.create_with_claims(id, pod, known_claims).await;
        if created.is_err() {
            let expectations = &self.controller.expectations;
            expectations.observe(&self.key, Expected::Creation, &pod.name_any());
        }
        created
    }

    async fn create_with_claims(
        &self,
        id: &str,
        pod: &Pod,
        known_claims: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let expectations = &self.controller.expectations;
        let params = PostParams::default();
        for claim in new_claims(self.set, id) {
            let name = claim.name_any();
            if known_claims.contains(&name) {
                continue;
            }
            expectations.expect(&self.key, Expected::Creation, &name);
            if let Err(error) = self.claims_api.create(&params, &claim).await {
                let error = Error::from(error);
                expectations.observe(&self.key, Expected::Creation, &name);
                let message = format!(
                    "failed to create pvc: {error}, pvc: {}",
                    go_json::claim(&json(&claim))
                );
                self.warn("FailedCreate", &message).await;
                return Err(error);
            }
        }
        if let Err(error) = self.pods_api.create(&params, pod).await {
            let error = Error::from(error);
            let message = format!(
                "failed to create pod: {error}, pod: {}",
                go_json::pod(&json(pod))
            );
            self.warn("FailedCreate", &message).await;
            return Err(error);
        }
        let message = format!("succeed to create pod {}", pod.name_any());
        self.record_event("SuccessfulCreate", &message).await;
        Ok(())
    }

    async fn delete(&self, pods: &[Arc<Pod>]) -> (bool, Result<(), Error>) {
        let hook = lifecycle::pre_delete(self.set.lifecycle());
        let mut is_changed = false;
        for pod in pods {
            let done = if lifecycle::is_hooked(hook, pod) {
                let write = PodWrite::State {
                    state: State::PreparingDelete,
                    restored: None,
                    marks_not_ready: lifecycle::marks_not_ready(hook),
                };
                self.write(pod, &write).await
            } else {
                self.delete_one(pod).await.map(|()| true)
            };
            match done {
                Ok(changed) => is_changed |= changed,
                Err(error) => return (is_changed, Err(error)),
            }
        }
        (is_changed, Ok(()))
    }

    /// Deletes the pod, and its claims with it.
    async fn delete_one(&self, pod: &Pod) -> Result<(), Error> {
        let expectations = &self.controller.expectations;
        let (name, params) = (pod.name_any(), DeleteParams::default());
        expectations.expect(&self.key, Expected::Deletion, &name);
        if let Err(error) = self.pods_api.delete(&name, &params).await {
            let error = Error::from(error);
            expectations.observe(&self.key, Expected::Deletion, &name);
            let message = format!("failed to delete pod {name}: {error}");
            self.warn("FailedDelete", &message).await;
            return Err(error);
        }
        let message = format!("succeed to delete pod {name}");
        self.record_event("SuccessfulDelete", &message).await;
        let id = instance_id(&pod.metadata);
        for claim in self.claims_of.get(id).into_iter().flatten() {
            let name = claim.name_any();
            expectations.expect(&self.key, Expected::Deletion, &name);
            if let Err(error) = self.claims_api.delete(&name, &params).await {
                let error = Error::from(error);
                expectations.observe(&self.key, Expected::Deletion, &name);
                let message = format!("failed to delete pvc {name}: {error}");
                self.warn("FailedDelete", &message).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Advances pods in transition, and then updates others.
    pub(super) async fn update(&mut self, observed: Observed<'_>) -> Result<(), Error> {
        let rules = Rules {
            lifecycle: self.set.lifecycle(),
            waits_for_node: true,
            update_revision: observed.update_revision,
            now: observed.now,
        };
        let mut is_changed = false;
        for pod in observed.pods {
            let due = refresh(pod, rules)?;
            is_changed |= due.changes_state();
            self.timers.extend(due.after);
            for write in &due.writes {
                // Another party's write brings another sync, and no state precedes the condition that is due.
                if !self.write(pod, write).await? {
                    break;
                }
            }
        }
        if is_changed || self.set.is_on_delete() || self.set.is_paused() {
            return Ok(());
        }
        let (pods, goes_back) = observed.reconcile_update();
        let target = match goes_back {
            true => &self.chosen.current,
            false => &self.chosen.update,
        };
        for pod in pods {
            self.update_one(&pod, target).await?;
        }
        Ok(())
    }

    async fn update_one(&mut self, pod: &Pod, target: &ControllerRevision) -> Result<(), Error> {
        let name = pod.name_any();
        let policy = self.set.update_policy();
        if policy != UpdatePolicy::ReCreate {
            let is_at = |known: &&Arc<ControllerRevision>| revision::is_at(pod, &known.name_any());
            let old = self.revisions.iter().find(is_at).map(Arc::as_ref);
            let grace = self.set.grace_period_seconds();
            let gates = Gates {
                // Under InPlaceOnly, changed claim templates do not prevent an update: pods keep
                // their claims.
                recreate_for_claims: self.set.gates.recreate_for_claims
                    && policy != UpdatePolicy::InPlaceOnly,
                ..self.set.gates
            };
            if let Some(spec) = in_place::update_spec(old, target, grace, gates) {
                return self.update_in_place(pod, &spec).await;
            }
            if policy == UpdatePolicy::InPlaceOnly {
                return Err(Error::Refused(format!(
                    "find Pod {name} update strategy is InPlaceOnly but can not update in-place"
                )));
            }
        }
        let revision = target.name_any();
        if let Err(error) = self.write(pod, &PodWrite::SpecifyDelete).await {
            let message = format!(
                "failed to patch pod specified-delete {name} for update(revision {revision}): {error}"
            );
            self.warn("FailedUpdatePodReCreate", &message).await;
            return Err(error);
        }
        let message = format!(
            "successfully patch pod {name} specified-delete for update(revision {revision})"
        );
        self.record_event("SuccessfulUpdatePodReCreate", &message)
            .await;
        Ok(())
    }

    async fn update_in_place(
        &mut self,
        pod: &Pod,
        spec: &in_place::UpdateSpec,
    ) -> Result<(), Error> {
        let hook = lifecycle::in_place_update(self.set.lifecycle());
        match update_step(pod, hook)? {
            UpdateStep::Wait => return Ok(()),
            UpdateStep::Write(write) => return self.write(pod, &write).await.map(|_| ()),
            UpdateStep::Start => {}
        }
        let now = self.writer.now;
        let gates = self.set.gates;
        let relabel = |pod: &mut Pod| {
            let labels = revision::labels(&spec.revision, gates);
            pod.labels_mut().extend(labels);
            lifecycle::set_state(pod, State::Updating, now);
        };
        let (name, revision) = (pod.name_any(), &spec.revision);
        match self.writer.start_update(pod, spec, relabel).await {
            Ok(written) => {
                self.controller.versions.expect(&written);
                let message =
                    format!("successfully update pod {name} in-place(revision {revision})");
                self.record_event("SuccessfulUpdatePodInPlace", &message)
                    .await;
                let grace = u64::try_from(spec.grace_seconds).unwrap_or(0);
                self.timers.push(Duration::from_secs(grace));
                Ok(())
            }
            Err(error) => {
                let message =
                    format!("failed to update pod {name} in-place(revision {revision}): {error}");
                self.warn("FailedUpdatePodInPlace", &message).await;
                Err(error)
            }
        }
    }

    async fn record_event(&self, reason: &str, message: &str) {
        let involved = self.set.reference();
        let recorder = &self.controller.recorder;
        recorder
            .publish(&involved, EventType::Normal, reason, message)
            .await;
    }

    async fn warn(&self, reason: &str, message: &str) {
        self.controller.warn(self.set, reason, message).await;
    }
}

fn json(object: &impl serde::Serialize) -> Value {
    decode::to_value(object).unwrap_or_default()
}
