//! Syncs one set: reads, adopts, plans, acts, reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::{ApiResource, DynamicObject, Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::retry::DEFAULT_RETRY;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::typed_cache::Previous;
use kubeproof_runtime::worker::Reconcile;

use super::Controller;
use super::apply::Effects;
use super::observed::Observed;
use super::reconcile::reconcile;
use super::set::{KIND, Set};
use super::status;
use crate::kruise::api::stateful_set::StatefulSetStatus;
use crate::kruise::pod_writes::PodWriter;
use crate::kruise::pre_download::Workload;
use crate::kruise::status_write::replace_status;
use crate::kruise::{StatefulSet, selector_text};
use crate::workload::adoption::{self, Claims};
use crate::workload::history::{self, Proposal};
use crate::workload::revision_control::{Chosen, RevisionControl};
use crate::workload::stateful_pod_control::StatefulPodControl;

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(object) = self.sets.get(&key.namespace, &key.name) else {
            self.read.forget(key);
            return Ok(None);
        };
        let read = |object: &_, _: Option<Previous<'_, _>>| Set::parse(object, self.gates);
        let set = self.read.get(key, &object, read)?;
        let selector = match Selector::try_from(set.spec().selector.clone()) {
            Ok(selector) => selector,
            Err(error) => {
                // Trying again would not help; the set has to change.
                tracing::error!(namespace = key.namespace, name = key.name, %error, "bad selector");
                return Ok(None);
            }
        };
        self.adopt_revisions(&set, &selector).await?;
        let pods = self.claim_pods(&set, &selector).await?;
        let revisions = self.list_revisions(&set, &selector);
        let (chosen, updated) = match self.choose_revisions(&set, &revisions).await {
            Ok(chosen) => {
                let read = (&selector, revisions.as_slice(), pods.as_slice());
                let updated = self.update(&set, &object, read, &chosen).await;
                (Some(chosen), updated)
            }
            Err(error) => (None, Err(error)),
        };
        let truncated = self
            .truncate_history(&set, &revisions, chosen.as_ref(), &pods)
            .await;
        match (updated, truncated) {
            (Ok(requeue_after), Ok(())) => Ok(requeue_after),
            (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
            (Err(error), Err(other)) => Err(Error::Many(vec![error, other])),
        }
    }
}

impl Controller {
    async fn update(
        &self,
        set: &Set,
        object: &DynamicObject,
        (selector, revisions, pods): (&Selector, &[Arc<ControllerRevision>], &[Arc<Pod>]),
        chosen: &Chosen,
    ) -> Result<Option<Duration>, Error> {
        let (current, update) = chosen.templates(&self.read_revisions)?;
        self.pull_ahead(set, chosen).await;
        let claims = self.claims_in(set.namespace());
        let now = (self.ctx.now)();
        // Evaluated for all pods, so that none is remembered indefinitely.
        let behind = pods
            .iter()
            .filter(|pod| self.updates.behind_for(&***pod, now).is_some());
        let observed = Observed {
            set,
            current: &current,
            update: &update,
            revisions,
            update_object: &chosen.update,
            collision_count: chosen.collision_count,
            label_selector: &selector_text(selector),
            pods,
            claims: &claims,
            is_behind: behind.count() > 0,
            now,
        };
        let plan = reconcile(observed);
        let client = &self.ctx.client;
        let effects = Effects {
            controller: self,
            observed,
            control: StatefulPodControl {
                client,
                namespace: set.namespace(),
                recorder: &self.recorder,
                involved: set.reference(),
                has_lowercase_verbs: true,
                wrote_pod: &|_| {},
                wrote_claim: &|_| {},
            },
            writer: PodWriter {
                pods: Api::namespaced(client.clone(), set.namespace()),
                now,
            },
        };
        let mut status = plan.status;
        let acted = effects.run(plan.steps, &mut status).await;
        let reported = self.write_status(set, object, status).await;
        // The error of the actions takes precedence over the error of the status update.
        acted.and(reported)?;
        Ok(plan.requeue_after)
    }

    /// Makes nodes pull the images of an update before it reaches their pods.
    async fn pull_ahead(&self, set: &Set, chosen: &Chosen) {
        let Some(pre_download) = &self.pre_download else {
            return;
        };
        let status = set.status();
        let workload = Workload {
            owner: set.owner_ref(),
            involved: set.reference(),
            namespace: set.namespace(),
            selector: &set.spec().selector,
            template: &set.spec().template,
            update: set.update(),
            options: set.pre_download(),
            grace_seconds: set.grace_period_seconds(),
            gates: self.gates,
            known_revision: status.update_revision,
            updated_ready: status.updated_ready_replicas.unwrap_or(0),
        };
        pre_download.follow(&workload, chosen).await;
    }

