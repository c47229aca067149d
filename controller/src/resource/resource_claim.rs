//! The resourceclaim controller: makes the claims of pods from templates, and ends the use of claims by pods that are done.
//!
//! Source: `pkg/controller/resourceclaim/controller.go`.

mod apply;
mod reconcile;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::ResourceExt;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::recorder::Recorder;
use kubeproof_runtime::resource_claim::{of_pod, used_claim};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use lru::LruCache;
use parking_lot::Mutex;

/// The controller's name: its user agent.
pub const NAME: &str = "resource-claim-controller";
/// The source of its events.
const COMPONENT: &str = "resource_claim";
/// The number of objects of a kind synced at once.
const WORKERS: usize = 5;
/// The number of deleted pods that are remembered.
const DELETED_MAX: NonZeroUsize = NonZeroUsize::new(500).expect("it is more than none");
/// The number of claims that are remembered after they were made, and for how long (client-go's mutation cache).
const MADE_MAX: NonZeroUsize = NonZeroUsize::new(100).expect("it is more than none");
const MADE_KEPT: SignedDuration = SignedDuration::from_hours(1);

struct Controller {
    ctx: Context,
    recorder: Recorder,
    pods_queue: WorkQueue<ObjectKey>,
    claims_queue: WorkQueue<ObjectKey>,
    pods: Informer<Pod>,
    claims: Informer<ResourceClaim>,
    templates: Informer<ResourceClaimTemplate>,
    /// The claims that the controller has made lately, by uid, with the time until which they are remembered. A claim that was
    /// deleted since is not made again before that.
    made: Mutex<LruCache<String, (Arc<ResourceClaim>, Timestamp)>>,
    /// The uids of deleted pods, whose reservations end without asking the server.
    deleted: Mutex<LruCache<String, ()>>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let controller = Controller {
        recorder: Recorder::new(ctx.clone(), COMPONENT),
        ctx,
        pods_queue: WorkQueue::new(),
        claims_queue: WorkQueue::new(),
        pods: Informer::new(),
        claims: Informer::new(),
        templates: Informer::new(),
        made: Mutex::new(LruCache::new(MADE_MAX)),
        deleted: Mutex::new(LruCache::new(DELETED_MAX)),
    };
    let (pods, claims) = (Pods(&controller), Claims(&controller));
    let work = async {
        let pods = worker::run(&pods, &controller.pods_queue, WORKERS);
        let claims = worker::run(&claims, &controller.claims_queue, WORKERS);
        join(pods, claims).await;
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.pods, |change| match change {
            Change::Deleted { last, .. } => controller.pod_deleted(last),
            Change::Added(pod) | Change::Updated { new: pod, .. } => controller.pod_changed(pod),
        })
        .add(&controller.claims, |change| {
            controller.claim_changed(change)
        })
        .add(&controller.templates, |change| {
            if !matches!(change, Change::Deleted { .. }) {
                controller.template_changed(change.object());
            }
        })
        .run(work)
        .await;
}

impl Controller {
    fn pod_deleted(&self, pod: &Pod) {
        if !reconcile::has_claims(pod) {
            return;
        }
        self.deleted.lock().put(pod.uid().unwrap_or_default(), ());
        self.add_claims_of(pod);
    }

    fn pod_changed(&self, pod: &Pod) {
        if !reconcile::has_claims(pod) {
            return;
        }
        if reconcile::is_done(pod) {
            self.add_claims_of(pod);
        }
        let namespace = pod.namespace().unwrap_or_default();
        if reconcile::needs_work(pod, |name| self.claims.get(&namespace, name)) {
            self.pods_queue.add(ObjectKey::of(pod));
        }
    }

    /// Enqueues the claims of a pod that no longer needs them.
    fn add_claims_of(&self, pod: &Pod) {
        let namespace = pod.namespace().unwrap_or_default();
        for name in reconcile::names_of_claims(pod) {
            self.claims_queue.add(ObjectKey {
                namespace: namespace.clone(),
                name: name.to_owned(),
            });
        }
    }

    fn claim_changed(&self, change: &Change<ResourceClaim>) {
        let key = change.key();
        if !matches!(change, Change::Deleted { .. }) {
            self.claims_queue.add(key.clone());
        }
        self.pods_where(&key.namespace, |pod| {
            let used = of_pod(pod).iter().map(|own| used_claim(pod, own));
            let mut used = used.filter_map(|used| used.ok().flatten());
            used.any(|used| used.name == key.name)
        });
    }

    fn template_changed(&self, template: &ResourceClaimTemplate) {
        let (namespace, name) = (
            template.namespace().unwrap_or_default(),
            template.name_any(),
        );
        self.pods_where(&namespace, |pod| {
            let mut claims = of_pod(pod).iter();
            claims.any(|own| own.resource_claim_template_name.as_ref() == Some(&name))
        });
    }

    /// Looks again at the pods of a namespace that a change concerns.
    fn pods_where(&self, namespace: &str, concerns: impl Fn(&Pod) -> bool) {
        for pod in self.pods.in_namespace(namespace) {
            if concerns(&pod) {
                self.pod_changed(&pod);
            }
        }
    }
}

/// Makes and reserves the claims of pods.
struct Pods<'a>(&'a Controller);

impl Reconcile for Pods<'_> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let pod = self.0.pods.get(&key.namespace, &key.name);
        if let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            self.0.sync_pod(&pod).await?;
        }
        Ok(None)
    }
}

/// Ends the use of claims.
struct Claims<'a>(&'a Controller);

impl Reconcile for Claims<'_> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        if let Some(claim) = self.0.claims.get(&key.namespace, &key.name) {
            self.0.sync_claim(&claim).await?;
        }
        Ok(None)
    }
}
