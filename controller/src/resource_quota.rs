//! The resource quota controller: what quotas are of, and how much of it is used.
//!
//! The API server counts what is created; this finds out what has become free. What a quota does
//! not name is not watched.

mod amount;
mod scopes;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::runtime::watcher::Event;

use crate::context::Context;
use crate::inventory;
use crate::mirror::{self, Mirror, ObjectKey};
use crate::shared::Shared;
use usage::Counted;

/// The controller's name: its user agent.
pub const NAME: &str = "resourcequota-controller";
/// How often all quotas are counted anew: the server counts creates that fail later.
const RESYNC: Duration = Duration::from_secs(300);

enum Update {
    Quota(Box<Event<Arc<ResourceQuota>>>),
    Pod(Box<Event<Arc<Pod>>>),
    Service(Box<Event<Arc<Service>>>),
    Claim(Box<Event<Arc<PersistentVolumeClaim>>>),
    /// Of the resource by this name, as `count/` has it.
    Other(String, Box<Event<Arc<PartialObjectMeta<DynamicObject>>>>),
}

/// The names of objects of one resource.
#[derive(Default)]
struct Names {
    synced: bool,
    keys: BTreeSet<ObjectKey>,
}

struct Controller {
    ctx: Context,
    quotas: Mirror<ResourceQuota>,
    pods: Mirror<Pod>,
    services: Mirror<Service>,
    claims: Mirror<PersistentVolumeClaim>,
    others: BTreeMap<String, Names>,
    /// The resources that are watched.
    watched: BTreeSet<String>,
    updates: SelectAll<BoxStream<'static, Update>>,
    dirty: BTreeSet<ObjectKey>,
    failures: u32,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component(NAME);
    let mut updates: SelectAll<BoxStream<'static, Update>> = SelectAll::new();
    let quotas = mirror::watch::<ResourceQuota>(Api::all(ctx.client.clone()));
    updates.push(quotas.map(Update::Quota).boxed());
    let mut controller = Controller {
        ctx,
        quotas: Mirror::default(),
        pods: Mirror::default(),
        services: Mirror::default(),
        claims: Mirror::default(),
        others: BTreeMap::new(),
        watched: BTreeSet::new(),
        updates,
        dirty: BTreeSet::new(),
        failures: 0,
    };
    loop {
        let pause = controller.pause();
        tokio::select! {
            biased;
            batch = mirror::next_batch(&mut controller.updates) => {
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
            (failures, _) => Some(mirror::retry_after(failures)),
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
                for change in self.quotas.handle(*event) {
                    if change.new.is_some() {
                        self.dirty.insert(change.key);
                    }
                }
            }
            Update::Pod(event) => {
                let changes = self.pods.handle(*event);
                self.mark_where("pods", changes.into_iter().map(|change| change.key));
            }
            Update::Service(event) => {
                let changes = self.services.handle(*event);
                self.mark_where("services", changes.into_iter().map(|change| change.key));
            }
            Update::Claim(event) => {
                let changes = self.claims.handle(*event);
                let keys = changes.into_iter().map(|change| change.key);
                self.mark_where("persistentvolumeclaims", keys);
            }
            Update::Other(resource, event) => {
                let names = self.others.entry(resource.clone()).or_default();
                let changed = match *event {
                    Event::Init => {
                        *names = Names::default();
                        Vec::new()
                    }
                    Event::InitApply(object) | Event::Apply(object) => {
                        let key = key_of(&object);
                        let is_new = names.keys.insert(key.clone());
                        if is_new { vec![key] } else { Vec::new() }
                    }
                    Event::Delete(object) => {
                        let key = key_of(&object);
                        names.keys.remove(&key);
                        vec![key]
                    }
                    Event::InitDone => {
                        names.synced = true;
                        return self.mark(|_| true);
                    }
                };
                self.mark_where(&resource, changed.into_iter());
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
                    && hard(quota)
                        .keys()
                        .any(|name| usage::resource_of(name) == resource)
            });
        }
    }

    fn mark(&mut self, concerns: impl Fn(&ResourceQuota) -> bool) {
        let keys = self.quotas.iter().filter(|(_, quota)| concerns(quota));
        let keys: Vec<ObjectKey> = keys.map(|(key, _)| key.clone()).collect();
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
            .map(|name| usage::resource_of(&name).to_owned())
            .filter(|resource| !self.watched.contains(resource))
            .collect();
        let client = self.ctx.client.clone();
        for resource in counted {
            let updates = match resource.as_str() {
                "pods" => mirror::watch(Api::all(client.clone()))
                    .map(Update::Pod)
                    .boxed(),
                "services" => mirror::watch(Api::all(client.clone()))
                    .map(Update::Service)
                    .boxed(),
                "persistentvolumeclaims" => mirror::watch(Api::all(client.clone()))
                    .map(Update::Claim)
                    .boxed(),
                _ => match self.watch_other(&resource).await? {
                    Some(updates) => updates,
                    // Nothing of a resource that nobody serves is used; it may come to be served.
                    None => continue,
                },
            };
            self.watched.insert(resource);
            self.updates.push(updates);
        }
        Ok(())
    }

    async fn watch_other(
        &mut self,
        resource: &str,
    ) -> Result<Option<BoxStream<'static, Update>>, kube::Error> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let inventory = inventory::discover(&self.ctx.client).await?;
        let kind = inventory.kinds.into_iter().find(|kind| {
            let is_named = kind.resource.plural == plural && kind.resource.group == group;
            let needed = ["create", "list", "watch", "delete"];
            is_named && kind.namespaced && needed.iter().all(|verb| kind.supports(verb))
        });
        let Some(kind) = kind else {
            return Ok(None);
        };
        let api: Api<Shared<PartialObjectMeta<DynamicObject>>> =
            Api::all_with(self.ctx.client.clone(), &kind.resource);
        let events = mirror::patient(move || watcher(api.clone(), watcher::Config::default()));
        let resource = resource.to_owned();
        let events = events.filter_map(move |event| {
            let resource = resource.clone();
            async move {
                event
                    .inspect_err(|error| mirror::warn_of(&resource, error))
                    .ok()
                    .map(|event| Update::Other(resource, Box::new(Shared::unwrap(event))))
            }
        });
        Ok(Some(events.boxed()))
    }

    /// Whether all that `quota` counts is known.
    fn knows(&self, quota: &ResourceQuota) -> bool {
        hard(quota).keys().all(|name| {
            let resource = usage::resource_of(name);
            match resource {
                "pods" => self.pods.is_synced(),
                "services" => self.services.is_synced(),
                "persistentvolumeclaims" => self.claims.is_synced(),
                _ if !self.watched.contains(resource) => true,
                _ => self.others.get(resource).is_some_and(|names| names.synced),
            }
        })
    }

    /// Writes the status of a quota if it is not what it should be.
    async fn sync(&mut self, quota: &ResourceQuota) -> Result<(), kube::Error> {
        let namespace = quota.metadata.namespace.clone().unwrap_or_default();
        let hard = hard(quota);
        let now = (self.ctx.now)();
        let spec = quota.spec.clone().unwrap_or_default();
        let mut counted = Counted::new(&spec, &hard);
        for (_, pod) in self
            .pods
            .iter()
            .filter(|(key, _)| key.namespace == namespace)
        {
            counted.add_pod(pod, now);
        }
        for (_, service) in self
            .services
            .iter()
            .filter(|(key, _)| key.namespace == namespace)
        {
            counted.add_service(service);
        }
        for (_, claim) in self
            .claims
            .iter()
            .filter(|(key, _)| key.namespace == namespace)
        {
            counted.add_claim(claim);
        }
        for (resource, names) in &self.others {
            let own = names.keys.iter().filter(|key| key.namespace == namespace);
            counted.add_others(resource, own.count());
        }
        let used = counted.used();
        let status = quota.status.clone().unwrap_or_default();
        let is_same =
            status.hard.as_ref() == Some(&hard) && amount::all_equal(status.used.as_ref(), &used);
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
            Err(error) if mirror::answered(&error, 404) || mirror::answered(&error, 409) => Ok(()),
            written => written.map(|_| ()),
        }
    }
}

fn hard(quota: &ResourceQuota) -> BTreeMap<String, Quantity> {
    let spec = quota.spec.as_ref();
    spec.and_then(|spec| spec.hard.clone()).unwrap_or_default()
}

fn key_of(object: &PartialObjectMeta<DynamicObject>) -> ObjectKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    ObjectKey {
        namespace: text(&object.metadata.namespace),
        name: text(&object.metadata.name),
    }
}
