//! Makes the claims of ephemeral volumes, binds claims to volumes, reclaims volumes, and protects claims that pods use.
//!
//! One worker does all of this, so that the order is always the same.

pub(crate) mod binder;
mod class_protection;
mod default_class;
mod ephemeral;
mod expansion;
mod matching;
pub(crate) mod provisioner;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::reference_to;
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::pod::{Pod, claims, is_not_owner};
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::reflector::Watches;
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::store::{Change, ObjectKey, Store};
use kubeproof_runtime::sync_error::answered;
use kubeproof_runtime::volume::class_of;
use serde_json::json;

use self::binder::{ClaimStep, PV_PROTECTION, VolumeStep};
use self::ephemeral::EphemeralVolumes;
use self::matching::Volumes;

const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";

enum Update {
    Claim(Event<Arc<PersistentVolumeClaim>>),
    Volume(Event<Arc<PersistentVolume>>),
    Pod(Event<Arc<Pod>>),
    Class(Event<Arc<VolumeAttributesClass>>),
    StorageClass(Event<Arc<StorageClass>>),
}

struct Controller {
    /// Signs what binding and reclaiming write.
    ctx: Context,
    claim_protection: Context,
    volume_protection: Context,
    class_protection: Context,
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    pods: Store<Pod>,
    classes: Store<VolumeAttributesClass>,
    follows_classes: bool,
    storage_classes: Store<StorageClass>,
    recorder: Recorder,
    dirty_claims: BTreeSet<ObjectKey>,
    dirty_volumes: BTreeSet<ObjectKey>,
    dirty_classes: BTreeSet<ObjectKey>,
    /// Pods that may lack the claim of an ephemeral volume.
    dirty_pods: BTreeSet<ObjectKey>,
    ephemeral: EphemeralVolumes,
    failures: u32,
}

