//! Events as client-go's recorders write them, on the caller's clock: those of the core group are
//! counted and combined (`tools/record`), those of `events.k8s.io` are series (`tools/events`).

mod correlator;
mod series;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::quality::FixedState;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use k8s_openapi::api::events::v1 as events_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use self::correlator::{Correlator, Observed, Occurrence, Subject};
pub use self::series::EventParams;
use self::series::Series;
use crate::context::Context;

/// The most pending writes of an Event; further ones are dropped.
const QUEUED_EVENTS_MAX: usize = 1000;
/// How many names are tried when another component took the same one in the same instant.
const NAME_ATTEMPTS_MAX: usize = 16;

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something expected.
    Normal,
    /// Something that may need attention.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Writes Events for one component. Clones share their counts.
#[derive(Clone)]
pub struct Recorder {
    ctx: Context,
    component: Cow<'static, str>,
    /// The machine that `component` runs on, if that matters.
    host: Option<String>,
    names: Arc<Mutex<Names>>,
    broadcasters: Arc<Mutex<BTreeMap<String, Arc<Broadcaster>>>>,
    broadcaster: Arc<Broadcaster>,
}

/// The events of a component on one machine.
#[derive(Default)]
struct Broadcaster {
    state: Mutex<Broadcast>,
}

#[derive(Default)]
struct Broadcast {
    correlator: Correlator,
    series: Series,
    /// The Events that are being written, by name, with what is to be written of each after that: the
    /// first write decides whether there is something to patch.
    writes: BTreeMap<String, VecDeque<Write>>,
}

/// The writes that an Event still needs.
enum Write {
    /// An Event of the core group.
    Single(Box<(core_v1::Event, Observed)>),
    /// An Event of `events.k8s.io`.
    OfSeries(Box<events_v1::Event>),
}

/// The right to write an Event, which ends when it is dropped.
struct Turn<'a> {
    broadcaster: &'a Broadcaster,
    name: &'a str,
    has_ended: bool,
}

impl Turn<'_> {
    /// The next write; None ends the turn.
    fn next(&mut self) -> Option<Write> {
        let writes = &mut self.broadcaster.state.lock().writes;
        let next = writes.get_mut(self.name).and_then(VecDeque::pop_front);
        if next.is_none() {
            writes.remove(self.name);
            self.has_ended = true;
        }
        next
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.broadcaster.state.lock().writes.remove(self.name);
        }
    }
}

impl Broadcast {
    /// Takes the turn to write the Event `name`, or leaves `write` to the caller that holds it.
    fn begin(&mut self, name: &str, write: Write) -> Option<Write> {
        let Some(waiting) = self.writes.get_mut(name) else {
            self.writes.insert(name.to_owned(), VecDeque::new());
            return Some(write);
        };
        if waiting.len() < QUEUED_EVENTS_MAX {
            waiting.push_back(write);
        } else {
            tracing::warn!(name, "event dropped, too many wait");
        }
        None
    }
}

/// The name suffixes given out; they only grow.
#[derive(Default)]
struct Names {
    suffix: i128,
}

impl Recorder {
    /// A recorder whose events name `component` as their source.
    #[must_use]
    pub fn new(ctx: Context, component: impl Into<Cow<'static, str>>) -> Self {
        let broadcaster = Arc::<Broadcaster>::default();
        let known = BTreeMap::from([(String::new(), Arc::clone(&broadcaster))]);
        Self {
            ctx,
            component: component.into(),
            host: None,
            names: Arc::default(),
            broadcasters: Arc::new(Mutex::new(known)),
            broadcaster,
        }
    }

    /// The recorder of the same component on `host`.
    #[must_use]
    pub fn at(&self, host: String) -> Self {
        let mut known = self.broadcasters.lock();
        let broadcaster = Arc::clone(known.entry(host.clone()).or_default());
        drop(known);
        Self {
            host: Some(host),
            broadcaster,
            ..self.clone()
        }
    }

