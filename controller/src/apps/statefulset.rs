//! The StatefulSet controller of Kubernetes 1.36: pods with ordinals, created and replaced in
//! order, each with claims of its own.

mod apply;
mod profile;
mod reconcile;
mod revisions;
pub(crate) mod set;
mod status;
mod sync;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_machinery::meta::ResourceVersion;
use kubeproof_runtime::consistency::{ConsistencyStore, ReadVersion};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::typed_cache::TypedCache;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

pub use self::profile::{Profile, Settings};
use self::set::{Cached, Set};
use crate::workload::event_handlers;
use crate::workload::revision_control::Revisions;

/// The controller's name: its user agent and the source of its events.
pub const NAME: &str = "statefulset-controller";
/// The group resources that the controller writes.
const PODS: &str = "pods";
const CLAIMS: &str = "persistentvolumeclaims";
const SETS: &str = "statefulsets.apps";
/// The number of sets synced at once.
const WORKERS: usize = 5;

struct Controller {
    ctx: Context,
    settings: Settings,
    recorder: Recorder,
    queue: WorkQueue<ObjectKey>,
    /// Untyped: a revision is made of the template's own bytes.
    sets: Informer<DynamicObject>,
    read: TypedCache<Set>,
    read_revisions: Revisions,
    pods: Informer<Pod>,
    claims: Informer<PersistentVolumeClaim>,
    revisions: Informer<ControllerRevision>,
    consistency: ConsistencyStore,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, settings: Settings) {
    let controller = Controller::new(ctx.for_component(NAME), settings);
    controller.run().await;
}

impl Controller {
    fn new(ctx: Context, settings: Settings) -> Self {
        Self {
            settings,
            recorder: Recorder::new(ctx.clone(), NAME),
            ctx,
            queue: WorkQueue::new(),
            sets: Informer::new(),
            read: TypedCache::default(),
            read_revisions: Revisions::default(),
            pods: Informer::new(),
            claims: Informer::new(),
            revisions: Informer::new(),
            consistency: ConsistencyStore::default(),
        }
    }

    /// Feeds the caches and the queue. Changes of claims and revisions trigger nothing.
    async fn run(&self) {
        let resource = ApiResource::erase::<StatefulSet>(&());
        let sets = Api::all_with(self.ctx.client.clone(), &resource);
        Informers::new(&self.ctx.client)
            .add_with(&self.sets, sets, watcher::Config::default(), |change| {
                self.queue.add(change.key());
            })
            .add(&self.pods, |change| self.pod_changed(change))
            .add(&self.claims, |_| {})
            .add(&self.revisions, |_| {})
            .run(worker::run(self, &self.queue, WORKERS))
            .await;
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let (old, new) = (change.replaced(), change.object());
        let owner = |pod: &Arc<Pod>| controller_of(&pod.metadata).map(|owner| owner.name.clone());
        let owners = [old.and_then(owner), owner(new)];
        let namespace = new.namespace().unwrap_or_default();
        let cached: Vec<_> = if owners[1].is_some() {
            let named = owners.into_iter().flatten();
            let named = named.filter_map(|owner| self.sets.get(&namespace, &owner));
            named.collect()
        } else {
            // Only an orphan concerns sets that it does not name.
            self.sets.in_namespace(&namespace)
        };
        let sets: Vec<Cached> = cached.into_iter().map(Cached).collect();
        for request in event_handlers::requests_for_pod(change, &sets) {
            self.queue.add_after(request.key, request.after);
        }
    }

    /// Refuses to act on caches that lack what earlier syncs of the set wrote.
    fn check_caches(&self, key: &ObjectKey) -> Result<(), Error> {
        if self.settings.profile.is_old() {
            return Ok(());
        }
        let caches: [(&'static str, &dyn ReadVersion); 3] = [
            (PODS, &self.pods),
            (CLAIMS, &self.claims),
            (SETS, &self.sets),
        ];
        self.consistency.ensure_ready(key, &caches)
    }

    fn wrote_pod(&self, set: &Set, rv: ResourceVersion) {
        let written = self.pods.wrote_at(rv);
        self.consistency
            .wrote_at(&set.key(), set.uid(), PODS, written);
    }

    fn wrote_claim(&self, set: &Set, rv: ResourceVersion) {
        let written = self.claims.wrote_at(rv);
        self.consistency
            .wrote_at(&set.key(), set.uid(), CLAIMS, written);
    }

    fn wrote_status(&self, set: &Set, uid: &str, rv: ResourceVersion) {
        let written = self.sets.wrote_at(rv);
        self.consistency.wrote_at(&set.key(), uid, SETS, written);
    }
}
