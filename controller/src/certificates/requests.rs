//! The watch of all requests, with its queue, that the approver and the signer share.
//!
//! Source: `pkg/controller/certificates/certificate_controller.go` of Kubernetes.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker::{self, Reconcile};

use super::Authority;

/// The number of requests reconciled at once.
const WORKERS: usize = 5;
/// The retry delays of failed requests.
const DELAYS: RetryDelays = RetryDelays {
    first: Duration::from_millis(200),
    longest: Duration::from_secs(1000),
};

/// The certificate signing requests of a cluster, and a queue of those that have changed.
pub(super) struct Requests {
    pub(super) ctx: Context,
    pub(super) authority: Authority,
    pub(super) requests: Informer<CertificateSigningRequest>,
    queue: WorkQueue<ObjectKey>,
}

impl Requests {
    pub(super) fn new(ctx: Context, authority: Authority) -> Self {
        Self {
            ctx,
            authority,
            requests: Informer::new(),
            queue: WorkQueue::retrying(DELAYS),
        }
    }

    /// Reconciles every request that is added or updated, until the future is dropped.
    pub(super) async fn run(&self, controller: &impl Reconcile) {
        Informers::new(&self.ctx.client)
            .add(&self.requests, |change| {
                if !matches!(change, Change::Deleted { .. }) {
                    self.queue.add(change.key());
                }
            })
            .run(worker::run(controller, &self.queue, WORKERS))
            .await;
    }
}
