//! Series of equal events of `events.k8s.io`, as client-go's `tools/events` makes them.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::FixedState;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;

use super::{EventType, Recorder, Write, metadata, subject};

/// A series ends after this time without an occurrence; the interval of this check is equal.
const FINISH: Duration = Duration::from_mins(6);
/// Running series are written every fifth time, lest the server expire them.
const TURNS_PER_REFRESH: u32 = 5;

/// The events that further ones may be equal to.
#[derive(Default)]
pub(super) struct Series {
    /// By number, in the order of their first occurrence.
    running: BTreeMap<u64, Box<Event>>,
    /// The numbers of the events with equal hashes: a cluster has an event of each pod of the last minutes.
    by_hash: BTreeMap<u64, Vec<u64>>,
    begun: u64,
}

/// An event for the newer events API.
#[derive(Clone, Copy)]
pub struct EventParams<'a> {
    /// Whether it is normal or a warning.
    pub event_type: EventType,
    /// The reason, in CamelCase.
    pub reason: &'a str,
    /// The action that was done or tried.
    pub action: &'a str,
    /// The text for people.
    pub message: &'a str,
}

impl Series {
    /// Counts `event`; the Event to write now, if any: the first and the second of a series are
    /// written at once.
    fn observe(&mut self, event: Event, now: Timestamp) -> Option<Event> {
        let numbers = self.by_hash.entry(hash(&event)).or_default();
        let running = &mut self.running;
        let is_known = |number: &&u64| {
            running
                .get(number)
                .is_some_and(|known| is_equal(known, &event))
        };
        let number = numbers.iter().find(is_known).copied();
        let Some(known) = number.and_then(|number| running.get_mut(&number)) else {
            self.begun += 1;
            numbers.push(self.begun);
            running.insert(self.begun, Box::new(event.clone()));
            return Some(event);
        };
        let is_second = known.series.is_none();
        let series = known.series.get_or_insert(EventSeries {
            count: 1,
            last_observed_time: MicroTime(now),
        });
        series.count = series.count.saturating_add(1);
        series.last_observed_time = MicroTime(now);
        is_second.then(|| Event::clone(known))
    }

    /// Remembers that the Event `name` was written under another name.
    pub(super) fn rename(&mut self, name: &str, other: &str) {
        let known = self.running.values_mut();
        for event in known.filter(|known| known.metadata.name.as_deref() == Some(name)) {
            event.metadata.name = Some(other.to_owned());
        }
    }

    /// Forgets what is over; those of it that are series are to be written a last time.
    fn finish(&mut self, now: Timestamp) -> Vec<Event> {
        let limit = SignedDuration::try_from(FINISH).unwrap_or(SignedDuration::MAX);
        let is_over = |_: &u64, event: &mut Box<Event>| {
            let series = event.series.as_ref();
            let last = series.map(|series| &series.last_observed_time);
            let last = last.or(event.event_time.as_ref());
            last.is_none_or(|last| now.duration_since(last.0) > limit)
        };
        let over: Vec<(u64, Box<Event>)> = self.running.extract_if(.., is_over).collect();
        for (number, event) in &over {
            let key = hash(event);
            if let Some(numbers) = self.by_hash.get_mut(&key) {
                numbers.retain(|other| other != number);
                if numbers.is_empty() {
                    self.by_hash.remove(&key);
                }
            }
        }
        let over = over.into_iter().map(|(_, event)| *event);
        over.filter(|event| event.series.is_some()).collect()
    }
}

/// The hash of what the events of one series have in common.
fn hash(event: &Event) -> u64 {
    let regarding = event.regarding.as_ref();
    let regarding =
        regarding.map(|own| (&own.namespace, &own.name, &own.uid, &own.resource_version));
    FixedState::default().hash_one((regarding, &event.reason, &event.action))
}

/// Whether two events belong to one series. Their messages may differ.
fn is_equal(one: &Event, other: &Event) -> bool {
    one.type_ == other.type_
        && one.action == other.action
        && one.reason == other.reason
        && one.reporting_controller == other.reporting_controller
        && one.reporting_instance == other.reporting_instance
        && one.regarding == other.regarding
        && one.related == other.related
}

