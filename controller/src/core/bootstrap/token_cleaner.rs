//! The token cleaner: deletes bootstrap tokens when they expire.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};

use super::Expiry;

/// The controller's name: its user agent.
pub const NAME: &str = "token-cleaner";

struct Controller {
    ctx: Context,
    queue: WorkQueue<ObjectKey>,
    secrets: Informer<Secret>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        queue: WorkQueue::new(),
        secrets: Informer::new(),
    };
    let (secrets, tokens) = super::tokens(&controller.ctx.client);
    Informers::new(&controller.ctx.client)
        .add_with(&controller.secrets, secrets, tokens, |change| {
            if !matches!(change, Change::Deleted { .. }) {
                controller.queue.add(change.key());
            }
        })
        .run(worker::run(&controller, &controller.queue, 1))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(secret) = self.secrets.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        match Expiry::of(&secret, (self.ctx.now)()) {
            Expiry::Never => Ok(None),
            Expiry::In(left) => Ok(Some(left)),
            Expiry::Over => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: secret.uid(),
                        ..Preconditions::default()
                    }),
                    ..DeleteParams::default()
                };
                let api: Api<Secret> = Api::namespaced(self.ctx.client.clone(), &key.namespace);
                match api.delete(&key.name, &params).await.map_err(Error::from) {
                    // It is gone, or another one has its name.
                    Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
                    Err(error) => Err(error),
                    Ok(_) => Ok(None),
                }
            }
        }
    }
}
