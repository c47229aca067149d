//! Reads and writes of a set's controller revisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};

use super::Controller;
use super::reconcile::Revision;
use super::set::Set;
use crate::controller_ref::{adopt_patch, controller_of};
use crate::history::{self, Choice, Proposal};
use crate::pod;
use crate::sync_error::Error;

const CONFLICT_ATTEMPTS_MAX: usize = 5;

/// The two revisions that a sync works with.
pub(super) struct Chosen {
    pub(super) current: ControllerRevision,
    pub(super) update: ControllerRevision,
    pub(super) collision_count: i32,
}

impl Chosen {
    /// The current and the update revision with their templates.
    pub(super) fn templates(&self) -> Result<(Revision, Revision), Error> {
        Ok((revision(&self.current)?, revision(&self.update)?))
    }
}

fn revision(object: &ControllerRevision) -> Result<Revision, Error> {
    let name = object.name_any();
    let template = history::template_of(object).ok_or_else(|| Error::NoTemplate(name.clone()))?;
    let template = serde_json::from_value(template).map_err(|source| Error::Malformed {
        what: format!("ControllerRevision {name}"),
        source,
    })?;
    Ok(Revision { name, template })
}

impl Controller {
    /// The selected revisions that the set controls or that nobody does, oldest first.
    pub(super) fn list_revisions(&self, set: &Set, selector: &Selector) -> Vec<ControllerRevision> {
        let cached = self.revisions.claimable(set.namespace(), set.uid());
        let mut revisions: Vec<ControllerRevision> = cached
            .into_iter()
            .filter(|revision| selector.matches(revision.labels()))
            .map(Arc::unwrap_or_clone)
            .collect();
        history::sort(&mut revisions);
        revisions
    }

    /// Takes selected revisions over that nobody controls.
    pub(super) async fn adopt_revisions(
        &self,
        set: &Set,
        selector: &Selector,
    ) -> Result<(), Error> {
        let mut orphans = self.list_revisions(set, selector);
        let is_orphan = |revision: &ControllerRevision| controller_of(&revision.metadata).is_none();
        if !orphans.iter().any(is_orphan) {
            return Ok(());
        }
        if !set.profile().is_old() {
            // Old controllers patched all of them for the sake of one.
            orphans.retain(is_orphan);
        }
        self.confirm_adoption(set, "ControllerRevisions").await?;
        let api = self.revision_api(set);
        for orphan in orphans {
            let patch = adopt_patch(
                &set.owner_ref(),
                orphan.metadata.uid.as_deref().unwrap_or(""),
            );
            let patch = Patch::Strategic(patch);
            api.patch(&orphan.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// Finds or makes the update revision, and finds the current one.
    pub(super) async fn choose_revisions(
        &self,
        set: &Set,
        revisions: &[ControllerRevision],
    ) -> Result<Chosen, Error> {
        let status = set.status();
        let template_meta = set.spec().template.metadata.clone().unwrap_or_default();
        let mut proposal = Proposal {
            owner: set.meta(),
            owner_ref: set.owner_ref(),
            template_labels: template_meta.labels.unwrap_or_default(),
            data: match set.profile().is_old() {
                true => history::legacy_template_data(&set.template),
                false => history::template_data(&set.template),
            },
            revision: history::next_number(revisions),
            collision_count: status.collision_count.unwrap_or(0),
        };
        let update = match history::choose(revisions, &proposal.data) {
            Choice::Reuse(index) => revisions[index].clone(),
            Choice::Rollback(index) => {
                self.renumber(set, &revisions[index], proposal.revision)
                    .await?
            }
            Choice::Create => self.create_revision(set, &mut proposal).await?,
        };
        let current = revisions.iter().find(|revision| {
            revision.metadata.name.is_some() && revision.metadata.name == status.current_revision
        });
        let current = current.unwrap_or(&update).clone();
        Ok(Chosen {
            current,
            update,
            collision_count: proposal.collision_count,
        })
    }

    async fn create_revision(
        &self,
        set: &Set,
        proposal: &mut Proposal<'_>,
    ) -> Result<ControllerRevision, Error> {
        let api = self.revision_api(set);
        let mut revision = proposal.build();
        loop {
            let name = revision.name_any();
            match api
                .create(&PostParams::default(), &revision)
                .await
                .map_err(Error::from)
            {
                Ok(created) => return Ok(created),
                Err(error) if error.is_already_exists() => {
                    let existing = api.get(&name).await?;
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

    async fn renumber(
        &self,
        set: &Set,
        revision: &ControllerRevision,
        number: i64,
    ) -> Result<ControllerRevision, Error> {
        let api = self.revision_api(set);
        let name = revision.name_any();
        let mut revision = revision.clone();
        let mut attempt = 1;
        loop {
            if revision.revision == number {
                return Ok(revision);
            }
            revision.revision = number;
            let replaced = api.replace(&name, &PostParams::default(), &revision).await;
            match replaced.map_err(Error::from) {
                Ok(updated) => return Ok(updated),
                Err(error) if error.is_conflict() && attempt < CONFLICT_ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
            attempt += 1;
            revision = api.get(&name).await?;
        }
    }

    /// Deletes the oldest revisions beyond the limit that neither the set nor a pod is at.
    pub(super) async fn truncate_history(
        &self,
        set: &Set,
        revisions: &[ControllerRevision],
        chosen: Option<&Chosen>,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let chosen = chosen
            .into_iter()
            .flat_map(|chosen| [&chosen.current, &chosen.update]);
        let mut live: BTreeSet<String> = chosen.map(ResourceExt::name_any).collect();
        live.extend(pods.iter().map(|pod| pod::revision(pod).to_owned()));
        let api = self.revision_api(set);
        for name in history::to_truncate(revisions, &live, set.revision_history_limit()) {
            match api
                .delete(&name, &DeleteParams::default())
                .await
                .map_err(Error::from)
            {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn revision_api(&self, set: &Set) -> Api<ControllerRevision> {
        Api::namespaced(self.ctx.client.clone(), set.namespace())
    }
}
