//! A set's controller revisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kube::core::Selector;
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::sync_error::Error;

use super::Controller;
use super::set::Set;
use crate::workload::history::{self, Proposal};
use crate::workload::revision_control::{Chosen, RevisionControl};

impl Controller {
    /// The selected revisions that the set controls or that have no controller, oldest first.
    pub(super) fn list_revisions(
        &self,
        set: &Set,
        selector: &Selector,
    ) -> Vec<Arc<ControllerRevision>> {
        let cached = self.revisions.claimable(set.namespace(), set.uid());
        self.revision_control(set).list(cached, selector)
    }

    /// Adopts selected revisions that have no controller.
    pub(super) async fn adopt_revisions(
        &self,
        set: &Set,
        selector: &Selector,
    ) -> Result<(), Error> {
        let mut orphans = self.list_revisions(set, selector);
        let is_orphan =
            |revision: &Arc<ControllerRevision>| controller_of(&revision.metadata).is_none();
        if !orphans.iter().any(is_orphan) {
            return Ok(());
        }
        if !set.profile().is_old() {
            // Old controllers patched all of them for the sake of one.
            orphans.retain(is_orphan);
        }
        self.confirm_adoption(set, "ControllerRevisions").await?;
        self.revision_control(set).adopt(&orphans).await
    }

    /// Finds or makes the update revision, and finds the current one.
    pub(super) async fn choose_revisions(
        &self,
        set: &Set,
        revisions: &[Arc<ControllerRevision>],
    ) -> Result<Chosen, Error> {
        let status = set.status();
        let template_meta = set.spec().template.metadata.clone().unwrap_or_default();
        let proposal = Proposal {
            owner: set.meta(),
            owner_ref: set.owner_ref(),
            template_labels: template_meta.labels.unwrap_or_default(),
            own_annotations: Default::default(),
            data: set.revision_data(),
            revision: history::next_number(revisions),
            collision_count: status.collision_count.unwrap_or(0),
        };
        let current = status.current_revision.as_deref();
        let control = self.revision_control(set);
        control.choose(revisions, proposal, current).await
    }

    /// Deletes the oldest revisions beyond the limit that neither the set nor a pod is at.
    pub(super) async fn truncate_history(
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
        let control = self.revision_control(set);
        let limit = set.revision_history_limit();
        control.truncate(revisions, &live, limit).await
    }

    fn revision_control<'a>(&'a self, set: &'a Set) -> RevisionControl<'a> {
        RevisionControl {
            client: &self.ctx.client,
            namespace: set.namespace(),
            reference: set.owner_ref(),
        }
    }
}
