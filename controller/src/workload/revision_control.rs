//! Reads and writes of a workload's controller revisions, the same for every kind that has them.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt};
use kubeproof_runtime::controller_ref::{adopt_patch, controller_of};
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::retry::{DEFAULT_BACKOFF, retry_on_conflict};
use kubeproof_runtime::sync_error::Error;
use lru::LruCache;
use parking_lot::Mutex;

use crate::workload::history::{self, Choice, Proposal};

/// The number of parsed revisions that are cached.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("it is more than none");

/// A controller revision as far as it matters for pods.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) name: String,
    pub(crate) template: PodTemplateSpec,
}

impl Revision {
    pub(crate) fn of(object: &ControllerRevision) -> Result<Self, Error> {
        let name = object.name_any();
        let template =
            history::template_of(object).ok_or_else(|| Error::NoTemplate(name.clone()))?;
        let template = from_value(template).map_err(|source| Error::Malformed {
            what: format!("ControllerRevision {name}"),
            source,
        })?;
        Ok(Self { name, template })
    }
}

/// The two revisions that a sync works with.
pub(crate) struct Chosen {
    pub(crate) current: Arc<ControllerRevision>,
    pub(crate) update: Arc<ControllerRevision>,
    pub(crate) collision_count: i32,
}

impl Chosen {
    /// The current and the update revision with their templates.
    pub(crate) fn templates(
        &self,
        read: &Revisions,
    ) -> Result<(Arc<Revision>, Arc<Revision>), Error> {
        Ok((read.of(&self.current)?, read.of(&self.update)?))
    }
}

/// Revisions that were read, so that each version is read once.
pub(crate) struct Revisions(Mutex<LruCache<Version, Arc<Revision>>>);

/// Uid and resourceVersion.
type Version = (Option<String>, Option<String>);

impl Default for Revisions {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED_MAX)))
    }
}

impl Revisions {
    fn of(&self, object: &ControllerRevision) -> Result<Arc<Revision>, Error> {
        let version = (object.uid(), object.resource_version());
        if let Some(known) = self.0.lock().get(&version) {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(Revision::of(object)?);
        if version.0.is_some() && version.1.is_some() {
            self.0.lock().put(version, Arc::clone(&read));
        }
        Ok(read)
    }
}

/// The revisions of one workload.
pub(crate) struct RevisionControl<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    /// The reference with which the workload controls its revisions.
    pub(crate) reference: OwnerReference,
}

impl RevisionControl<'_> {
    /// Made when there is something to write, which most syncs have not.
    fn api(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Returns the selected members of `cached` with this workload as controller or without any,
    /// oldest first.
    pub(crate) fn list(
        &self,
        cached: Vec<Arc<ControllerRevision>>,
        selector: &Selector,
    ) -> Vec<Arc<ControllerRevision>> {
        let is_ours = |revision: &Arc<ControllerRevision>| {
            selector.matches(revision.labels())
                && controller_of(&revision.metadata)
                    .is_none_or(|owner| owner.uid == self.reference.uid)
        };
        let ours = cached.into_iter().filter(is_ours);
        let mut revisions: Vec<_> = ours.collect();
        history::sort(&mut revisions);
        revisions
    }

    /// Makes the workload the controller of `orphans`.
    pub(crate) async fn adopt(&self, orphans: &[Arc<ControllerRevision>]) -> Result<(), Error> {
        for orphan in orphans {
            let uid = orphan.metadata.uid.as_deref().unwrap_or("");
            let patch = Patch::Strategic(adopt_patch(&self.reference, None, uid));
            let name = orphan.name_any();
            self.api()
                .patch(&name, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// Finds or makes the revision of `proposal`, and finds the one called `current`.
    pub(crate) async fn choose(
        &self,
        revisions: &[Arc<ControllerRevision>],
        mut proposal: Proposal<'_>,
        current: Option<&str>,
    ) -> Result<Chosen, Error> {
        let update = match history::choose(revisions, proposal.data) {
            Choice::Reuse(index) => Arc::clone(&revisions[index]),
            Choice::Rollback(index) => {
                let mut revision = revisions[index].as_ref().clone();
                let annotations = revision.metadata.annotations.get_or_insert_default();
                annotations.extend(proposal.own_annotations.clone());
                Arc::new(self.renumber(revision, proposal.revision).await?)
            }
            Choice::Create => Arc::new(self.create(&mut proposal).await?),
        };
        let known = revisions
            .iter()
            .find(|revision| current.is_some() && revision.metadata.name.as_deref() == current);
        let current = Arc::clone(known.unwrap_or(&update));
        Ok(Chosen {
            current,
            update,
            collision_count: proposal.collision_count,
        })
    }

    async fn create(&self, proposal: &mut Proposal<'_>) -> Result<ControllerRevision, Error> {
        let mut revision = proposal.build();
        loop {
            let name = revision.name_any();
            let created = self.api().create(&PostParams::default(), &revision).await;
            match created.map_err(Error::from) {
                Ok(created) => return Ok(created),
                Err(error) if error.is_already_exists() => {
                    let existing = self.api().get(&name).await?;
                    if history::is_equal(&existing, &revision) {
                        return Ok(existing);
                    }
                }
                Err(error) => return Err(error),
            }
            // Only the name follows the collision; the label keeps the first hash.
            proposal.collision_count += 1;
            revision.metadata.name = proposal.build().metadata.name;
        }
    }

    /// Sets the number of a revision. As upstream, a conflict is retried with growing delays.
    async fn renumber(
        &self,
        mut revision: ControllerRevision,
        number: i64,
    ) -> Result<ControllerRevision, Error> {
        let name = revision.name_any();
        let mut delays = DEFAULT_BACKOFF.into_iter();
        loop {
            if revision.revision == number {
                return Ok(revision);
            }
            revision.revision = number;
            let params = PostParams::default();
            let replaced = self.api().replace(&name, &params, &revision).await;
            match replaced.map_err(Error::from) {
                Ok(updated) => return Ok(updated),
                Err(error) => retry_on_conflict(&mut delays, error).await?,
            }
            revision = self.api().get(&name).await?;
        }
    }

    /// Deletes the oldest revisions beyond `limit`, not counting `live` ones.
    pub(crate) async fn truncate(
        &self,
        revisions: &[Arc<ControllerRevision>],
        live: &BTreeSet<String>,
        limit: i32,
    ) -> Result<(), Error> {
        for name in history::to_truncate(revisions, live, limit) {
            let deleted = self.api().delete(&name, &DeleteParams::default()).await;
            match deleted.map_err(Error::from) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
