//! The service account controller: every namespace has a service account `default`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

/// The controller's name: its user agent.
pub const NAME: &str = "service-account-controller";
const ACCOUNT: &str = "default";

struct Controller {
    ctx: Context,
    /// Namespaces, by name alone.
    queue: WorkQueue<ObjectKey>,
    namespaces: Informer<Namespace>,
    accounts: Informer<ServiceAccount>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        queue: WorkQueue::new(),
        namespaces: Informer::new(),
        accounts: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.namespaces, |change| {
            if !matches!(change, Change::Deleted { .. }) {
                controller.queue.add(change.key());
            }
        })
        .add(&controller.accounts, |change| {
            if let Change::Deleted { last, .. } = change {
                controller
                    .queue
                    .add(key(last.namespace().unwrap_or_default()));
            }
        })
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

fn key(namespace: String) -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: namespace,
    }
}

/// Whether the namespace is there to stay.
fn is_active(namespace: &Namespace) -> bool {
    let status = namespace.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let namespace = self.namespaces.get("", &key.name);
        let is_missing = self.accounts.get(&key.name, ACCOUNT).is_none();
        if is_missing && namespace.is_some_and(|namespace| is_active(&namespace)) {
            let account = ServiceAccount {
                metadata: ObjectMeta {
                    name: Some(ACCOUNT.to_owned()),
                    namespace: Some(key.name.clone()),
                    ..ObjectMeta::default()
                },
                ..ServiceAccount::default()
            };
            let api = Api::namespaced(self.ctx.client.clone(), &key.name);
            let created = api.create(&PostParams::default(), &account).await;
            match created.map_err(Error::from) {
                // Somebody else was faster, or the namespace is going away.
                Err(error) if error.is_already_exists() || error.is_namespace_terminating() => {}
                created => _ = created?,
            }
        }
        Ok(None)
    }
}
