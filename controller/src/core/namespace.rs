//! Empties a namespace that is being deleted, reports what is left in it, then lets it go.
//!
//! Source: `pkg/controller/namespace` of Kubernetes.

mod conditions;
mod content;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::{Error, answered};
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker::{self, Reconcile};
use serde_json::json;

/// The controller's name: its user agent.
pub const NAME: &str = "namespace-controller";
const FINALIZER: &str = "kubernetes";
/// The number of namespaces synced at once.
const WORKERS: usize = 10;
/// The first delay of an eager controller before it checks the remaining content again.
const EAGER_MIN: Duration = Duration::from_millis(100);
/// Failed deletions are tried again once a minute at least.
const DELAYS: RetryDelays = RetryDelays {
    first: Duration::from_millis(5),
    longest: Duration::from_secs(60),
};

/// How patient the controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a namespace is left alone from its deletion on: time for other servers to learn of
    /// it, and for writes under way to end.
    pub deletion_grace: Duration,
    /// Whether what is left is looked at again and again, less and less often; else only when half of
    /// the time has passed in which it may go.
    pub is_eager: bool,
}

impl Default for Settings {
    /// Upstream's.
    fn default() -> Self {
        Self {
            deletion_grace: Duration::from_secs(5),
            is_eager: false,
        }
    }
}

impl Settings {
    /// For a server of its own, where a deletion is known to everybody at once.
    pub const EAGER: Self = Self {
        deletion_grace: Duration::ZERO,
        is_eager: true,
    };

    /// When to look again at a namespace whose deletion began at `since`, and what is left of which
    /// may take `estimate` more seconds.
    fn next_look(self, estimate: i64, since: Timestamp, now: Timestamp) -> Duration {
        let patient = u64::try_from(estimate / 2 + 1).unwrap_or_default();
        let patient = Duration::from_secs(patient);
        if !self.is_eager {
            return patient;
        }
        let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        (age / 4).max(EAGER_MIN).min(patient)
    }
}

struct Controller {
    ctx: Context,
    settings: Settings,
    /// Namespaces, by name alone.
    queue: WorkQueue<ObjectKey>,
    namespaces: Informer<Namespace>,
}

/// Finishes the deletion of namespaces until the future is dropped.
pub async fn run(ctx: Context, settings: Settings) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        settings,
        queue: WorkQueue::retrying(DELAYS),
        namespaces: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.namespaces, |change| {
            if let Change::Added(namespace) | Change::Updated { new: namespace, .. } = change
                && namespace.metadata.deletion_timestamp.is_some()
            {
                let delay = settings.deletion_grace;
                controller.queue.add_after(change.key(), delay);
            }
        })
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        if self.namespaces.get("", &key.name).is_none() {
            return Ok(None);
        }
        let api: Api<Namespace> = Api::all(self.ctx.client.clone());
        let Some(namespace) = api.get_opt(&key.name).await? else {
            return Ok(None);
        };
        if namespace.metadata.deletion_timestamp.is_none() || finalizers(&namespace).is_empty() {
            return Ok(None);
        }
        let deleted = namespace.metadata.deletion_timestamp.clone();
        let deletion = content::delete(&self.ctx, &namespace).await;
        let conditions = deletion.findings.conditions(&namespace, (self.ctx.now)());
        let namespace = match conditions {
            Some(conditions) => self.write(&api, namespace, &conditions).await,
            None => namespace,
        };
        Error::collect(deletion.errors)?;
        if deletion.estimate > 0 {
            let now = (self.ctx.now)();
            let since = deleted.map_or(now, |deleted| deleted.0);
            return Ok(Some(self.settings.next_look(deletion.estimate, since, now)));
        }
        self.finalize(&api, namespace).await?;
        Ok(None)
    }
}

impl Controller {
    /// Writes the conditions and returns the namespace with them. A failure is only logged: the
    /// next turn writes them again.
    async fn write(
        &self,
        api: &Api<Namespace>,
        namespace: Namespace,
        conditions: &[NamespaceCondition],
    ) -> Namespace {
        let name = namespace.name_any();
        let patch = Patch::Strategic(json!({
            "metadata": { "uid": namespace.metadata.uid },
            "status": { "conditions": conditions },
        }));
        let params = PatchParams::default();
        match api.patch_status(&name, &params, &patch).await {
            Ok(written) => written,
            Err(error) => {
                tracing::warn!(name, %error, "conditions not written");
                namespace
            }
        }
    }

    /// Removes the finalizer.
    async fn finalize(&self, api: &Api<Namespace>, namespace: Namespace) -> Result<(), Error> {
        let (name, uid) = (namespace.name_any(), namespace.uid());
        let mut namespace = namespace;
        let params = PostParams::default();
        loop {
            let spec = namespace.spec.get_or_insert_default();
            let kept = spec.finalizers.get_or_insert_default();
            kept.retain(|finalizer| finalizer != FINALIZER);
            kept.sort();
            let released = api
                .replace_subresource("finalize", &name, &params, &namespace)
                .await;
            match released {
                Err(error) if answered(&error, 404) => return Ok(()),
                Err(error) if answered(&error, 409) => {}
                released => return released.map(|_| ()).map_err(Error::from),
            }
            match api.get_opt(&name).await? {
                Some(latest) if latest.uid() == uid => namespace = latest,
                Some(_) | None => return Ok(()),
            }
        }
    }
}

fn finalizers(namespace: &Namespace) -> &[String] {
    let spec = namespace.spec.as_ref();
    let finalizers = spec.and_then(|spec| spec.finalizers.as_deref());
    finalizers.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eager_controller_looks_soon_and_then_less_and_less_often() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let millis = Duration::from_millis;
        for (settings, estimate, age, wait) in [
            (Settings::default(), 30, 0, millis(16_000)),
            (Settings::default(), 30, 100, millis(16_000)),
            (Settings::EAGER, 30, 0, EAGER_MIN),
            (Settings::EAGER, 30, 2, millis(500)),
            (Settings::EAGER, 30, 40, millis(10_000)),
            (Settings::EAGER, 30, 600, millis(16_000)),
            // A clock that was put back.
            (Settings::EAGER, 15, -5, EAGER_MIN),
        ] {
            let next = settings.next_look(estimate, at(100), at(100 + age));
            assert_eq!(next, wait, "{settings:?} {estimate} {age}");
        }
    }
}