    /// The cached claims of a namespace, by name.
    pub(super) fn claims_in(
        &self,
        namespace: &str,
    ) -> BTreeMap<String, Arc<PersistentVolumeClaim>> {
        let cached = self.claims.in_namespace(namespace).into_iter();
        cached.map(|claim| (claim.name_any(), claim)).collect()
    }

    /// The set's pods, by name, after adopting orphans and releasing strangers.
    async fn claim_pods(&self, set: &Set, selector: &Selector) -> Result<Vec<Arc<Pod>>, Error> {
        let claims = Claims {
            api: Api::namespaced(self.ctx.client.clone(), set.namespace()),
            owner: set.meta(),
            reference: set.owner_ref(),
            finalizer: None,
        };
        let api: Api<StatefulSet> = Api::namespaced(self.ctx.client.clone(), set.namespace());
        claims
            .claim_all(
                self.pods.in_namespace(set.namespace()),
                |pod| selector.matches(pod.labels()) && set.identity().has_member(pod),
                adoption::confirm(&api, set.meta(), KIND, "Pods"),
                |_| {},
            )
            .await
    }

    fn revision_control<'a>(&'a self, set: &'a Set) -> RevisionControl<'a> {
        RevisionControl {
            client: &self.ctx.client,
            namespace: set.namespace(),
            reference: set.owner_ref(),
        }
    }

    fn list_revisions(&self, set: &Set, selector: &Selector) -> Vec<Arc<ControllerRevision>> {
        let cached = self.revisions.in_namespace(set.namespace());
        self.revision_control(set).list(cached, selector)
    }

    async fn adopt_revisions(&self, set: &Set, selector: &Selector) -> Result<(), Error> {
        let mut orphans = self.list_revisions(set, selector);
        orphans.retain(|revision| controller_of(&revision.metadata).is_none());
        if orphans.is_empty() {
            return Ok(());
        }
        let api: Api<StatefulSet> = Api::namespaced(self.ctx.client.clone(), set.namespace());
        let live = api.get(set.name()).await?;
        if live.metadata.uid != set.meta().uid {
            return Err(Error::CannotAdopt {
                what: "ControllerRevisions",
                reason: format!(
                    "original StatefulSet {}/{} is gone",
                    set.namespace(),
                    set.name()
                ),
            });
        }
        self.revision_control(set).adopt(&orphans).await
    }

    async fn choose_revisions(
        &self,
        set: &Set,
        revisions: &[Arc<ControllerRevision>],
    ) -> Result<Chosen, Error> {
        let status = set.status();
        let template = set.spec().template.metadata.clone().unwrap_or_default();
        let proposal = Proposal {
            owner: set.meta(),
            owner_ref: set.owner_ref(),
            template_labels: template.labels.unwrap_or_default(),
            own_annotations: BTreeMap::new(),
            data: &set.revision_data,
            revision: history::next_number(revisions),
            collision_count: status.collision_count.unwrap_or(0),
        };
        let current = status.current_revision.as_deref();
        let control = self.revision_control(set);
        control.choose(revisions, proposal, current).await
    }

    /// Deletes the oldest revisions beyond the limit that neither the set nor a pod is at.
    async fn truncate_history(
        &self,
        set: &Set,
        revisions: &[Arc<ControllerRevision>],
        chosen: Option<&Chosen>,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let chosen = chosen
            .into_iter()
            .flat_map(|chosen| [&chosen.current, &chosen.update]);
        let mut live: BTreeSet<String> = chosen.map(|one| one.name_any()).collect();
        live.extend(pods.iter().map(|pod| pod::revision(pod).to_owned()));
        let limit = set.spec().revision_history_limit.unwrap_or(10);
        let control = self.revision_control(set);
        control.truncate(revisions, &live, limit).await
    }

    /// Writes `status` if the set's differs, onto a re-read set when the write conflicts.
    async fn write_status(
        &self,
        set: &Set,
        object: &DynamicObject,
        mut status: StatefulSetStatus,
    ) -> Result<(), Error> {
        status::complete_rolling_update(&mut status, set);
        if !status::differs(&status, &set.status()) {
            return Ok(());
        }
        let resource = ApiResource::erase::<StatefulSet>(&());
        let client = self.ctx.client.clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, set.namespace(), &resource);
        let reread = || self.sets.get(set.namespace(), &object.name_any());
        let written = replace_status::<StatefulSet>(&api, object, &status, DEFAULT_RETRY, reread);
        let rv = written.await?;
        self.sets.wait_for(self.sets.wrote_at(rv)).await;
        Ok(())
    }
}
