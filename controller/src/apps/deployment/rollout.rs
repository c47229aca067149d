//! Carries a rollout on: makes the new ReplicaSet, moves replicas over, drops old history.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use kubeproof_runtime::decode;
use kubeproof_runtime::recorder::EventType;
use kubeproof_runtime::sync_error::Error;

use super::replica_sets::{HASH_LABEL, ReplicaSets, is_active, sum_wanted, wanted};
use super::scale::{self, Scale};
use super::status::{self, PROGRESSING};
use super::{Controller, owner_ref, progress_deadline, replicas, revision, stored_status};
use crate::workload::template_hash;

impl Controller {
    pub(super) async fn roll(
        &self,
        deployment: &mut Deployment,
        sets: &mut ReplicaSets,
    ) -> Result<Option<Duration>, Error> {
        self.ensure_new(deployment, sets).await?;
        if self.scale_new(deployment, sets).await? {
            return self.sync_rollout_status(deployment, sets).await;
        }
        let scales = scale::roll_old_down(deployment, sets);
        self.scale(deployment, sets, scales).await?;
        self.finish(deployment, sets).await
    }

    pub(super) async fn recreate(
        &self,
        deployment: &mut Deployment,
        sets: &mut ReplicaSets,
    ) -> Result<Option<Duration>, Error> {
        let down = sets.old.iter().filter(|set| is_active(set));
        let down = down.map(|set| Scale {
            name: set.name_any(),
            replicas: 0,
        });
        let down = down.collect();
        let is_scaled = self.scale(deployment, sets, down).await?;
        if is_scaled || self.old_pods_run(deployment, sets) {
            return self.sync_rollout_status(deployment, sets).await;
        }
        self.ensure_new(deployment, sets).await?;
        self.scale_new(deployment, sets).await?;
        self.finish(deployment, sets).await
    }

    async fn finish(
        &self,
        deployment: &mut Deployment,
        sets: &ReplicaSets,
    ) -> Result<Option<Duration>, Error> {
        if status::is_complete(deployment, &stored_status(deployment)) {
            self.clean_up(deployment, sets).await?;
        }
        self.sync_rollout_status(deployment, sets).await
    }

