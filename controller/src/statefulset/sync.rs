//! One sync of one set: read, adopt, decide, act, report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::core::{Selector, SelectorExt};
use kube::{Api, ResourceExt};

use super::apply::{Effects, write_status};
use super::error::Error;
use super::identity;
use super::reconcile::{self, Observed};
use super::revisions::Chosen;
use super::set::Set;
use super::{Controller, Key};
use crate::controller_ref::{Claim, adopt_patch, claim, release_patch};

impl Controller {
    /// Brings the set nearer to its spec. Returns when to look again though nothing happens.
    pub(super) async fn sync(&self, key: &Key) -> Result<Option<Duration>, Error> {
        self.check_caches(key)?;
        let Some(object) = self.sets.get(&key.namespace, &key.name) else {
            self.writes.lock().remove(key);
            return Ok(None);
        };
        let set = Set::parse(&object)?;
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
        self.update(&set, &selector, &pods).await
    }

    /// Revisions, pods, status, history; history even when the rest failed.
    async fn update(
        &self,
        set: &Set,
        selector: &Selector,
        pods: &[Arc<Pod>],
    ) -> Result<Option<Duration>, Error> {
        let revisions = self.list_revisions(set, selector);
        let (chosen, updated) = match self.choose_revisions(set, &revisions).await {
            Ok(chosen) => {
                let updated = self.update_pods(set, &chosen, pods).await;
                (Some(chosen), updated)
            }
            Err(error) => (None, Err(error)),
        };
        let truncated = self
            .truncate_history(set, &revisions, chosen.as_ref(), pods)
            .await;
        match (updated, truncated) {
            (Ok(requeue_after), Ok(())) => Ok(requeue_after),
            (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
            (Err(error), Err(other)) => Err(Error::Many(vec![error, other])),
        }
    }

    async fn update_pods(
        &self,
        set: &Set,
        chosen: &Chosen,
        pods: &[Arc<Pod>],
    ) -> Result<Option<Duration>, Error> {
        let (current, update) = chosen.templates()?;
        let cached = self.claims.in_namespace(set.namespace()).into_iter();
        let claims: BTreeMap<_, _> = cached.map(|claim| (claim.name_any(), claim)).collect();
        let observed = Observed {
            set,
            current: &current,
            update: &update,
            collision_count: chosen.collision_count,
            pods,
            claims: &claims,
            now: (self.ctx.now)(),
        };
        let plan = reconcile::plan(observed);
        let mut status = plan.status;
        let acted = Effects::new(self, observed)
            .run(plan.batches, &mut status)
            .await;
        let reported = write_status(self, set, status).await;
        // What kept the pods from moving matters more than a status that could not be told.
        acted.and(reported)?;
        Ok(plan.requeue_after)
    }

    /// The set's pods, by name, after adopting orphans and releasing strangers.
    async fn claim_pods(&self, set: &Set, selector: &Selector) -> Result<Vec<Arc<Pod>>, Error> {
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), set.namespace());
        let mut claimed = Vec::new();
        let mut errors = Vec::new();
        let mut confirmed: Option<bool> = None;
        for pod in self.pods.in_namespace(set.namespace()) {
            let matches = selector.matches(pod.labels()) && identity::is_member(set, &pod);
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let (name, params) = (pod.name_any(), PatchParams::default());
            match claim(set.meta(), &pod.metadata, matches) {
                Claim::Ignore => {}
                Claim::Keep => claimed.push(pod),
                Claim::Release => {
                    let patch = Patch::Strategic(release_patch(set.uid(), uid));
                    match api.patch(&name, &params, &patch).await.map_err(Error::from) {
                        Ok(released) => self.wrote_pod(set, &released),
                        // Gone, or replaced by another pod: released all the same.
                        Err(error) if error.is_not_found() || error.is_invalid() => {}
                        Err(error) => errors.push(error),
                    }
                }
                Claim::Adopt => {
                    if confirmed.is_none() {
                        let outcome = self.confirm_adoption(set, "Pods").await;
                        confirmed = Some(outcome.is_ok());
                        errors.extend(outcome.err());
                    }
                    if confirmed == Some(false) {
                        continue;
                    }
                    let patch = Patch::Strategic(adopt_patch(&set.owner_ref(), uid));
                    match api.patch(&name, &params, &patch).await.map_err(Error::from) {
                        Ok(adopted) => {
                            self.wrote_pod(set, &adopted);
                            claimed.push(pod);
                        }
                        Err(error) if error.is_not_found() => {}
                        Err(error) => errors.push(error),
                    }
                }
            }
        }
        Error::collect(errors)?;
        Ok(claimed)
    }

    /// Asks the server, not the cache, that the set is still there to adopt anything.
    pub(super) async fn confirm_adoption(
        &self,
        set: &Set,
        what: &'static str,
    ) -> Result<(), Error> {
        let api: Api<StatefulSet> = Api::namespaced(self.ctx.client.clone(), set.namespace());
        let live = api.get(set.name()).await?;
        let (namespace, name) = (set.namespace(), set.name());
        let uid = live.metadata.uid.as_deref().unwrap_or_default();
        if uid != set.uid() {
            let reason = format!(
                "original StatefulSet {namespace}/{name} is gone: got uid {uid}, wanted {}",
                set.uid()
            );
            return Err(Error::CannotAdopt { what, reason });
        }
        if let Some(time) = live.metadata.deletion_timestamp {
            let reason = format!("{namespace}/{name} has just been deleted at {}", time.0);
            return Err(Error::CannotAdopt { what, reason });
        }
        Ok(())
    }
}