impl Recorder {
    /// Records that `action` was taken, or tried, about `involved`, for the sake of `related`, as
    /// components of the newer events API do. [`Recorder::run_series`] also has to run.
    pub async fn report(
        &self,
        involved: &ObjectReference,
        related: Option<ObjectReference>,
        params: EventParams<'_>,
    ) {
        let namespace = subject(involved).namespace;
        let now = (self.ctx.now)();
        let event = Event {
            metadata: metadata(&namespace, &self.name(involved)),
            regarding: Some(involved.clone()),
            related,
            type_: Some(params.event_type.as_str().to_owned()),
            reason: Some(params.reason.to_owned()),
            action: Some(params.action.to_owned()),
            note: Some(params.message.to_owned()),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.component.to_string()),
            reporting_instance: self.host.clone(),
            ..Event::default()
        };
        let (name, write) = {
            let mut state = self.broadcaster.state.lock();
            let Some(event) = state.series.observe(event, now) else {
                return;
            };
            let name = event.metadata.name.clone().unwrap_or_default();
            let write = Write::OfSeries(Box::new(event));
            (name.clone(), state.begin(&name, write))
        };
        self.write_all(&name, write).await;
    }

    /// Writes an event, or what has become of its series; the name under which the server has it.
    pub(super) async fn write_of_series(&self, event: Event) -> Option<String> {
        let (namespace, name) = (
            event.metadata.namespace.clone(),
            event.metadata.name.clone(),
        );
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let reason = event.reason.clone();
        let written = async {
            if let Some(series) = &event.series {
                let patch = json!({ "series": series });
                if self.patch::<Event>(&namespace, &name, patch).await? {
                    return Ok(name);
                }
            }
            let involved = event.regarding.clone().unwrap_or_default();
            self.create(&involved, event).await
        };
        written
            .await
            .inspect_err(
                |error: &kube::Error| tracing::warn!(namespace, reason, %error, "event not written"),
            )
            .ok()
    }

    /// Writes updates and ends of series. Never returns.
    pub async fn run_series(&self) {
        let mut turn: u32 = 0;
        loop {
            tokio::time::sleep(FINISH).await;
            turn = turn.wrapping_add(1);
            let refresh = turn.is_multiple_of(TURNS_PER_REFRESH);
            for event in self.due(refresh) {
                let name = event.metadata.name.clone().unwrap_or_default();
                let write = Write::OfSeries(Box::new(event));
                let write = self.broadcaster.state.lock().begin(&name, write);
                self.write_all(&name, write).await;
            }
        }
    }

    /// Returns the finished series and, on request, the running ones.
    fn due(&self, refresh: bool) -> Vec<Event> {
        let series = &mut self.broadcaster.state.lock().series;
        let mut due = series.finish((self.ctx.now)());
        let running = series.running.values();
        due.extend(
            running
                .filter(|own| refresh && own.series.is_some())
                .map(|own| Event::clone(own)),
        );
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn event(version: &str, seconds: i64) -> Event {
        Event {
            regarding: Some(ObjectReference {
                resource_version: Some(version.to_owned()),
                ..ObjectReference::default()
            }),
            event_time: Some(MicroTime(at(seconds))),
            ..Event::default()
        }
    }

    #[test]
    fn the_first_two_of_a_series_are_written_and_others_when_it_ends() {
        let mut series = Series::default();
        let count = |event: Option<Event>| event.map(|event| event.series.map(|own| own.count));
        assert_eq!(count(series.observe(event("1", 0), at(0))), Some(None));
        assert_eq!(count(series.observe(event("2", 0), at(0))), Some(None));
        assert_eq!(count(series.observe(event("1", 10), at(10))), Some(Some(2)));
        assert_eq!(count(series.observe(event("1", 20), at(20))), None);
        assert_eq!(series.finish(at(360)), [], "they may go on");
        assert_eq!(series.running.len(), 2);
        assert_eq!(
            series.finish(at(361)),
            [],
            "one that came once is forgotten"
        );
        assert_eq!((series.running.len(), series.by_hash.len()), (1, 1));
        let last = series.finish(at(381)).pop();
        assert_eq!(count(last), Some(Some(3)));
        assert_eq!(series.by_hash.len(), 0);
        assert_eq!(count(series.observe(event("1", 400), at(400))), Some(None));
    }
}
