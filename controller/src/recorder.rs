//! Core/v1 Events, counted as client-go's correlator counts them, on the caller's clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use parking_lot::Mutex;

use crate::context::Context;

/// How many distinct events are remembered for counting; the oldest is forgotten first.
const REMEMBERED_EVENTS_MAX: usize = 4096;
/// How many names are tried when another component took the same one in the same instant.
const NAME_ATTEMPTS_MAX: usize = 16;

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventType {
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
pub(crate) struct Recorder {
    ctx: Context,
    component: &'static str,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    seen: BTreeMap<EventKey, Seen>,
    /// The last name suffix given out; suffixes only grow.
    suffix: i128,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    namespace: String,
    kind: String,
    name: String,
    uid: String,
    event_type: EventType,
    reason: String,
    message: String,
}

#[derive(Clone)]
struct Seen {
    name: String,
    count: i32,
    first: jiff::Timestamp,
    order: i128,
}

impl Recorder {
    /// A recorder whose events name `component` as their source.
    #[must_use]
    pub(crate) fn new(ctx: Context, component: &'static str) -> Self {
        Self {
            ctx,
            component,
            state: Arc::default(),
        }
    }

    /// Records one occurrence about `involved`; returns when the server has answered.
    ///
    /// The first occurrence creates an Event, an equal one raises its count. Failures are logged
    /// and otherwise ignored: an event is never a reason to fail a sync.
    pub(crate) async fn publish(
        &self,
        involved: &ObjectReference,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let key = EventKey {
            namespace: involved
                .namespace
                .clone()
                .unwrap_or_else(|| "default".to_owned()),
            kind: involved.kind.clone().unwrap_or_default(),
            name: involved.name.clone().unwrap_or_default(),
            uid: involved.uid.clone().unwrap_or_default(),
            event_type,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let now = (self.ctx.now)();
        let known = self.state.lock().seen.get(&key).cloned();
        let api = Api::namespaced(self.ctx.client.clone(), &key.namespace);
        let written = match known {
            Some(seen) => self.recur(&api, &key, involved, seen, now).await,
            None => self.create(&api, &key, involved, 1, now, now).await,
        };
        match written {
            Ok(seen) => self.state.lock().remember(key, seen),
            Err(error) => tracing::warn!(
                namespace = key.namespace,
                name = key.name,
                reason,
                %error,
                "event not written"
            ),
        }
    }

    async fn recur(
        &self,
        api: &Api<core_v1::Event>,
        key: &EventKey,
        involved: &ObjectReference,
        seen: Seen,
        now: jiff::Timestamp,
    ) -> Result<Seen, kube::Error> {
        let count = seen.count.saturating_add(1);
        let patch =
            serde_json::json!({ "count": count, "lastTimestamp": Time(whole_seconds(now)) });
        let params = PatchParams::default();
        match api
            .patch(&seen.name, &params, &Patch::Strategic(patch))
            .await
        {
            Ok(_) => Ok(Seen { count, ..seen }),
            // The server expires events; the count outlives them.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.create(api, key, involved, count, seen.first, now)
                    .await
            }
            Err(error) => Err(error),
        }
    }

    async fn create(
        &self,
        api: &Api<core_v1::Event>,
        key: &EventKey,
        involved: &ObjectReference,
        count: i32,
        first: jiff::Timestamp,
        now: jiff::Timestamp,
    ) -> Result<Seen, kube::Error> {
        let mut attempts = 0;
        loop {
            let order = self.state.lock().next_suffix(now);
            let name = format!("{}.{order:016x}", key.name);
            let event = core_v1::Event {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    namespace: Some(key.namespace.clone()),
                    ..ObjectMeta::default()
                },
                involved_object: involved.clone(),
                type_: Some(key.event_type.as_str().to_owned()),
                reason: Some(key.reason.clone()),
                message: Some(key.message.clone()),
                count: Some(count),
                first_timestamp: Some(Time(whole_seconds(first))),
                last_timestamp: Some(Time(whole_seconds(now))),
                source: Some(EventSource {
                    component: Some(self.component.to_owned()),
                    host: None,
                }),
                reporting_component: Some(self.component.to_owned()),
                reporting_instance: Some(String::new()),
                ..core_v1::Event::default()
            };
            attempts += 1;
            match api.create(&PostParams::default(), &event).await {
                Ok(_) => {
                    return Ok(Seen {
                        name,
                        count,
                        first,
                        order,
                    });
                }
                Err(kube::Error::Api(status))
                    if status.reason == "AlreadyExists" && attempts < NAME_ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl State {
    /// Nanoseconds of `now`, as client-go names events, moved on when they were used already.
    fn next_suffix(&mut self, now: jiff::Timestamp) -> i128 {
        self.suffix = now.as_nanosecond().max(self.suffix + 1);
        self.suffix
    }

    fn remember(&mut self, key: EventKey, seen: Seen) {
        self.seen.insert(key, seen);
        if self.seen.len() > REMEMBERED_EVENTS_MAX {
            let oldest = self.seen.iter().min_by_key(|(_, seen)| seen.order);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.seen.remove(&key);
            }
        }
    }
}

/// Wire timestamps of events carry no fraction.
fn whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).expect("a second of a valid timestamp is valid")
}