/// Binds and protects for as long as it is polled. Claims wait for what their storage classes say if
/// it `follows_classes`; otherwise each gets a volume at once.
pub async fn run(ctx: Context, follows_classes: bool) {
    let claim_protection = ctx.for_component("pvc-protection-controller");
    let volume_protection = ctx.for_component("pv-protection-controller");
    let class_protection = ctx.for_component("volumeattributesclass-protection-controller");
    let ephemeral = EphemeralVolumes::new(&ctx);
    let ctx = ctx.for_component("persistentvolume-controller");
    let mut watches = Watches::new(&ctx.client)
        .watch(Update::Volume)
        .watch(Update::Pod)
        .watch(Update::Claim);
    if follows_classes {
        watches = watches.watch(Update::StorageClass);
    }
    watches = watches.watch(Update::Class);
    let mut this = Controller {
        recorder: Recorder::new(ctx.clone(), "persistentvolume-controller"),
        ctx,
        claim_protection,
        volume_protection,
        class_protection,
        claims: Store::default(),
        volumes: Store::default(),
        pods: Store::default(),
        classes: Store::default(),
        follows_classes,
        storage_classes: Store::default(),
        dirty_claims: BTreeSet::new(),
        dirty_volumes: BTreeSet::new(),
        dirty_classes: BTreeSet::new(),
        dirty_pods: BTreeSet::new(),
        ephemeral,
        failures: 0,
    };
    let mut retry: Option<Duration> = None;
    loop {
        let wait = retry.take();
        tokio::select! {
            biased;
            batch = watches.next_batch() => {
                for update in batch {
                    this.take_in(update);
                }
            }
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
        if this.is_synced() {
            retry = this.work().await;
        }
    }
}

impl Controller {
    fn is_synced(&self) -> bool {
        self.claims.is_synced()
            && self.volumes.is_synced()
            && self.pods.is_synced()
            && self.classes.is_synced()
            && (!self.follows_classes || self.storage_classes.is_synced())
    }

    fn take_in(&mut self, update: Update) {
        match update {
            Update::Claim(event) => {
                for change in self.claims.apply_by_uid(event) {
                    let claims = change.versions();
                    let names = claims.filter_map(|claim| claim.spec.as_ref()?.volume_name.clone());
                    self.dirty_volumes.extend(names.map(volume_key));
                    // A volume that is made for a claim and not yet named by it.
                    let claims = change.versions();
                    let made = claims.map(|claim| volume_key(binder::provisioned_name(claim)));
                    self.dirty_volumes.extend(made);
                    let key = change.key();
                    if matches!(change, Change::Deleted { .. }) {
                        // A pod that lives on gets its claim again.
                        let pods = self.pods.in_namespace(&key.namespace);
                        let pods = pods.filter(|pod| ephemeral::uses(pod, &key.name));
                        self.dirty_pods
                            .extend(pods.map(|pod| ObjectKey::of(&**pod)));
                    }
                    self.dirty_claims.insert(key);
                }
                self.dirty_leaving_classes();
            }
            Update::Volume(event) => {
                for change in self.volumes.apply_by_uid(event) {
                    let volumes = change.versions();
                    self.dirty_claims
                        .extend(volumes.filter_map(|volume| claim_of(volume)));
                    let is_gone = matches!(change, Change::Deleted { .. });
                    if !is_gone && claim_of(change.object()).is_none() {
                        // Any claim may have waited for it.
                        self.dirty_claims
                            .extend(self.claims.iter().map(|claim| ObjectKey::of(&**claim)));
                    }
                    self.dirty_volumes.insert(change.key());
                }
                self.dirty_leaving_classes();
            }
            Update::StorageClass(event) => {
                let changes = self.storage_classes.apply_by_uid(event);
                let names: BTreeSet<String> =
                    changes.iter().map(|change| change.key().name).collect();
                let mut versions = changes.iter().flat_map(Change::versions);
                let concerns_unnamed = versions.any(|class| default_class::is_default(class));
                let claims = self.claims.iter().filter(|claim| {
                    class_of(claim).is_some_and(|name| names.contains(name))
                        || concerns_unnamed && default_class::is_unnamed(claim)
                });
                self.dirty_claims
                    .extend(claims.map(|claim| ObjectKey::of(&**claim)));
            }
            Update::Class(event) => {
                let changes = self.classes.apply_by_uid(event);
                self.dirty_classes.extend(changes.iter().map(Change::key));
            }
            Update::Pod(event) => {
                for change in self.pods.apply_by_uid(event) {
                    let key = change.key();
                    match &change {
                        Change::Added(pod) if ephemeral::has_volumes(pod) => {
                            self.dirty_pods.insert(key);
                        }
                        Change::Added(_) | Change::Updated { .. } => {}
                        Change::Deleted { old, .. } => {
                            self.dirty_claims.extend(claims(old).map(|claim| ObjectKey {
                                namespace: key.namespace.clone(),
                                name: claim.name.into_owned(),
                            }));
                        }
                    }
                }
            }
        }
    }

    /// Works off what is dirty; how long to wait before the rest is tried again.
    async fn work(&mut self) -> Option<Duration> {
        let mut failed = false;
        for key in std::mem::take(&mut self.dirty_pods) {
            let Some(pod) = self.pods.get(&key) else {
                continue;
            };
            if let Err(error) = self.ephemeral.sync(pod, &self.claims).await {
                tracing::debug!(ns = key.namespace, name = key.name, %error, "pod not synced");
                self.dirty_pods.insert(key);
                failed = true;
            }
        }
        let claims = std::mem::take(&mut self.dirty_claims);
        let volumes = std::mem::take(&mut self.dirty_volumes);
        for key in claims {
            if let Err(error) = self.sync_claim(&key).await {
                tracing::debug!(ns = key.namespace, name = key.name, %error, "claim not synced");
                self.dirty_claims.insert(key);
                failed = true;
            }
        }
        for key in volumes {
            if let Err(error) = self.sync_volume(&key).await {
                tracing::debug!(name = key.name, %error, "volume not synced");
                self.dirty_volumes.insert(key);
                failed = true;
            }
        }
        for key in std::mem::take(&mut self.dirty_classes) {
            if let Err(error) = self.sync_class(&key).await {
                tracing::debug!(name = key.name, %error, "class not synced");
                self.dirty_classes.insert(key);
                failed = true;
            }
        }
        self.failures = if failed { self.failures + 1 } else { 0 };
        failed.then(|| retry_after(self.failures))
    }

    fn claims_api(&self, key: &ObjectKey) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.ctx.client.clone(), &key.namespace)
    }

    fn volumes_api(&self) -> Api<PersistentVolume> {
        Api::all(self.ctx.client.clone())
    }

    async fn sync_claim(&self, key: &ObjectKey) -> Result<(), kube::Error> {
        let Some(claim) = self.claims.get(key).cloned() else {
            return Ok(());
        };
        if self.sync_protection(key, &claim).await? {
            return Ok(());
        }
        let volumes: Volumes = self
            .volumes
            .iter()
            .map(|volume| (volume.name_any(), Arc::clone(volume)))
            .collect();
        let class = class_of(&claim).map(|name| volume_key(name.to_owned()));
        let class = class.and_then(|key| self.storage_classes.get(&key).cloned());
        match binder::claim_step(&claim, &volumes, class.as_deref()) {
            ClaimStep::WaitForConsumer => {
                let message = "waiting for first consumer to be created before binding";
                self.record_event(&claim, "WaitForFirstConsumer", message)
                    .await;
                Ok(())
            }
            ClaimStep::HandOver(provisioner) => self.hand_over(key, &claim, provisioner).await,
            ClaimStep::Nothing => {
                let name = claim
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.volume_name.as_ref());
                match name.and_then(|name| volumes.get(name)) {
                    Some(volume) => {
                        let grown = expansion::expand(&self.ctx.client, &claim, volume).await;
                        gone_is_fine(grown)
                    }
                    None => Ok(()),
                }
            }
            ClaimStep::Provision(_) if self.waits_for_class(&claim) => {
                self.assign_class(key, &claim).await
            }
            ClaimStep::Provision(name) => self.provision(&claim, &name).await,
            ClaimStep::Reserve(name) => {
                let volume = volumes.get(&name).map(|volume| &**volume);
                let params = PatchParams::default();
                let patch = Patch::Merge(binder::reserve_patch(volume, &claim));
                self.volumes_api()
                    .patch(&name, &params, &patch)
                    .await
                    .map(|_| ())
            }
            ClaimStep::Bind(name) => self.bind(key, &claim, &name).await,
            ClaimStep::ReportBound(name) => match volumes.get(&name) {
                Some(volume) => {
                    self.patch_status(key, binder::bound_patch(&claim, volume))
                        .await
                }
                None => Ok(()),
            },
            ClaimStep::ReportLost => {
                let patch = json!({
                    "metadata": { "uid": claim.metadata.uid },
                    "status": { "phase": "Lost", "accessModes": null, "capacity": null },
                });
                self.patch_status(key, patch).await
            }
        }
    }

    /// Whether the claim needs the default class. Without any class there is nothing that it could wait for.
    fn waits_for_class(&self, claim: &PersistentVolumeClaim) -> bool {
        let has_classes = self.storage_classes.iter().next().is_some();
        has_classes && default_class::is_unnamed(claim)
    }

    /// Names the default class in the claim, once there is one.
    async fn assign_class(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), kube::Error> {
        let classes = self.storage_classes.iter().map(|class| &**class);
        let Some(name) = default_class::default_class(classes) else {
            return Ok(());
        };
        let metadata = json!({ "uid": claim.metadata.uid });
        let patch = json!({ "metadata": metadata, "spec": { "storageClassName": name } });
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let patched = self.claims_api(key).patch(&key.name, &params, &patch).await;
        gone_is_fine(patched.map(|_| ()))
    }

    async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        name: &str,
    ) -> Result<(), kube::Error> {
        let wanted = from_value(binder::provisioned(claim));
        let wanted: PersistentVolume = wanted.map_err(kube::Error::SerdeError)?;
        match self
            .volumes_api()
            .create(&PostParams::default(), &wanted)
            .await
        {
            // Made before, its event is on the way.
            Err(error) if answered(&error, 409) => {
                tracing::debug!(name, "volume exists");
                Ok(())
            }
            created => created.map(|_| ()),
        }
    }

    /// Annotates the claim for an external provisioner.
    async fn hand_over(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        provisioner: &str,
    ) -> Result<(), kube::Error> {
        let annotations = json!({
            "volume.beta.kubernetes.io/storage-provisioner": provisioner,
            binder::STORAGE_PROVISIONER: provisioner,
        });
        let metadata = json!({ "uid": claim.metadata.uid, "annotations": annotations });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let params = PatchParams::default();
        let patched = self.claims_api(key).patch(&key.name, &params, &patch).await;
        gone_is_fine(patched.map(|_| ()))?;
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner \
             '{provisioner}' or manually by the system administrator. If volume creation is \
             delayed, please verify that the provisioner is running and correctly registered."
        );
        self.record_event(claim, "ExternalProvisioning", &message)
            .await;
        Ok(())
    }

    async fn record_event(&self, claim: &PersistentVolumeClaim, reason: &str, message: &str) {
        let involved = reference_to("v1", "PersistentVolumeClaim", &claim.metadata);
        self.recorder
            .publish(&involved, EventType::Normal, reason, message)
            .await;
    }

    async fn bind(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        volume: &str,
    ) -> Result<(), kube::Error> {
        let patch = Patch::Merge(binder::bind_patch(claim, volume));
        let params = PatchParams::default();
        let bound = self.claims_api(key).patch(&key.name, &params, &patch).await;
        gone_is_fine(bound.map(|_| ()))
    }

    async fn patch_status(
        &self,
        key: &ObjectKey,
        patch: serde_json::Value,
    ) -> Result<(), kube::Error> {
        let params = PatchParams::default();
        let api = self.claims_api(key);
        let patched = api
            .patch_status(&key.name, &params, &Patch::Merge(patch))
            .await;
        gone_is_fine(patched.map(|_| ()))
    }

    /// Keeps the claim's finalizer as it should be; whether that took a write.
    async fn sync_protection(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
    ) -> Result<bool, kube::Error> {
        let mut finalizers = claim.metadata.finalizers.clone().unwrap_or_default();
        let protected = finalizers
            .iter()
            .any(|finalizer| finalizer == PVC_PROTECTION);
        let deleting = claim.metadata.deletion_timestamp.is_some();
        match (deleting, protected) {
            (false, false) => finalizers.push(PVC_PROTECTION.to_owned()),
            (true, true) if !self.is_used(key, claim).await? => {
                finalizers.retain(|finalizer| finalizer != PVC_PROTECTION);
            }
            _ => return Ok(false),
        }
        let patch = json!({ "metadata": {
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
            "finalizers": finalizers,
        } });
        let params = PatchParams::default();
        let client = self.claim_protection.client.clone();
        let api: Api<PersistentVolumeClaim> = Api::namespaced(client, &key.namespace);
        let patched = api.patch(&key.name, &params, &Patch::Merge(patch)).await;
        match patched {
            Err(error) if answered(&error, 404) => Ok(true),
            patched => patched.map(|_| true),
        }
    }

    /// Whether a pod on a node uses the claim: in the store, then for certain.
    ///
    /// An unscheduled pod can't start with a claim that is being deleted.
    async fn is_used(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
    ) -> Result<bool, kube::Error> {
        let mut known = self.pods.in_namespace(&key.namespace);
        if known.any(|pod| uses(pod, claim)) {
            return Ok(true);
        }
        let client = self.claim_protection.client.clone();
        let api: Api<Pod> = Api::namespaced(client, &key.namespace);
        let live = api.list(&ListParams::default()).await?;
        Ok(live.items.iter().any(|pod| uses(pod, claim)))
    }

    async fn sync_volume(&self, key: &ObjectKey) -> Result<(), kube::Error> {
        let Some(volume) = self.volumes.get(key).cloned() else {
            return Ok(());
        };
        let claim = claim_of(&volume).and_then(|key| self.claims.get(&key).cloned());
        let api = self.volumes_api();
        let params = PatchParams::default();
        let done = match binder::volume_step(&volume, claim.as_deref()) {
            VolumeStep::Nothing => Ok(()),
            VolumeStep::Report(phase) => {
                let patch = json!({
                    "metadata": { "uid": volume.metadata.uid },
                    "status": { "phase": phase },
                });
                api.patch_status(&key.name, &params, &Patch::Merge(patch))
                    .await
                    .map(|_| ())
            }
            VolumeStep::Delete => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: volume.metadata.uid.clone(),
                        resource_version: None,
                    }),
                    ..DeleteParams::default()
                };
                api.delete(&key.name, &params).await.map(|_| ())
            }
            VolumeStep::Unprotect => {
                let mut finalizers = volume.metadata.finalizers.clone().unwrap_or_default();
                finalizers.retain(|finalizer| finalizer != PV_PROTECTION);
                let patch = json!({ "metadata": {
                    "uid": volume.metadata.uid,
                    "resourceVersion": volume.metadata.resource_version,
                    "finalizers": finalizers,
                } });
                let api: Api<PersistentVolume> = Api::all(self.volume_protection.client.clone());
                api.patch(&key.name, &params, &Patch::Merge(patch))
                    .await
                    .map(|_| ())
            }
        };
        gone_is_fine(done)
    }
}

fn volume_key(name: String) -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name,
    }
}

fn claim_of(volume: &PersistentVolume) -> Option<ObjectKey> {
    let tied = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectKey {
        namespace: tied.namespace.clone()?,
        name: tied.name.clone()?,
    })
}

/// Whether a pod on a node uses the claim: by its name, or for an ephemeral volume, if the claim was made for the pod. A pod
/// that has been shut down uses no claim of an ephemeral volume any more.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let is_shut_down = pod.metadata.deletion_grace_period_seconds == Some(0);
    let has_own = || !is_shut_down && is_not_owner(pod, claim).is_none();
    node.is_some_and(|node| !node.is_empty())
        && claims(pod).any(|used| used.name == name && (!used.is_ephemeral || has_own()))
}

fn gone_is_fine(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(error) if answered(&error, 404) => Ok(()),
        result => result,
    }
}
