//! The resource quota controller: what quotas are of, and how much of it is used.
//!
//! The API server counts what is created; this finds out what has become free. What a quota does
//! not name is not watched. How much an object uses the server's own function says
//! ([`Options::count_usage`](crate::Options)), so both count the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use kubeproof_machinery::schema::quantity::Quantity as Amount;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::decode;
use kubeproof_runtime::decode_cache::Decoded;
use kubeproof_runtime::discovery;
use kubeproof_runtime::reflector::{self, Watches};
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::store::{Change, ObjectKey, Store};
use kubeproof_runtime::sync_error::answered;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The controller's name: its user agent.
pub const NAME: &str = "resourcequota-controller";
/// The interval of full recalculation: the server also counts creates that fail later.
const RESYNC: Duration = Duration::from_secs(300);

/// Objects of which more than their number counts.
const WHOLE: [&str; 4] = [
    "persistentvolumeclaims",
    "pods",
    "resourceclaims.resource.k8s.io",
    "services",
];

/// Sums what objects use of a quota at a time. Each object comes with its resource, as `count/` has
/// it; objects whose number alone counts are null.
pub type CountUsage =
    fn(&ResourceQuotaSpec, &[(&str, &Value)], Timestamp) -> BTreeMap<String, Quantity>;

enum Update {
    Quota(Event<Arc<ResourceQuota>>),
    /// Of the resource by this name, as `count/` has it.
    Counted(String, Event<Arc<DynamicObject>>),
}

struct Controller {
    ctx: Context,
    count: CountUsage,
    quotas: Store<ResourceQuota>,
    /// The objects of each resource that is watched; their data is what counts of them.
    counted: BTreeMap<String, Store<DynamicObject>>,
    updates: Watches<Update>,
    dirty: BTreeSet<ObjectKey>,
    failures: u32,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, count: CountUsage) {
    let ctx = ctx.for_component(NAME);
    let updates = Watches::new(&ctx.client).watch(Update::Quota);
    let mut controller = Controller {
        ctx,
        count,
        quotas: Store::default(),
        counted: BTreeMap::new(),
        updates,
        dirty: BTreeSet::new(),
        failures: 0,
    };
    loop {
        let pause = controller.pause();
        tokio::select! {
            biased;
            batch = controller.updates.next_batch() => {
                for update in batch {
                    controller.take_in(update);
                }
            }
            () = pause => controller.mark(|_| true),
        }
        if let Err(error) = controller.work().await {
            tracing::warn!(%error, "quotas not counted");
            controller.failures += 1;
        } else {
            controller.failures = 0;
        }
    }
}

