//! Stages: the behavior of objects as configured by `Stage` objects in KWOK's format.
//!
//! Each kind with stages has its own loop. An object in a stage moves on once the stage's delay has
//! passed since it entered. Stages of pods replace the kubelets.

mod environment;
mod query;
mod stage;
mod template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::ready;
use jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::ObjectMeta;
use kube::discovery::{self, Scope};
use kube::runtime::watcher::{self, Event};
use kubeproof_machinery::json::{Value, json, to_value};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::reflector;
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::store::{self, Change, ObjectKey, Store};
use kubeproof_runtime::sync_error::answered;

use super::identity;
use environment::Environment;

pub use stage::{BadStage, Stage};

/// The source of the events in stages.
const COMPONENT: &str = "stage-controller";

/// Returns whether `stages` have stages of pods.
pub(super) fn concern_pods(stages: &[Stage]) -> bool {
    stages.iter().any(|stage| stage.is_of("", "Pod"))
}

/// Moves objects on by `stages`, for as long as it is polled.
pub(super) async fn run(ctx: Context, stages: Vec<Stage>, nodes: usize) {
    let mut kinds: BTreeMap<(String, String), Vec<Stage>> = BTreeMap::new();
    for stage in stages {
        let kind = (stage.group.clone(), stage.kind.clone());
        kinds.entry(kind).or_default().push(stage);
    }
    let recorder = Recorder::new(ctx.clone(), COMPONENT);
    let loops = kinds.into_iter().map(|((group, kind), stages)| {
        let (ctx, recorder) = (ctx.clone(), recorder.clone());
        async move {
            let (resource, scope) = discover(&ctx, &group, &kind).await;
            let stager = Stager {
                ctx,
                recorder,
                is_namespaced: scope == Scope::Namespaced,
                resource,
                stages,
                nodes: (1..=nodes)
                    .map(|index| (identity::node_name(index), index))
                    .collect(),
                store: Store::default(),
                objects: BTreeMap::new(),
                addresses: BTreeMap::new(),
                given: BTreeMap::new(),
            };
            stager.run().await;
        }
    });
    futures::future::join_all(loops).await;
}

/// Waits for the discovery of a kind, which may be defined later.
async fn discover(ctx: &Context, group: &str, kind: &str) -> (ApiResource, Scope) {
    let mut failures = 0;
    loop {
        match discovery::group(&ctx.client, group).await {
            Ok(found) => {
                if let Some((resource, capabilities)) = found.recommended_kind(kind) {
                    return (resource, capabilities.scope);
                }
            }
            Err(error) => tracing::debug!(group, kind, %error, "kind not found"),
        }
        failures += 1;
        tokio::time::sleep(retry_after(failures)).await;
    }
}

/// The loop over the objects of one kind.
struct Stager {
    ctx: Context,
    recorder: Recorder,
    resource: ApiResource,
    is_namespaced: bool,
    stages: Vec<Stage>,
    /// Node indexes by name.
    nodes: BTreeMap<String, usize>,
    /// All objects of the kind.
    store: Store<DynamicObject>,
    /// The objects that are simulated.
    objects: BTreeMap<ObjectKey, Held>,
    /// The addresses of pods by uid.
    addresses: BTreeMap<String, String>,
    /// The number of addresses that each node has assigned.
    given: BTreeMap<usize, usize>,
}

/// An object and its next stage.
struct Held {
    object: Arc<DynamicObject>,
    value: Value,
    plan: Option<Plan>,
    /// The number of stages that the object has completed.
    played: u64,
    failures: u32,
}

#[derive(Clone, Copy)]
struct Plan {
    stage: usize,
    due: Timestamp,
}

