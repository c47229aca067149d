//! Syncs one set: reads, scales or updates, reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use kube::core::{ApiResource, DynamicObject, Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::controller_ref::controller_ref;
use kubeproof_runtime::named_expectations::Expected;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::retry::DEFAULT_BACKOFF;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::typed_cache::Previous;
use kubeproof_runtime::worker::{Reconcile, debounce};
use serde_json::json;

use super::Controller;
use super::apply::Effects;
use super::pods::instance_id;
use super::scale::{Observed, nodes_of, spreads};
use super::set::Set;
use super::status;
use crate::kruise::api::clone_set::{CloneSet, CloneSetStatus};
use crate::kruise::in_place::CLAIM_HASH_ANNOTATION;
use crate::kruise::pre_download::Workload;
use crate::kruise::status_write::replace_status;
use crate::kruise::{container_hash, revision, selector_text};
use crate::workload::adoption::Claims;
use crate::workload::history::{self, Proposal};
use crate::workload::revision_control::{Chosen, RevisionControl};

/// The time after which an unobserved write is no longer awaited with a timer.
const EXPECTATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// The delay before a set whose expectations have timed out is synced again.
const AFTER_TIMEOUT: Duration = Duration::from_secs(10);

/// The pods and claims that a set owns.
struct Owned {
    active: Vec<Arc<Pod>>,
    inactive: Vec<Arc<Pod>>,
    claims: Vec<Arc<PersistentVolumeClaim>>,
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        if let Some(set) = self.sets.get(&key.namespace, &key.name) {
            let uid = set.uid().unwrap_or_default();
            debounce(self.pods.count_controlled_by(&key.namespace, &uid)).await;
        }
        let Some(object) = self.sets.get(&key.namespace, &key.name) else {
            self.expectations.forget(key);
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
        let now = (self.ctx.now)();
        if let Some(waited) = self.expectations.unsatisfied_for(key, now) {
            if waited < EXPECTATION_TIMEOUT {
                return Ok(until_timeout(waited));
            }
            if !self.gates.force_delete_timeout_expectation {
                return Ok(None);
            }
            self.expectations.forget(key);
            return Ok(Some(AFTER_TIMEOUT));
        }
        let mut owned = self.owned(&set);
        if !set.reuses_claims() {
            self.clean_up_claims(&set, &mut owned).await?;
        }
        let pods = self.release(&set, &selector, owned.active).await?;
        let revisions = self.list_revisions(&set, &selector);
        let chosen = self.choose_revisions(&set, &revisions).await?;
        let read = pods.iter().map(AsRef::as_ref);
        if let Some(waited) = self.versions.behind_for(&*chosen.update, now) {
            if waited < EXPECTATION_TIMEOUT {
                return Ok(until_timeout(waited));
            }
            self.versions.forget(&*chosen.update);
        }
        if let Some(waited) = self.versions.first_behind(read, now) {
            return Ok(until_timeout(waited).filter(|_| waited < EXPECTATION_TIMEOUT));
        }
        let mut status = status::begun(
            &set,
            (&chosen.current.name_any(), &chosen.update.name_any()),
            chosen.collision_count,
            selector_text(&selector),
        );
        self.pull_ahead(&set, &chosen).await;
        let mut effects = Effects::new(self, &set, &chosen, &revisions, &owned.claims);
        let synced = if set.is_deleting() {
            Ok(())
        } else {
            self.scale_or_update(&set, &chosen, &pods, &mut effects, &mut status)
                .await
        };
        let mut timers = std::mem::take(&mut effects.timers);
        let now = (self.ctx.now)();
        timers.extend(status::count(&mut status, &set, &pods, now));
        self.write_status(&set, &object, &status).await?;
        self.forget_deleted(&set, &object, &pods).await;
        self.truncate_history(&set, &revisions, &chosen, &pods)
            .await;
        synced?;
        let min_ready_seconds = u64::try_from(set.min_ready_seconds()).unwrap_or(0);
        if min_ready_seconds > 0 && status.available_replicas != status.ready_replicas {
            timers.push(Duration::from_secs(min_ready_seconds));
        }
        Ok(timers.into_iter().filter(|timer| !timer.is_zero()).min())
    }
}

fn until_timeout(waited: SignedDuration) -> Option<Duration> {
    Duration::try_from(EXPECTATION_TIMEOUT - waited).ok()
}

