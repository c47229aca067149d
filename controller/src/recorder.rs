//! Core/v1 Events, counted as client-go's correlator counts them, on the caller's clock.

mod correlator;

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::json;

use self::correlator::{Correlator, Occurrence, Subject};
use crate::context::Context;

/// How many names are tried when another component took the same one in the same instant.
const NAME_ATTEMPTS_MAX: usize = 16;

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// What the newer events API is told.
#[derive(Clone, Copy)]
pub(crate) struct Happening<'a> {
    pub(crate) event_type: EventType,
    pub(crate) reason: &'a str,
    /// What was done or tried.
    pub(crate) action: &'a str,
    pub(crate) message: &'a str,
}

/// Writes Events for one component. Clones share their counts.
#[derive(Clone)]
pub(crate) struct Recorder {
    ctx: Context,
    component: &'static str,
    /// The machine that `component` runs on, if that matters.
    host: Option<String>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    correlator: Correlator,
    /// The last name suffix given out; suffixes only grow.
    suffix: i128,
}

impl Recorder {
    /// A recorder whose events name `component` as their source.
    #[must_use]
    pub(crate) fn new(ctx: Context, component: &'static str) -> Self {
        Self {
            ctx,
            component,
            host: None,
            state: Arc::default(),
        }
    }

    /// The same recorder for what happens on `host`.
    #[must_use]
    pub(crate) fn at(&self, host: String) -> Self {
        Self {
            host: Some(host),
            ..self.clone()
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
        let occurrence = Occurrence {
            subject: subject(involved),
            field_path: involved.field_path.clone(),
            event_type,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let namespace = occurrence.subject.namespace.clone();
        let now = (self.ctx.now)();
        let Some(observed) = self.state.lock().correlator.observe(occurrence, now) else {
            return;
        };
        let event = core_v1::Event {
            metadata: ObjectMeta {
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: involved.clone(),
            type_: Some(event_type.as_str().to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(observed.message),
            count: Some(observed.count),
            first_timestamp: Some(Time(whole_seconds(observed.first))),
            last_timestamp: Some(Time(whole_seconds(now))),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: self.host.clone(),
            }),
            reporting_component: Some(self.component.to_owned()),
            reporting_instance: Some(self.host.clone().unwrap_or_default()),
            ..core_v1::Event::default()
        };
        match self.write(&namespace, event, observed.name).await {
            Ok(name) => self.state.lock().correlator.named(&observed.key, name),
            Err(error) => tracing::warn!(namespace, reason, %error, "event not written"),
        }
    }

    /// Records that `action` was taken, or tried, about `involved`, for the sake of `related`, as
    /// components of the newer events API do: each occurrence is an Event of its own, without a
    /// source.
    pub(crate) async fn report(
        &self,
        involved: &ObjectReference,
        related: Option<ObjectReference>,
        happening: Happening<'_>,
    ) {
        let namespace = subject(involved).namespace;
        let event = core_v1::Event {
            metadata: ObjectMeta {
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: involved.clone(),
            related,
            type_: Some(happening.event_type.as_str().to_owned()),
            reason: Some(happening.reason.to_owned()),
            action: Some(happening.action.to_owned()),
            message: Some(happening.message.to_owned()),
            event_time: Some(MicroTime((self.ctx.now)())),
            reporting_component: Some(self.component.to_owned()),
            reporting_instance: self.host.clone(),
            ..core_v1::Event::default()
        };
        if let Err(error) = self.create(&namespace, event).await {
            let reason = happening.reason;
            tracing::warn!(namespace, reason, %error, "event not written");
        }
    }

    /// Patches the Event `name`, or creates one; returns its name.
    async fn write(
        &self,
        namespace: &str,
        event: core_v1::Event,
        name: Option<String>,
    ) -> Result<String, kube::Error> {
        let Some(name) = name else {
            return self.create(namespace, event).await;
        };
        let api: Api<core_v1::Event> = Api::namespaced(self.ctx.client.clone(), namespace);
        let patch = json!({
            "count": event.count,
            "lastTimestamp": event.last_timestamp,
            "message": event.message,
        });
        match api
            .patch(&name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
        {
            Ok(_) => Ok(name),
            // The server expires events; the count outlives them.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.create(namespace, event).await
            }
            Err(error) => Err(error),
        }
    }

    async fn create(
        &self,
        namespace: &str,
        mut event: core_v1::Event,
    ) -> Result<String, kube::Error> {
        let involved = event.involved_object.name.clone().unwrap_or_default();
        let mut attempts = 0;
        loop {
            let suffix = self.state.lock().next_suffix((self.ctx.now)());
            let name = format!("{involved}.{suffix:016x}");
            event.metadata.name = Some(name.clone());
            attempts += 1;
            match self.post(namespace, &event).await {
                Ok(()) => return Ok(name),
                Err(kube::Error::Api(status))
                    if status.reason == "AlreadyExists" && attempts < NAME_ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Recorder {
    /// Creates `event`; what the server says of it is not read.
    async fn post(&self, namespace: &str, event: &core_v1::Event) -> Result<(), kube::Error> {
        let url = core_v1::Event::url_path(&(), Some(namespace));
        let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
        let request = Request::new(url).create(&PostParams::default(), body);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = self.ctx.client.request::<IgnoredAny>(request).await;
        answer.map(|_| ())
    }
}

impl State {
    /// Nanoseconds of `now`, as client-go names events, moved on when they were used already.
    fn next_suffix(&mut self, now: jiff::Timestamp) -> i128 {
        self.suffix = now.as_nanosecond().max(self.suffix + 1);
        self.suffix
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

/// Wire timestamps of events carry no fraction.
fn whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).expect("a second of a valid timestamp is valid")
}
