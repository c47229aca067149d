//! The revisions of a set's template.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};
use kubeproof_runtime::controller_ref::controller_ref;
use kubeproof_runtime::decode;
use kubeproof_runtime::pod::{self, Pod, REVISION_LABEL};
use kubeproof_runtime::sync_error::Error;
use serde_json::{Value, json};

use super::{API_VERSION, Controller, KIND};
use crate::workload::adoption::{self, Claims};
use crate::workload::history::{self, sort, template_data};
use crate::workload::template_hash;

/// The revisions of a set.
pub(super) struct Revisions {
    /// The one of the set's template.
    pub(super) current: Arc<ControllerRevision>,
    /// The others, oldest first.
    pub(super) old: Vec<Arc<ControllerRevision>>,
}

impl Revisions {
    /// The hash with which pods of the set's current template are labeled.
    pub(super) fn hash(&self) -> &str {
        hash_of(&self.current)
    }
}

fn hash_of(revision: &ControllerRevision) -> &str {
    let label = revision.labels().get(REVISION_LABEL);
    label.map_or("", String::as_str)
}

impl Controller {
    /// Finds or makes the revision of the set's template, and makes it the newest.
    pub(super) async fn revisions(
        &self,
        set: &DaemonSet,
        selector: &Selector,
    ) -> Result<Revisions, Error> {
        let template = set.spec.as_ref().map(|spec| &spec.template);
        let malformed = |source| Error::Malformed {
            what: format!("DaemonSet {}", set.name_any()),
            source,
        };
        let template = decode::to_value(&template).map_err(malformed)?;
        let data = template_data(&template);
        let claimed = self.claim_revisions(set, selector).await?;
        let claimed = self.label(set, claimed).await?;
        let is_current = |one: &Arc<ControllerRevision>| {
            one.data.as_ref().is_some_and(|recorded| recorded.0 == data)
        };
        let (mut current, old): (Vec<_>, Vec<_>) = claimed.into_iter().partition(is_current);
        let number = history::next_number(&old);
        let Some(mut newest) = current.pop() else {
            let current = Arc::new(self.create_revision(set, &template, data, number).await?);
            return Ok(Revisions { current, old });
        };
        if !current.is_empty() {
            self.unite(set, selector, &newest, &current).await?;
        }
        if newest.revision < number {
            Arc::make_mut(&mut newest).revision = number;
            let params = PostParams::default();
            let api = self.revision_api(set);
            api.replace(&newest.name_any(), &params, &newest).await?;
        }
        Ok(Revisions {
            current: newest,
            old,
        })
    }

    async fn claim_revisions(
        &self,
        set: &DaemonSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let claims = Claims {
            api: self.revision_api(set),
            owner: &set.metadata,
            reference: controller_ref(API_VERSION, KIND, &set.metadata),
            finalizer: None,
        };
        let sets = self.api(set);
        let confirm = adoption::confirm(&sets, &set.metadata, KIND, "ControllerRevisions");
        let cached = self
            .revisions
            .in_namespace(&set.namespace().unwrap_or_default());
        let matches = |one: &ControllerRevision| selector.matches(one.labels());
        let mut revisions = claims.claim_all(cached, matches, confirm, |_| {}).await?;
        sort(&mut revisions);
        Ok(revisions)
    }

    /// Labels the revisions that have no hash with their names.
    async fn label(
        &self,
        set: &DaemonSet,
        mut revisions: Vec<Arc<ControllerRevision>>,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let api = self.revision_api(set);
        for revision in &mut revisions {
            if revision.labels().contains_key(REVISION_LABEL) {
                continue;
            }
            let mut labeled = ControllerRevision::clone(revision);
            let name = labeled.name_any();
            let labels = labeled.metadata.labels.get_or_insert_default();
            labels.insert(REVISION_LABEL.to_owned(), name.clone());
            *revision = Arc::new(api.replace(&name, &PostParams::default(), &labeled).await?);
        }
        Ok(revisions)
    }

    /// Gives all pods of the set the hash of `kept`, and deletes its `copies`.
    async fn unite(
        &self,
        set: &DaemonSet,
        selector: &Selector,
        kept: &ControllerRevision,
        copies: &[Arc<ControllerRevision>],
    ) -> Result<(), Error> {
        let namespace = set.namespace().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &namespace);
        let patch = json!({"metadata": {"labels": {REVISION_LABEL: hash_of(kept)}}});
        for pod in self.claim_pods(set, selector).await? {
            if pod::revision(&pod) != hash_of(kept) {
                let (name, params) = (pod.name_any(), PatchParams::default());
                api.patch(&name, &params, &Patch::Merge(&patch)).await?;
            }
        }
        let api = self.revision_api(set);
        for copy in copies {
            api.delete(&copy.name_any(), &DeleteParams::default())
                .await?;
        }
        Ok(())
    }

    async fn create_revision(
        &self,
        set: &DaemonSet,
        template: &Value,
        data: Value,
        number: i64,
    ) -> Result<ControllerRevision, Error> {
        let status = set.status.clone().unwrap_or_default();
        let hash = template_hash::hash(template, status.collision_count);
        let spec = set.spec.clone().unwrap_or_default();
        let mut labels = spec.template.metadata.and_then(|meta| meta.labels);
        let name = format!("{}-{hash}", set.name_any());
        labels
            .get_or_insert_default()
            .insert(REVISION_LABEL.to_owned(), hash);
        let revision = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: set.namespace(),
                labels,
                annotations: set.metadata.annotations.clone(),
                owner_references: Some(vec![controller_ref(API_VERSION, KIND, &set.metadata)]),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(data)),
            revision: number,
        };
        let api = self.revision_api(set);
        let created = api.create(&PostParams::default(), &revision).await;
        match created.map_err(Error::from) {
            Err(error) if error.is_already_exists() => {
                let existing = api.get(&name).await?;
                if history::is_equal(&existing, &revision) {
                    return Ok(existing);
                }
                let sets = self.api(set);
                let mut live = sets.get(&set.name_any()).await?;
                let status = live.status.get_or_insert_default();
                let known = set.status.as_ref();
                if status.collision_count != known.and_then(|known| known.collision_count) {
                    let name = set.name_any();
                    return Err(Error::Refused(format!(
                        "the cached collision count of DaemonSet {name} is stale"
                    )));
                }
                // The next attempt takes another name.
                status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
                let params = PostParams::default();
                sets.replace_status(&set.name_any(), &params, &live).await?;
                Err(error)
            }
            outcome => outcome,
        }
    }

    /// Deletes the oldest revisions beyond the limit that no pod is at. A refusal is tried again even if it says that the
    /// revision is gone.
    pub(super) async fn truncate_history(
        &self,
        set: &DaemonSet,
        old: &[Arc<ControllerRevision>],
        live: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let limit = set
            .spec
            .as_ref()
            .and_then(|spec| spec.revision_history_limit);
        let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
        let excess = old.len().saturating_sub(limit);
        let idle = old.iter().filter(|one| !live.contains(hash_of(one)));
        let api = self.revision_api(set);
        for revision in idle.take(excess) {
            let params = DeleteParams::default();
            api.delete(&revision.name_any(), &params).await?;
        }
        Ok(())
    }

    fn revision_api(&self, set: &DaemonSet) -> Api<ControllerRevision> {
        let namespace = set.namespace().unwrap_or_default();
        Api::namespaced(self.ctx.client.clone(), &namespace)
    }
}
