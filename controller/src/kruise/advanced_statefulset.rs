//! The Advanced StatefulSet controller of OpenKruise: pods with ordinals, updated several at a time,
//! in place, and in any order.

mod apply;
mod claim_size;
mod observed;
mod reconcile;
mod rollout;
mod set;
mod status;
mod sync;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::controller_ref::controller_of;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::typed_cache::TypedCache;
use kubeproof_runtime::version_expectations::VersionExpectations;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker;

use self::claim_size::SET_ANNOTATION;
use self::set::{KIND, Set};
use crate::kruise::pre_download::PreDownload;
use crate::kruise::{GROUP, Gates, StatefulSet};
use crate::workload::revision_control::Revisions;

/// The controller's name: its user agent.
pub const NAME: &str = "asts-controller";
/// The source of its events, which is also that of its plain kin.
const EVENT_SOURCE: &str = "statefulset-controller";
/// The number of sets synced at once.
const WORKERS: usize = 3;

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
    /// Pods that were updated in place.
    updates: VersionExpectations,
    pre_download: Option<PreDownload>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, gates: Gates) {
    let ctx = ctx.for_component(NAME);
    let recorder = Recorder::new(ctx.clone(), EVENT_SOURCE);
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
        updates: VersionExpectations::default(),
    };
    controller.run().await;
}

impl Controller {
    /// Feeds the caches and the queue. Changes of revisions trigger nothing, and neither do pods without
    /// an owner, nor claims that were not resized.
    async fn run(&self) {
        let resource = ApiResource::erase::<StatefulSet>(&());
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

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>) {
        let Change::Updated { new, .. } = change else {
            return;
        };
        let set = new.annotations().get(SET_ANNOTATION);
        if let Some(name) = set.filter(|_| self.gates.auto_resize_claims) {
            self.queue.add(ObjectKey {
                namespace: new.namespace().unwrap_or_default(),
                name: name.clone(),
            });
        }
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let pods = match change {
            Change::Added(pod) => vec![pod],
            Change::Deleted { last: pod, .. } => {
                self.updates.forget(&**pod);
                vec![pod]
            }
            Change::Updated { old, new } => vec![old, new],
        };
        for key in pods.into_iter().filter_map(|pod| owner(pod)) {
            self.queue.add(key);
        }
    }
}

/// The Advanced StatefulSet that controls the pod, by its name.
fn owner(pod: &Pod) -> Option<ObjectKey> {
    let owner = controller_of(pod.meta())?;
    let (group, _) = owner.api_version.split_once('/')?;
    (owner.kind == KIND && group == GROUP).then(|| ObjectKey {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: owner.name.clone(),
    })
}