impl Stager {
    async fn run(mut self) {
        let api = Api::all_with(self.ctx.client.clone(), &self.resource);
        let events = reflector::events::<DynamicObject>(api, watcher::Config::default());
        let mut events = events.filter_map(|event| ready(event.ok())).boxed();
        loop {
            let wake = self.wake();
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(event) => self.take_in(event),
                    None => return,
                },
                () = sleep(wake) => self.play_due().await,
            }
        }
    }

    /// Returns the time until the next stage is due.
    fn wake(&self) -> Option<Duration> {
        let due = self.objects.values().filter_map(|held| held.plan);
        let due = due.map(|plan| plan.due).min()?;
        let left = due.duration_since((self.ctx.now)());
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }

    fn take_in(&mut self, event: Event<Arc<DynamicObject>>) {
        for change in self.store.apply(event) {
            match change {
                Change::Added(object) | Change::Updated { new: object, .. } => self.apply(object),
                Change::Deleted { old, .. } => self.forget(&ObjectKey::of(&*old)),
            }
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(held) = self.objects.remove(key) {
            self.addresses.remove(&store::uid(&*held.object));
        }
    }

    fn apply(&mut self, object: Arc<DynamicObject>) {
        let key = ObjectKey::of(&*object);
        let Ok(mut value) = to_value(&*object) else {
            return;
        };
        value["apiVersion"] = self.resource.api_version.clone().into();
        value["kind"] = self.resource.kind.clone().into();
        if !self.is_managed(&value) {
            return;
        }
        let before = self.objects.remove(&key);
        let before = before.filter(|held| held.object.metadata.uid == object.metadata.uid);
        let mut held = match before {
            Some(before) => Held {
                object,
                value,
                ..before
            },
            None => Held {
                object,
                value,
                plan: None,
                played: 0,
                failures: 0,
            },
        };
        // The delay of a stage counts from the object's entry.
        held.plan = held
            .plan
            .filter(|plan| self.stages[plan.stage].matches(&held.value))
            .or_else(|| self.plan(&held));
        self.objects.insert(key, held);
    }

    /// Returns whether the object is simulated; pods and nodes that are not are left alone.
    fn is_managed(&self, value: &Value) -> bool {
        let node = match (self.resource.group.as_str(), self.resource.kind.as_str()) {
            ("", "Pod") => &value["spec"]["nodeName"],
            ("", "Node") => &value["metadata"]["name"],
            _ => return true,
        };
        node.as_str()
            .is_some_and(|name| self.nodes.contains_key(name))
    }

    /// Picks a stage that the object matches, by weight if there are several.
    fn plan(&self, held: &Held) -> Option<Plan> {
        let matching: Vec<(usize, u64)> = self
            .stages
            .iter()
            .enumerate()
            .filter(|(_, stage)| stage.matches(&held.value))
            .map(|(index, stage)| {
                let weight = stage.weight(&held.value);
                (index, u64::try_from(weight).unwrap_or(0))
            })
            .collect();
        let uid = store::uid(&*held.object);
        let played = held.played.to_string();
        let draw = |what: &str, below: u64| identity::draw(&[&uid, what, &played], below);
        let total: u64 = matching.iter().map(|(_, weight)| weight).sum();
        let count = u64::try_from(matching.len()).unwrap_or(u64::MAX);
        let stage = match (count, total) {
            (0, _) => return None,
            (1, _) => matching[0].0,
            (_, 0) => {
                let drawn = usize::try_from(draw("stage", count)).unwrap_or(0);
                matching[drawn].0
            }
            _ => {
                let mut left = draw("stage", total);
                let chosen = matching.iter().find(|(_, weight)| {
                    let is_it = left < *weight;
                    left = left.saturating_sub(*weight);
                    is_it
                });
                chosen.map(|(index, _)| *index)?
            }
        };
        let now = (self.ctx.now)();
        let own = &self.stages[stage];
        let delay = own.delay(&held.value, now, |below| draw(&own.name, below));
        let due = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        Some(Plan { stage, due })
    }

    async fn play_due(&mut self) {
        let now = (self.ctx.now)();
        let due = self.objects.iter().filter_map(|(key, held)| {
            let plan = held.plan.filter(|plan| plan.due <= now)?;
            Some((plan.due, key.clone(), plan.stage))
        });
        let mut due: Vec<(Timestamp, ObjectKey, usize)> = due.collect();
        due.sort();
        for (_, key, stage) in due {
            let Some(mut held) = self.objects.remove(&key) else {
                continue;
            };
            held.plan = None;
            match self.play(&key, &held, stage).await {
                Ok(()) => {
                    held.played += 1;
                    held.failures = 0;
                }
                // The object is gone or was replaced: the watch will report it.
                Err(Failure::Api(error)) if answered(&error, 404) || answered(&error, 409) => {}
                Err(error) => {
                    let name = &self.stages[stage].name;
                    tracing::warn!(stage = name, object = key.name, %error, "stage not played");
                    held.failures += 1;
                    let wait = retry_after(held.failures);
                    let due = now.checked_add(wait).unwrap_or(Timestamp::MAX);
                    held.plan = Some(Plan { stage, due });
                }
            }
            self.objects.insert(key, held);
        }
    }

    /// Applies a stage to an object.
    async fn play(&mut self, key: &ObjectKey, held: &Held, stage: usize) -> Result<(), Failure> {
        let environment = self.environment(&held.value, &held.object.metadata);
        let next = &self.stages[stage].next;
        if let Some(event) = &next.event {
            let event_type = match event.event_type.as_str() {
                "Warning" => EventType::Warning,
                _ => EventType::Normal,
            };
            let involved = held.object.object_ref(&self.resource);
            self.recorder
                .publish(&involved, event_type, &event.reason, &event.message)
                .await;
        }
        let api: Api<DynamicObject> = match self.is_namespaced {
            true => Api::namespaced_with(self.ctx.client.clone(), &key.namespace, &self.resource),
            false => Api::all_with(self.ctx.client.clone(), &self.resource),
        };
        let metadata = &held.object.metadata;
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        if let Some(changed) = next.finalizers.change(finalizers) {
            let patch = json!({ "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "finalizers": Some(changed).filter(|left| !left.is_empty()),
            } });
            api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
        }
        if next.delete {
            let params = DeleteParams::default().grace_period(0);
            api.delete(&key.name, &params).await?;
            return Ok(());
        }
        for patch in &next.patches {
            let text = patch.template.render(&held.value, &environment);
            let text = text.map_err(Failure::Template)?;
            let filled: Value = serde_saphyr::from_str(&text)
                .map_err(|error| Failure::Template(error.to_string()))?;
            let mut body = match &patch.root {
                Some(root) => json!({ root: filled }),
                None => filled,
            };
            body["metadata"]["uid"] = json!(metadata.uid);
            let params = PatchParams::default();
            // Custom resources do not support strategic merge patches.
            let is_custom =
                self.resource.group.contains('.') && !self.resource.group.ends_with(".k8s.io");
            let body = match is_custom {
                true => Patch::Merge(body),
                false => Patch::Strategic(body),
            };
            match &patch.subresource {
                Some(name) => {
                    api.patch_subresource(name, &key.name, &params, &body)
                        .await?
                }
                None => api.patch(&key.name, &params, &body).await?,
            };
        }
        Ok(())
    }

    /// Returns the values that templates can use in addition to the object.
    fn environment(&mut self, value: &Value, metadata: &ObjectMeta) -> Environment {
        let node = match self.resource.kind.as_str() {
            "Node" => metadata.name.clone(),
            _ => value["spec"]["nodeName"].as_str().map(str::to_owned),
        };
        let index = node.as_ref().and_then(|name| self.nodes.get(name)).copied();
        let pod_ip = match (self.resource.kind.as_str(), index) {
            ("Pod", Some(index)) => {
                let uid = metadata.uid.clone().unwrap_or_default();
                let given = self.given.entry(index).or_default();
                let address = self.addresses.entry(uid).or_insert_with(|| {
                    *given += 1;
                    identity::pod_ip(index, *given)
                });
                address.clone()
            }
            _ => String::new(),
        };
        Environment {
            now: (self.ctx.now)(),
            node_name: node.unwrap_or_default(),
            node_ips: self
                .nodes
                .iter()
                .map(|(name, index)| (name.clone(), identity::host_ip(*index)))
                .collect(),
            pod_ip,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Template(String),
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