impl Controller {
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
            updated_ready: status.updated_ready_replicas,
        };
        if let Some(labelled) = pre_download.follow(&workload, chosen).await {
            self.versions.expect(&labelled);
        }
    }

    async fn scale_or_update(
        &self,
        set: &Set,
        chosen: &Chosen,
        pods: &[Arc<Pod>],
        effects: &mut Effects<'_>,
        status: &mut CloneSetStatus,
    ) -> Result<(), Error> {
        let nodes = self.node_labels(set, pods).await;
        let (current, update) = (chosen.current.name_any(), chosen.update.name_any());
        let observed = Observed {
            set,
            current_revision: &current,
            update_revision: &update,
            pods,
            nodes: &nodes,
            now: (self.ctx.now)(),
        };
        let scaled = effects.scale(observed).await;
        let mut failure = None;
        let is_changed = match scaled {
            (is_changed, Ok(())) => is_changed,
            (is_changed, Err(error)) => {
                status::failed(status, "FailedScale", error.to_string(), observed.now);
                failure = Some(error);
                is_changed
            }
        };
        if is_changed {
            return failure.map_or(Ok(()), Err);
        }
        if let Err(error) = effects.update(observed).await {
            status::failed(status, "FailedUpdate", error.to_string(), observed.now);
            failure = failure.or(Some(error));
        }
        failure.map_or(Ok(()), Err)
    }

    /// The set's pods and claims, by name.
    fn owned(&self, set: &Set) -> Owned {
        let (namespace, uid) = (set.namespace(), set.uid());
        let pods = self.pods.controlled_by(namespace, uid);
        let (active, inactive) = pods.into_iter().partition(|pod| pod::is_active(pod));
        let mut claims = self.claims.controlled_by(namespace, uid);
        claims.retain(|claim| claim.metadata.deletion_timestamp.is_none());
        Owned {
            active,
            inactive,
            claims,
        }
    }

    /// Makes inactive pods the owners of their claims, and deletes claims without any pod.
    async fn clean_up_claims(&self, set: &Set, owned: &mut Owned) -> Result<(), Error> {
        let ids = |pods: &[Arc<Pod>]| -> BTreeMap<String, Arc<Pod>> {
            let ids = pods
                .iter()
                .map(|pod| (instance_id(&pod.metadata).to_owned(), pod.clone()));
            ids.filter(|(id, _)| !id.is_empty()).collect()
        };
        let (active, inactive) = (ids(&owned.active), ids(&owned.inactive));
        let id = |claim: &PersistentVolumeClaim| instance_id(&claim.metadata).to_owned();
        let (used, unused): (Vec<_>, Vec<_>) = std::mem::take(&mut owned.claims)
            .into_iter()
            .partition(|claim| active.contains_key(&id(claim)));
        owned.claims = used;
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.ctx.client.clone(), set.namespace());
        let (of_inactive, unused): (Vec<_>, Vec<_>) = unused
            .into_iter()
            .partition(|claim| inactive.contains_key(&id(claim)));
        for claim in of_inactive {
            let pod = &inactive[&id(&claim)];
            let mut changed = PersistentVolumeClaim::clone(&claim);
            let owners = changed.owner_references_mut();
            owners.retain(|owner| owner.uid != set.uid());
            owners.push(controller_ref("v1", "Pod", &pod.metadata));
            let (name, params) = (claim.name_any(), Default::default());
            let replaced = api.replace(&name, &params, &changed).await;
            if let Err(error) = replaced.map_err(Error::from) {
                let message = format!("failed to update PVC {name}: {error}");
                self.warn(set, "FailedUpdate", &message).await;
                if !error.is_not_found() {
                    return Err(error);
                }
            }
        }
        let key = ObjectKey::of(&set.object);
        for claim in unused {
            let name = claim.name_any();
            self.expectations.expect(&key, Expected::Deletion, &name);
            let deleted = api.delete(&name, &Default::default()).await;
            if let Err(error) = deleted.map_err(Error::from) {
                self.expectations.observe(&key, Expected::Deletion, &name);
                let message = format!("failed to clean up PVC {name}: {error}");
                self.warn(set, "FailedDelete", &message).await;
                if !error.is_not_found() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub(super) async fn warn(&self, set: &Set, reason: &str, message: &str) {
        let involved = set.reference();
        let recorder = &self.recorder;
        recorder
            .publish(&involved, EventType::Warning, reason, message)
            .await;
    }

    /// Returns the pods that the set still selects; releases the others. Orphans stay orphans.
    async fn release(
        &self,
        set: &Set,
        selector: &Selector,
        pods: Vec<Arc<Pod>>,
    ) -> Result<Vec<Arc<Pod>>, Error> {
        let claims = Claims {
            api: Api::namespaced(self.ctx.client.clone(), set.namespace()),
            owner: set.meta(),
            reference: set.owner_ref(),
            finalizer: None,
        };
        let matches = |pod: &Pod| selector.matches(pod.labels());
        claims
            .claim_all(pods, matches, std::future::ready(Ok(())), |_| {})
            .await
    }

    fn list_revisions(&self, set: &Set, selector: &Selector) -> Vec<Arc<ControllerRevision>> {
        let cached = self.revisions.in_namespace(set.namespace());
        self.revision_control(set).list(cached, selector)
    }

    fn revision_control<'a>(&'a self, set: &'a Set) -> RevisionControl<'a> {
        RevisionControl {
            client: &self.ctx.client,
            namespace: set.namespace(),
            reference: set.owner_ref(),
        }
    }

    async fn choose_revisions(
        &self,
        set: &Set,
        revisions: &[Arc<ControllerRevision>],
    ) -> Result<Chosen, Error> {
        let status = set.status();
        let template = set.spec().template.metadata.clone().unwrap_or_default();
        let hash = match set.claim_templates() {
            [] => String::new(),
            templates => container_hash::of_claim_templates(templates).to_string(),
        };
        let proposal = Proposal {
            owner: set.meta(),
            owner_ref: set.owner_ref(),
            template_labels: template.labels.unwrap_or_default(),
            own_annotations: BTreeMap::from([(CLAIM_HASH_ANNOTATION.to_owned(), hash)]),
            data: &set.revision_data,
            revision: history::next_number(revisions),
            collision_count: status.collision_count.unwrap_or(0),
        };
        let current = status.current_revision.as_deref();
        let control = self.revision_control(set);
        control.choose(revisions, proposal, current).await
    }

    /// Revisions stay that the set or one of its pods is at. A failure is not worth another sync.
    async fn truncate_history(
        &self,
        set: &Set,
        revisions: &[Arc<ControllerRevision>],
        chosen: &Chosen,
        pods: &[Arc<Pod>],
    ) {
        let limit = set.spec().revision_history_limit.unwrap_or(10);
        let at: BTreeSet<&str> = pods
            .iter()
            .map(|pod| revision::short_hash(pod::revision(pod)))
            .collect();
        let names = revisions.iter().map(|one| one.name_any());
        let mut live: BTreeSet<String> = names
            .filter(|name| at.contains(revision::short_hash(name)))
            .collect();
        live.extend([chosen.current.name_any(), chosen.update.name_any()]);
        let control = self.revision_control(set);
        if let Err(error) = control.truncate(revisions, &live, limit).await {
            tracing::warn!(name = set.name(), %error, "history not truncated");
        }
    }

    /// The labels of the pods' nodes, if the set spreads its pods.
    async fn node_labels(
        &self,
        set: &Set,
        pods: &[Arc<Pod>],
    ) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut labels = BTreeMap::new();
        let replicas = usize::try_from(set.replicas()).unwrap_or(0);
        if !spreads(set) || pods.len() <= replicas {
            return labels;
        }
        let api: Api<Node> = Api::all(self.ctx.client.clone());
        for name in nodes_of(pods) {
            if let Ok(node) = api.get(&name).await {
                labels.insert(name, node.labels().clone());
            }
        }
        labels
    }

    fn sets_api(&self, set: &Set) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<CloneSet>(&());
        Api::namespaced_with(self.ctx.client.clone(), set.namespace(), &resource)
    }

    async fn write_status(
        &self,
        set: &Set,
        object: &DynamicObject,
        status: &CloneSetStatus,
    ) -> Result<(), Error> {
        if !status::differs(status, &set.status()) {
            return Ok(());
        }
        let api = self.sets_api(set);
        let reread = || self.sets.get(set.namespace(), &object.name_any());
        let written = replace_status::<CloneSet>(&api, object, status, DEFAULT_BACKOFF, reread);
        let rv = written.await?;
        self.sets.wait_for(self.sets.wrote_at(rv)).await;
        Ok(())
    }

    /// Takes the names of pods that are gone out of `podsToDelete`. A failure is made up for by the
    /// next sync.
    async fn forget_deleted(&self, set: &Set, object: &DynamicObject, pods: &[Arc<Pod>]) {
        let asked_for = set.pods_to_delete();
        let names: BTreeSet<String> = pods.iter().map(|pod| pod.name_any()).collect();
        let left: Vec<&String> = asked_for
            .iter()
            .filter(|name| names.contains(*name))
            .collect();
        if left.len() == asked_for.len() {
            return;
        }
        let api = self.sets_api(set);
        let mut object = object.clone();
        let strategy = &mut object.data["spec"]["scaleStrategy"];
        match left.is_empty() {
            true => {
                if let Some(fields) = strategy.as_object_mut() {
                    fields.remove("podsToDelete");
                }
            }
            false => strategy["podsToDelete"] = json!(left),
        }
        if let Err(error) = api.replace(set.name(), &Default::default(), &object).await {
            tracing::info!(name = set.name(), %error, "podsToDelete not cleaned up");
        }
    }
}
