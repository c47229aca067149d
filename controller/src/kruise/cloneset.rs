//! The CloneSet controller of OpenKruise: pods without identity, scaled and updated within limits.

mod apply;
mod availability;
mod numbers;
mod pods;
mod scale;
pub(crate) mod set;
mod status;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::named_expectations::{Expected, NamedExpectations};
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::typed_cache::TypedCache;
use kubeproof_runtime::version_expectations::VersionExpectations;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

use self::set::{KIND, Set};
use crate::kruise::pre_download::PreDownload;
use crate::kruise::{CloneSet, GROUP, Gates};
use crate::workload::revision_control::Revisions;

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "cloneset-controller";
/// The number of sets synced at once.
const WORKERS: usize = 3;
/// The delay before a sync that an unexpected creation triggers. Upstream means it to grow up to 30 s, but counts each event as another
/// item.
///
/// Source: OpenKruise, `cloneset_event_handler.go`, `initialingRateLimiter`.
const INITIAL_DELAY: Duration = Duration::from_secs(3);

struct Controller {
    ctx: Context,
    gates: Gates,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    /// Untyped: a revision is made of the template's own bytes.
    sets: Informer<DynamicObject>,
    read: TypedCache<Set>,
    read_revisions: Revisions,
    pods: Informer<Pod>,
    claims: Informer<PersistentVolumeClaim>,
    revisions: Informer<ControllerRevision>,
    expectations: NamedExpectations,
    versions: VersionExpectations,
    pre_download: Option<PreDownload>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, gates: Gates) {
    let ctx = ctx.for_component(NAME);
    let recorder = Recorder::new(ctx.clone(), NAME);
    let controller = Controller {
        pre_download: PreDownload::new(&ctx, &recorder, gates),
        recorder,
        ctx,
        gates,
        queue: WorkQueue::new(),
        sets: Informer::new(),
        read: TypedCache::default(),
        read_revisions: Revisions::default(),
        pods: Informer::new(),
        claims: Informer::new(),
        revisions: Informer::new(),
        expectations: NamedExpectations::default(),
        versions: VersionExpectations::default(),
    };
    controller.run().await;
}

impl Controller {
    async fn run(&self) {
        let resource = ApiResource::erase::<CloneSet>(&());
        let sets = Api::all_with(self.ctx.client.clone(), &resource);
        let pre_download = async {
            if let Some(pre_download) = &self.pre_download {
                pre_download.run().await;
            }
        };
        Informers::new(&self.ctx.client)
            .add_with(&self.sets, sets, watcher::Config::default(), |change| {
                self.queue.add(change.key());
            })
            .add(&self.pods, |change| self.pod_changed(change))
            .add(&self.claims, |change| self.claim_changed(change))
            .add(&self.revisions, |_| {})
            .with(pre_download)
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        match change {
            Change::Added(pod) if pod::is_terminating(pod) => self.gone(&**pod),
            // Orphans are ignored: no set adopts them.
            Change::Added(pod) => {
                if let Some(key) = owner(&**pod) {
                    self.came(&key, &pod.name_any());
                }
            }
            Change::Deleted { last: pod, .. } => {
                self.versions.forget(&**pod);
                self.gone(&**pod);
            }
            Change::Updated { old, new } => self.pod_updated(old, new),
        }
    }

    fn pod_updated(&self, old: &Arc<Pod>, new: &Arc<Pod>) {
        if pod::is_terminating(new) {
            self.versions.forget(&**new);
            self.gone(&**new);
            return;
        }
        let (before, after) = (owner(&**old), owner(&**new));
        for key in before.into_iter().chain(after) {
            self.queue.add(key);
        }
    }

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>) {
        match change {
            Change::Added(claim) if claim.metadata.deletion_timestamp.is_some() => {
                self.gone(&**claim);
            }
            Change::Added(claim) => {
                if let Some(key) = owner(&**claim) {
                    self.came(&key, &claim.name_any());
                }
            }
            Change::Updated { new, .. } if new.metadata.deletion_timestamp.is_some() => {
                self.gone(&**new);
            }
            Change::Updated { .. } => {}
            Change::Deleted { last: claim, .. } => self.gone(&**claim),
        }
    }

    /// Handles the creation of an object of a set. An object that was not expected existed before,
    /// and more like it most likely follow.
    fn came(&self, key: &ObjectKey, name: &str) {
        let was_satisfied = self.expectations.is_satisfied(key);
        self.expectations.observe(key, Expected::Creation, name);
        match was_satisfied {
            true => self.queue.add_after(key.clone(), INITIAL_DELAY),
            false => self.queue.add(key.clone()),
        }
    }

    /// Something of a set was deleted, or is about to be.
    fn gone(&self, object: &impl Resource<DynamicType = ()>) {
        if let Some(key) = owner(object) {
            let name = object.meta().name.clone().unwrap_or_default();
            self.expectations.observe(&key, Expected::Deletion, &name);
            self.queue.add(key);
        }
    }
}

/// The CloneSet that controls the object, by its name.
fn owner(object: &impl Resource) -> Option<ObjectKey> {
    let meta = object.meta();
    let owner = controller_of(meta)?;
    let (group, _) = owner.api_version.split_once('/')?;
    (owner.kind == KIND && group == GROUP).then(|| ObjectKey {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: owner.name.clone(),
    })
}
