//! Series of equal events of `events.k8s.io`, as client-go's `tools/events` makes them.

use std::collections::BTreeMap;
use std::time::Duration;

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
    running: BTreeMap<u64, Running>,
    /// The numbers by the fingerprint of what the events of one series have in common.
    numbers: BTreeMap<u128, u64>,
    begun: u64,
}

/// An event that has occurred once, or a series with the Event that counts it. A cluster has an event of each pod of the
/// last minutes, and most occur once. So the first keeps only what the second does not say itself.
struct Running {
    fingerprint: u128,
    name: String,
    note: Option<String>,
    began: Option<MicroTime>,
    series: Option<Box<Event>>,
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
        let fingerprint = fingerprint(&event);
        let number = self.numbers.get(&fingerprint);
        let Some(known) = number.and_then(|number| self.running.get_mut(number)) else {
            self.begun += 1;
            self.numbers.insert(fingerprint, self.begun);
            let first = Running {
                fingerprint,
                name: event.metadata.name.clone().unwrap_or_default(),
                note: event.note.clone(),
                began: event.event_time.clone(),
                series: None,
            };
            self.running.insert(self.begun, first);
            return Some(event);
        };
        let last_observed_time = MicroTime(now);
        if let Some(series) = known
            .series
            .as_mut()
            .and_then(|event| event.series.as_mut())
        {
            series.count = series.count.saturating_add(1);
            series.last_observed_time = last_observed_time;
            return None;
        }
        let mut first = event;
        first.metadata.name = Some(known.name.clone());
        first.note = known.note.take();
        first.event_time = known.began.take();
        first.series = Some(EventSeries {
            count: 2,
            last_observed_time,
        });
        known.series = Some(Box::new(first.clone()));
        Some(first)
    }

    /// Remembers that the Event `name` was written under another name.
    pub(super) fn rename(&mut self, name: &str, other: &str) {
        for known in self.running.values_mut().filter(|known| known.name == name) {
            known.name = other.to_owned();
            if let Some(event) = &mut known.series {
                event.metadata.name = Some(other.to_owned());
            }
        }
    }

    /// Forgets what is over; those of it that are series are to be written a last time.
    fn finish(&mut self, now: Timestamp) -> Vec<Event> {
        let limit = SignedDuration::try_from(FINISH).unwrap_or(SignedDuration::MAX);
        let is_over = |_: &u64, known: &mut Running| {
            let series = known
                .series
                .as_ref()
                .and_then(|event| event.series.as_ref());
            let last = series.map(|series| &series.last_observed_time);
            let last = last.or(known.began.as_ref());
            last.is_none_or(|last| now.duration_since(last.0) > limit)
        };
        let over = self.running.extract_if(.., is_over);
        let over = over.filter_map(|(_, known)| {
            self.numbers.remove(&known.fingerprint);
            known.series.map(|event| *event)
        });
        over.collect()
    }

    /// The series that have not ended.
    fn events(&self) -> impl Iterator<Item = &Event> {
        let running = self.running.values();
        running.filter_map(|known| known.series.as_deref())
    }
}

/// The fingerprint of what the events of one series have in common. Their messages may differ.
fn fingerprint(event: &Event) -> u128 {
    super::fingerprint(&(
        (&event.type_, &event.action, &event.reason),
        (&event.reporting_controller, &event.reporting_instance),
        (
            event.regarding.as_ref().map(parts),
            event.related.as_ref().map(parts),
        ),
    ))
}

/// All fields of a reference.
fn parts(reference: &ObjectReference) -> [&Option<String>; 7] {
    let ObjectReference {
        api_version,
        field_path,
        kind,
        name,
        namespace,
        resource_version,
        uid,
    } = reference;
    [
        api_version,
        field_path,
        kind,
        name,
        namespace,
        resource_version,
        uid,
    ]
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
        if refresh {
            due.extend(series.events().cloned());
        }
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
        assert_eq!((series.running.len(), series.numbers.len()), (1, 1));
        let last = series.finish(at(381)).pop();
        assert_eq!(count(last), Some(Some(3)));
        assert_eq!(series.numbers.len(), 0);
        assert_eq!(count(series.observe(event("1", 400), at(400))), Some(None));
    }

    #[test]
    fn the_second_of_a_series_is_written_with_what_the_first_said() {
        let mut series = Series::default();
        let named = |name: &str, note: &str, seconds| Event {
            metadata: metadata("default", name),
            note: Some(note.to_owned()),
            ..event("1", seconds)
        };
        series.observe(named("a.1", "first", 0), at(0));
        series.rename("a.1", "a.2");
        let second = series.observe(named("a.9", "second", 10), at(10));
        let expected = |name| Event {
            series: Some(EventSeries {
                count: 2,
                last_observed_time: MicroTime(at(10)),
            }),
            ..named(name, "first", 0)
        };
        assert_eq!(second, Some(expected("a.2")));
        series.rename("a.2", "a.3");
        assert_eq!(series.finish(at(371)), [expected("a.3")]);
    }

    #[test]
    fn events_of_one_series_differ_in_name_note_and_time_alone() {
        let of = |change: fn(&mut Event)| {
            let mut event = event("1", 0);
            change(&mut event);
            fingerprint(&event)
        };
        let same = of(|_| ());
        assert_eq!(of(|event| event.note = Some("other".to_owned())), same);
        assert_eq!(of(|event| event.event_time = None), same);
        assert_eq!(of(|event| event.metadata = metadata("ns", "other")), same);
        let others: [fn(&mut Event); 8] = [
            |event| event.type_ = Some("other".to_owned()),
            |event| event.action = Some("other".to_owned()),
            |event| event.reason = Some("other".to_owned()),
            |event| event.reporting_controller = Some("other".to_owned()),
            |event| event.reporting_instance = Some("other".to_owned()),
            |event| event.regarding = Some(ObjectReference::default()),
            |event| event.related = Some(ObjectReference::default()),
            |event| event.related = event.regarding.take(),
        ];
        let fields: [fn(&mut ObjectReference) -> &mut Option<String>; 7] = [
            |own| &mut own.api_version,
            |own| &mut own.field_path,
            |own| &mut own.kind,
            |own| &mut own.name,
            |own| &mut own.namespace,
            |own| &mut own.resource_version,
            |own| &mut own.uid,
        ];
        let with = |field: fn(&mut ObjectReference) -> &mut Option<String>| {
            let mut event = event("1", 0);
            *field(event.regarding.as_mut().unwrap()) = Some("other".to_owned());
            fingerprint(&event)
        };
        let mut all = vec![same];
        all.extend(others.map(of));
        all.extend(fields.map(with));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1 + 8 + 7, "each of them counts");
    }
}