    /// Records one occurrence about `involved`. When this returns the server has answered, or
    /// another caller is busy with the same Event and writes this, too.
    ///
    /// The first occurrence creates an Event, an equal one raises its count. Failures are logged
    /// and otherwise ignored: an event is never a reason to fail a sync.
    pub async fn publish(
        &self,
        involved: &ObjectReference,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let occurrence = Occurrence {
            subject: subject(involved),
            field_path: involved.field_path.clone(),
            event_type,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let namespace = occurrence.subject.namespace.clone();
        let now = (self.ctx.now)();
        let name = || self.name(involved);
        let (name, write) = {
            let mut state = self.broadcaster.state.lock();
            let Some(observed) = state.correlator.observe(occurrence, now, name) else {
                return;
            };
            let name = observed.name.clone();
            let event = self.event(involved, &namespace, (event_type, reason), &observed, now);
            let write = Write::Single(Box::new((event, observed)));
            (name.clone(), state.begin(&name, write))
        };
        self.write_all(&name, write).await;
    }

    fn event(
        &self,
        involved: &ObjectReference,
        namespace: &str,
        (event_type, reason): (EventType, &str),
        observed: &Observed,
        now: Timestamp,
    ) -> core_v1::Event {
        core_v1::Event {
            metadata: metadata(namespace, &observed.name),
            involved_object: involved.clone(),
            type_: Some(event_type.as_str().to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(observed.message.clone()),
            count: Some(observed.count),
            first_timestamp: Some(Time(whole_seconds(observed.first))),
            last_timestamp: Some(Time(whole_seconds(now))),
            source: Some(EventSource {
                component: Some(self.component.to_string()),
                host: self.host.clone(),
            }),
            // Upstream's copy for similar occurrences lacks these two.
            reporting_component: (!observed.is_combined).then(|| self.component.to_string()),
            reporting_instance: (!observed.is_combined)
                .then(|| self.host.clone().unwrap_or_default()),
            ..core_v1::Event::default()
        }
    }

    /// Writes what there is of the Event `name`, beginning with `first`.
    async fn write_all(&self, name: &str, first: Option<Write>) {
        let Some(mut write) = first else { return };
        let mut turn = Turn {
            broadcaster: &self.broadcaster,
            name,
            has_ended: false,
        };
        let mut current = name.to_owned();
        loop {
            let written = match write {
                Write::Single(single) => {
                    let (event, observed) = *single;
                    let written = self.write_single(event, &observed, &current).await;
                    if let Some(other) = written.as_ref().filter(|other| **other != current) {
                        let mut state = self.broadcaster.state.lock();
                        state.correlator.rename(&observed.key, other.clone());
                    }
                    written
                }
                Write::OfSeries(mut event) => {
                    event.metadata.name = Some(current.clone());
                    let written = self.write_of_series(*event).await;
                    if let Some(other) = written.as_ref().filter(|other| **other != current) {
                        let mut state = self.broadcaster.state.lock();
                        state.series.rename(&current, other);
                    }
                    written
                }
            };
            current = written.unwrap_or(current);
            let Some(next) = turn.next() else { return };
            write = next;
        }
    }

    /// Writes an Event of the core group; the name under which the server has it.
    async fn write_single(
        &self,
        event: core_v1::Event,
        observed: &Observed,
        name: &str,
    ) -> Option<String> {
        let mut event = event;
        event.metadata.name = Some(name.to_owned());
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let reason = event.reason.clone();
        let written = self.write(&namespace, event, observed.count, name).await;
        written
            .inspect_err(|error| tracing::warn!(namespace, reason, %error, "event not written"))
            .ok()
    }

    /// Patches the Event, or creates it; returns its name.
    async fn write(
        &self,
        namespace: &str,
        event: core_v1::Event,
        count: i32,
        name: &str,
    ) -> Result<String, kube::Error> {
        if count > 1 {
            let patch = json!({
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            });
            let patched = self.patch::<core_v1::Event>(namespace, name, patch);
            if patched.await? {
                return Ok(name.to_owned());
            }
        }
        let involved = event.involved_object.clone();
        self.create(&involved, event).await
    }
}

impl Recorder {
    /// A name for an Event about `involved`: nanoseconds of the time, as client-go has it, moved on
    /// when they were used already.
    fn name(&self, involved: &ObjectReference) -> String {
        let now = (self.ctx.now)().as_nanosecond();
        let mut names = self.names.lock();
        names.suffix = now.max(names.suffix + 1);
        let object = involved.name.as_deref().unwrap_or_default();
        format!("{object}.{:x}", names.suffix)
    }

    /// Patches the Event `name`; false if it no longer exists, as the server expires events.
    async fn patch<K>(&self, namespace: &str, name: &str, patch: Value) -> Result<bool, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.ctx.client.clone(), namespace);
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        match patched {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            patched => patched.map(|_| true),
        }
    }

    /// Creates `event`, which is about `involved`, under its name or under another if that is taken;
    /// returns the name. What the server answers is not read.
    async fn create<K>(&self, involved: &ObjectReference, event: K) -> Result<String, kube::Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let mut event = event;
        let url = K::url_path(&(), event.meta().namespace.as_deref());
        let mut attempts = 0;
        loop {
            let body = serde_json::to_vec(&event).map_err(kube::Error::SerdeError)?;
            let request = Request::new(&url).create(&PostParams::default(), body);
            let request = request.map_err(kube::Error::BuildRequest)?;
            attempts += 1;
            match self.ctx.client.request::<IgnoredAny>(request).await {
                Ok(_) => return Ok(event.meta().name.clone().unwrap_or_default()),
                Err(kube::Error::Api(status))
                    if status.reason == "AlreadyExists" && attempts < NAME_ATTEMPTS_MAX =>
                {
                    event.meta_mut().name = Some(self.name(involved));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn subject(involved: &ObjectReference) -> Subject {
    Subject {
        api_version: involved.api_version.clone().unwrap_or_default(),
        kind: involved.kind.clone().unwrap_or_default(),
        // Events about objects without a namespace live in this one.
        namespace: involved
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned()),
        name: involved.name.clone().unwrap_or_default(),
        uid: involved.uid.clone().unwrap_or_default(),
    }
}

/// A hash that is equal for equal parts, and in practice for no others.
fn fingerprint(parts: &impl Hash) -> u128 {
    let [high, low] = [1, 2].map(|seed| FixedState::with_seed(seed).hash_one(parts));
    (u128::from(high) << u64::BITS) | u128::from(low)
}

/// Wire timestamps of events carry no fraction.
fn whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).expect("a second of a valid timestamp is valid")
}