    /// Keeps number and annotations of the new set and of the deployment up to date.
    pub(super) async fn number_new(
        &self,
        deployment: &mut Deployment,
        sets: &mut ReplicaSets,
    ) -> Result<(), Error> {
        let Some(mut new) = sets.new.clone() else {
            return Ok(());
        };
        let number = revision::highest(sets.old.iter()) + 1;
        let mut is_changed = revision::annotate_new(new.annotations_mut(), deployment, number);
        let seconds = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.min_ready_seconds);
        if let Some(spec) = &mut new.spec
            && spec.min_ready_seconds.unwrap_or(0) != seconds.unwrap_or(0)
        {
            spec.min_ready_seconds = seconds;
            is_changed = true;
        }
        if is_changed {
            let (name, params) = (new.name_any(), PostParams::default());
            let written = self
                .sets_api(deployment)
                .replace(&name, &params, &new)
                .await?;
            sets.put(written);
            return Ok(());
        }
        let known = new.annotations().get(revision::REVISION);
        let mut needs_update = number_deployment(deployment, known.map_or("", String::as_str));
        let mut status = stored_status(deployment);
        if progress_deadline(deployment).is_some() && status::find(&status, PROGRESSING).is_none() {
            let message = format!("Found new replica set \"{}\"", new.name_any());
            let found = self.progressing("True", "FoundNewReplicaSet", &message);
            status::set(&mut status, found);
            needs_update = true;
        }
        if needs_update {
            self.write_status(deployment, status).await?;
        }
        Ok(())
    }

    fn progressing(
        &self,
        holds: &str,
        reason: &str,
        message: &str,
    ) -> k8s_openapi::api::apps::v1::DeploymentCondition {
        status::condition(PROGRESSING, holds, reason, message, (self.ctx.now)())
    }

    /// Creates the new set unless it is there.
    async fn ensure_new(
        &self,
        deployment: &mut Deployment,
        sets: &mut ReplicaSets,
    ) -> Result<(), Error> {
        if sets.new.is_some() {
            return Ok(());
        }
        let number = revision::highest(sets.old.iter()) + 1;
        let set = new_set(deployment, sets, number)?;
        let created = self
            .sets_api(deployment)
            .create(&PostParams::default(), &set)
            .await
            .map_err(Error::from);
        let (created, is_ours) = match created {
            Ok(created) => (created, true),
            Err(error) if error.is_already_exists() => {
                (self.taken(deployment, &set, error).await?, false)
            }
            Err(error) if error.is_namespace_terminating() => return Err(error),
            Err(error) => {
                self.record_create_error(deployment, &set, &error).await;
                return Err(error);
            }
        };
        let mut status = stored_status(deployment);
        let mut needs_update = number_deployment(deployment, &number.to_string());
        if is_ours {
            if wanted(&created) > 0 {
                self.record_scaled(deployment, &created, 0).await;
            }
            if progress_deadline(deployment).is_some() {
                let message = format!("Created new replica set \"{}\"", created.name_any());
                let condition = self.progressing("True", "NewReplicaSetCreated", &message);
                status::set(&mut status, condition);
                needs_update = true;
            }
        }
        sets.new = Some(created);
        if needs_update {
            self.write_status(deployment, status).await?;
        }
        Ok(())
    }

    /// The set that has the name already, if the cache only did not know that it is the new one.
    async fn taken(
        &self,
        deployment: &mut Deployment,
        set: &ReplicaSet,
        error: Error,
    ) -> Result<ReplicaSet, Error> {
        let found = self.sets_api(deployment).get(&set.name_any()).await?;
        let owner = kubeproof_runtime::controller_ref::controller_of(&found.metadata);
        let is_ours =
            owner.is_some_and(|owner| Some(&owner.uid) == deployment.metadata.uid.as_ref());
        if is_ours && let Some(found) = ReplicaSets::of(deployment, vec![found]).new {
            return Ok(found);
        }
        // The next attempt takes another name.
        let mut status = stored_status(deployment);
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        self.write_status(deployment, status).await?;
        Err(error)
    }

    async fn record_create_error(
        &self,
        deployment: &mut Deployment,
        set: &ReplicaSet,
        error: &Error,
    ) {
        let message = format!(
            "Failed to create new replica set \"{}\": {error}",
            set.name_any()
        );
        let reason = "ReplicaSetCreateError";
        if progress_deadline(deployment).is_some() {
            let mut status = stored_status(deployment);
            status::set(&mut status, self.progressing("False", reason, &message));
            // What matters is that the set is missing.
            if let Err(error) = self.write_status(deployment, status).await {
                tracing::info!(%error, "status not written");
            }
        }
        self.record_event(deployment, EventType::Warning, reason, &message)
            .await;
    }

    /// Gives the new set the replicas it may have. Returns whether that changed their number.
    async fn scale_new(
        &self,
        deployment: &Deployment,
        sets: &mut ReplicaSets,
    ) -> Result<bool, Error> {
        let Some(new) = &sets.new else {
            return Ok(false);
        };
        let (current, desired) = (wanted(new), replicas(deployment));
        let target = match current.cmp(&desired) {
            std::cmp::Ordering::Equal => return Ok(false),
            std::cmp::Ordering::Greater => desired,
            std::cmp::Ordering::Less => {
                scale::new_replicas(deployment, current, sum_wanted(sets.all()))
            }
        };
        if target == current {
            return Ok(false);
        }
        let scale = Scale {
            name: new.name_any(),
            replicas: target,
        };
        self.scale(deployment, sets, vec![scale]).await
    }

    /// Scales sets and notes on them what for. Returns whether any number of replicas changed.
    pub(super) async fn scale(
        &self,
        deployment: &Deployment,
        sets: &mut ReplicaSets,
        scales: Vec<Scale>,
    ) -> Result<bool, Error> {
        let mut is_any_scaled = false;
        for scale in scales {
            let Some(set) = sets.all().find(|set| set.name_any() == scale.name) else {
                continue;
            };
            let before = wanted(set);
            let mut set = set.clone();
            let is_noted = revision::annotate_scale(set.annotations_mut(), deployment);
            if before == scale.replicas && !is_noted {
                continue;
            }
            set.spec.get_or_insert_default().replicas = Some(scale.replicas);
            let params = PostParams::default();
            let api = self.sets_api(deployment);
            let written = api.replace(&scale.name, &params, &set).await?;
            if before != scale.replicas {
                self.record_scaled(deployment, &written, before).await;
                is_any_scaled = true;
            }
            sets.put(written);
        }
        Ok(is_any_scaled)
    }

    async fn record_scaled(&self, deployment: &Deployment, set: &ReplicaSet, before: i32) {
        let (name, after) = (set.name_any(), wanted(set));
        let direction = if before < after { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {name} from {before} to {after}");
        self.record_event(deployment, EventType::Normal, "ScalingReplicaSet", &message)
            .await;
    }

    /// Deletes old sets beyond the history limit.
    pub(super) async fn clean_up(
        &self,
        deployment: &Deployment,
        sets: &ReplicaSets,
    ) -> Result<(), Error> {
        let api = self.sets_api(deployment);
        for set in scale::to_clean_up(deployment, sets) {
            let deleted = api.delete(&set.name_any(), &DeleteParams::default()).await;
            match deleted.map_err(Error::from) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes the number of the rollout on the deployment. Returns whether that changed anything.
fn number_deployment(deployment: &mut Deployment, number: &str) -> bool {
    let annotations = deployment.annotations_mut();
    annotations
        .insert(revision::REVISION.to_owned(), number.to_owned())
        .as_deref()
        != Some(number)
}

/// The set for the deployment's template, as it is to be created.
fn new_set(deployment: &Deployment, sets: &ReplicaSets, number: i64) -> Result<ReplicaSet, Error> {
    let name = deployment.name_any();
    let spec = deployment.spec.clone().unwrap_or_default();
    let malformed = |source| Error::Malformed {
        what: format!("Deployment {name}"),
        source,
    };
    let raw = decode::to_value(&spec.template).map_err(malformed)?;
    let hash = template_hash::hash(&raw, stored_status(deployment).collision_count);
    let mut template = spec.template;
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    let match_labels = selector.match_labels.get_or_insert_default();
    match_labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let mut set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{hash}")),
            namespace: deployment.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![owner_ref(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(scale::new_replicas(
                deployment,
                0,
                sum_wanted(sets.old.iter()),
            )),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    };
    revision::annotate_new(set.annotations_mut(), deployment, number);
    revision::annotate_scale(set.annotations_mut(), deployment);
    Ok(set)
}