impl Controller {
    /// Passes when quotas are to be counted without any cause.
    fn pause(&self) -> impl Future<Output = ()> + use<> {
        let wait = match (self.failures, self.quotas.iter().next()) {
            (0, None) => None,
            (0, Some(_)) => Some(RESYNC),
            (failures, _) => Some(retry_after(failures)),
        };
        async move {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    fn take_in(&mut self, update: Update) {
        match update {
            Update::Quota(event) => {
                for change in self.quotas.apply_by_uid(event) {
                    if !matches!(change, Change::Deleted { .. }) {
                        self.dirty.insert(change.key());
                    }
                }
            }
            Update::Counted(resource, event) => {
                let is_list = matches!(event, Event::InitDone);
                let objects = self.counted.entry(resource.clone()).or_default();
                let changes = objects.apply(event);
                if is_list {
                    return self.mark(|_| true);
                }
                let counts = |change: &&Change<DynamicObject>| match change {
                    Change::Updated { old, new } => old.data != new.data,
                    Change::Added(_) | Change::Deleted { .. } => true,
                };
                let changed = changes.iter().filter(counts).map(Change::key);
                self.mark_where(&resource, changed);
            }
        }
    }

    /// The quotas in the namespaces of `keys` that count `resource`.
    fn mark_where(&mut self, resource: &str, keys: impl Iterator<Item = ObjectKey>) {
        let namespaces: BTreeSet<String> = keys.map(|key| key.namespace).collect();
        if !namespaces.is_empty() {
            self.mark(|quota| {
                let namespace = quota.metadata.namespace.as_deref().unwrap_or_default();
                namespaces.contains(namespace)
                    && hard(quota).keys().any(|name| resource_of(name) == resource)
            });
        }
    }

    fn mark(&mut self, concerns: impl Fn(&ResourceQuota) -> bool) {
        let keys = self.quotas.iter().filter(|quota| concerns(quota));
        let keys: Vec<ObjectKey> = keys.map(|quota| ObjectKey::of(&**quota)).collect();
        self.dirty.extend(keys);
    }

    /// Counts what has changed, as far as all that is to be known for it is.
    async fn work(&mut self) -> Result<(), kube::Error> {
        for key in self.dirty.clone() {
            let Some(quota) = self.quotas.get(&key).cloned() else {
                self.dirty.remove(&key);
                continue;
            };
            self.watch_for(&quota).await?;
            if self.knows(&quota) {
                self.sync(&quota).await?;
                self.dirty.remove(&key);
            }
        }
        Ok(())
    }

    /// Watches what `quota` counts, from now on.
    async fn watch_for(&mut self, quota: &ResourceQuota) -> Result<(), kube::Error> {
        let counted = hard(quota).into_keys();
        let counted: BTreeSet<String> = counted
            .map(|name| resource_of(&name).to_owned())
            .filter(|resource| !self.counted.contains_key(resource))
            .collect();
        if counted.is_empty() {
            return Ok(());
        }
        let preferred = discovery::server_preferred_resources(&self.ctx.client).await?;
        for resource in counted {
            let (plural, group) = resource.split_once('.').unwrap_or((&resource, ""));
            let kind = preferred.resources.iter().find(|kind| {
                let is_named = kind.resource.plural == plural && kind.resource.group == group;
                let needed = ["create", "list", "watch", "delete"];
                is_named && kind.namespaced && needed.iter().all(|verb| kind.supports(verb))
            });
            // A resource that is not served has no usage; it may be served later.
            let Some(kind) = kind else { continue };
            self.updates.push(self.watch(&resource, &kind.resource));
            self.counted.insert(resource, Store::default());
        }
        Ok(())
    }

    fn watch(&self, resource: &str, kind: &ApiResource) -> BoxStream<'static, Update> {
        let client = self.ctx.client.clone();
        if WHOLE.contains(&resource) {
            let api: Api<Decoded<DynamicObject>> = Api::all_with(client, kind);
            return updates_of(resource, api, |object| {
                decode::to_value(object).unwrap_or_default()
            });
        }
        let api: Api<Decoded<PartialObjectMeta<DynamicObject>>> = Api::all_with(client, kind);
        updates_of(resource, api, |_| Value::Null)
    }

    /// Whether all that `quota` counts is known.
    fn knows(&self, quota: &ResourceQuota) -> bool {
        hard(quota).keys().all(|name| {
            let objects = self.counted.get(resource_of(name));
            objects.is_none_or(Store::is_synced)
        })
    }

    /// Writes the status of a quota if it is not what it should be.
    async fn sync(&mut self, quota: &ResourceQuota) -> Result<(), kube::Error> {
        let namespace = quota.metadata.namespace.clone().unwrap_or_default();
        let hard = hard(quota);
        let now = (self.ctx.now)();
        let spec = quota.spec.clone().unwrap_or_default();
        let mut objects: Vec<(&str, &Value)> = Vec::new();
        for (resource, all) in &self.counted {
            let own = all.in_namespace(&namespace);
            objects.extend(own.map(|object| (resource.as_str(), &object.data)));
        }
        let used = (self.count)(&spec, &objects, now);
        let status = quota.status.clone().unwrap_or_default();
        let is_same = status.hard.as_ref() == Some(&hard)
            && status
                .used
                .as_ref()
                .is_some_and(|own| are_equal(own, &used));
        if is_same {
            return Ok(());
        }
        let mut next = quota.clone();
        let status = next.status.get_or_insert_default();
        status.hard = Some(hard);
        status.used = Some(used);
        let name = quota.metadata.name.clone().unwrap_or_default();
        let api: Api<ResourceQuota> = Api::namespaced(self.ctx.client.clone(), &namespace);
        match api
            .replace_status(&name, &PostParams::default(), &next)
            .await
        {
            // Somebody else has written it: the watch brings that.
            Err(error) if answered(&error, 404) || answered(&error, 409) => Ok(()),
            written => written.map(|_| ()),
        }
    }
}

fn hard(quota: &ResourceQuota) -> BTreeMap<String, Quantity> {
    let spec = quota.spec.as_ref();
    spec.and_then(|spec| spec.hard.clone()).unwrap_or_default()
}

/// Whether two lists have the same amounts, however these are written.
fn are_equal(one: &BTreeMap<String, Quantity>, other: &BTreeMap<String, Quantity>) -> bool {
    let is_equal = |a: &Quantity, b: &Quantity| match (Amount::parse(&a.0), Amount::parse(&b.0)) {
        (Ok(a), Ok(b)) => a.compare(&b).is_eq(),
        (a, b) => a.is_err() && b.is_err(),
    };
    let mut entries = one.iter().zip(other);
    one.len() == other.len() && entries.all(|(a, b)| a.0 == b.0 && is_equal(a.1, b.1))
}

/// The resource whose objects use what goes by `name` in quotas, as `count/` has it.
fn resource_of(name: &str) -> &str {
    if let Some(resource) = name.strip_prefix("count/") {
        return resource;
    }
    match name {
        "services" | "services.nodeports" | "services.loadbalancers" => "services",
        "persistentvolumeclaims" | "requests.storage" => "persistentvolumeclaims",
        "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => name,
        _ if name.contains(".storageclass.storage.k8s.io/") => "persistentvolumeclaims",
        _ if name.ends_with(".deviceclass.resource.k8s.io/devices") => {
            "resourceclaims.resource.k8s.io"
        }
        // Whatever else there is, pods ask for it.
        _ => "pods",
    }
}

/// The updates of all objects of `resource`, each with what counts of it.
fn updates_of<K>(
    resource: &str,
    api: Api<Decoded<K>>,
    counting: fn(&K) -> Value,
) -> BoxStream<'static, Update>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let resource = resource.to_owned();
    let events = reflector::events(api, watcher::Config::default());
    let events = events.filter_map(move |event| {
        let counted = |object: Arc<K>| {
            Arc::new(DynamicObject {
                types: None,
                metadata: object.meta().clone(),
                data: counting(&object),
            })
        };
        let update = event.ok().map(|event| {
            let event = match event {
                Event::Init => Event::Init,
                Event::InitApply(object) => Event::InitApply(counted(object)),
                Event::InitDone => Event::InitDone,
                Event::Apply(object) => Event::Apply(counted(object)),
                Event::Delete(object) => Event::Delete(counted(object)),
            };
            Update::Counted(resource.clone(), event)
        });
        std::future::ready(update)
    });
    events.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_equal_by_value_and_name() {
        let list = |entries: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
            let entries = entries.iter();
            entries
                .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
                .collect()
        };
        let one = list(&[("cpu", "1"), ("memory", "1Ki")]);
        assert!(are_equal(
            &one,
            &list(&[("cpu", "1000m"), ("memory", "1024")])
        ));
        assert!(!are_equal(&one, &list(&[("cpu", "1"), ("memory", "1k")])));
        assert!(!are_equal(&one, &list(&[("cpu", "1"), ("pods", "1Ki")])));
        assert!(!are_equal(&one, &list(&[("cpu", "1")])));
    }

    #[test]
    fn names_in_quotas_stand_for_resources() {
        for (name, resource) in [
            ("count/widgets.example.io", "widgets.example.io"),
            ("services.nodeports", "services"),
            (
                "fast.storageclass.storage.k8s.io/requests.storage",
                "persistentvolumeclaims",
            ),
            (
                "gold.deviceclass.resource.k8s.io/devices",
                "resourceclaims.resource.k8s.io",
            ),
            ("requests.example.io/gpu", "pods"),
        ] {
            assert_eq!(resource_of(name), resource, "{name}");
        }
    }
}
