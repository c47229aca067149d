//! The protocol of a watch, step by step, over a table of its own.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Start;
use super::schedule::Schedule;
use super::state::{Advance, Source, State, WatchEvent};
use crate::endpoints::selectors::{Selection, Selectors};
use crate::json::{Value, json};
use crate::meta::ResourceVersion;
use crate::registry::catalog::Catalog;
use crate::status::ApiError;
use crate::storage::{
    Change, EventType, Filter, Initial, ObjectKey, Storage, Table, Transaction, WindowLimits,
};

/// A table of ConfigMaps whose window holds `events` events; its first write takes version 2.
fn configmaps(events: usize) -> Arc<Table> {
    let limits = WindowLimits {
        events,
        bytes: usize::MAX,
    };
    let resource = Catalog::builtin().resource("", "v1", "configmaps");
    Storage::new(Initial::empty(), limits, false).table(resource.unwrap().gvr())
}

/// Writes a ConfigMap with the label `tier`; without a tier, removes it.
fn write(table: &Table, name: &str, tier: Option<&str>) {
    let key = ObjectKey::new(Some("ns"), name);
    let held = table.get(&key);
    let change = match tier {
        Some(tier) => Change::Put(json!({"metadata": {"name": name, "labels": {"tier": tier}}})),
        None => Change::Remove(Value::clone(&held.as_ref().unwrap().value())),
    };
    let commit = Transaction {
        key: &key,
        expected: held.as_ref(),
        change,
        time: Timestamp::UNIX_EPOCH,
        user_agent: &Arc::from("test"),
    };
    table.commit(commit).unwrap();
}

fn selection(label: &str) -> Selection {
    let resource = Catalog::builtin().resource("", "v1", "configmaps");
    let resource = Arc::clone(resource.unwrap());
    Selection {
        namespace: Some("ns".to_owned()),
        selectors: Selectors::parse(label, "", resource).unwrap(),
    }
}

fn source<'a>(table: &'a Table, selection: &'a Selection) -> Source<'a> {
    Source {
        table,
        selection,
        subscription: None,
        lag: 0,
        horizon: None,
    }
}

fn present(not_older_than: u64, ends_with_bookmark: bool) -> Start {
    Start::Present {
        not_older_than: ResourceVersion::new(not_older_than),
        any: false,
        ends_with_bookmark,
    }
}

/// The versions of the events of a batch.
fn versions(advance: Advance) -> Vec<u64> {
    match advance {
        Advance::Batch { events, .. } => events.iter().map(|own| own.event.rv.get()).collect(),
        other => panic!("no batch: {other:?}"),
    }
}

fn name_of(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Initial(object) => object.key.to_string(),
        WatchEvent::Bookmark {
            rv,
            ends_initial_events,
        } => format!("bookmark {rv} {ends_initial_events}"),
        other => panic!("not initial: {other:?}"),
    }
}

#[test]
fn present_objects_come_before_their_bookmark_and_then_events() {
    let (table, everything) = (configmaps(10), selection(""));
    write(&table, "b", Some("x"));
    write(&table, "a", Some("x"));
    let now = Instant::now();
    let mut state = State::start(present(0, true), &table, now);
    assert!(matches!(state, State::Waiting { .. }));
    assert!(state.take_initial().is_none());
    let listed = state.advance(source(&table, &everything), now);
    assert!(matches!(
        listed,
        Advance::Listed {
            examined: 2,
            was_awaited: false
        }
    ));
    assert!(matches!(state, State::Initial { .. }));
    assert_eq!(state.rv().get(), 3);
    // Written after the snapshot, so delivered as an event.
    write(&table, "c", Some("x"));
    let initial: Vec<_> = std::iter::from_fn(|| state.take_initial()).collect();
    let names: Vec<_> = initial.iter().map(name_of).collect();
    assert_eq!(names, ["ns/a", "ns/b", "bookmark 3 true"]);
    assert!(matches!(state, State::Streaming { .. }));
    assert_eq!(state.rv().get(), 3);
    let batch = state.advance(source(&table, &everything), now);
    assert_eq!(versions(batch), [4]);
    assert_eq!(state.rv().get(), 4);
    let idle = state.advance(source(&table, &everything), now);
    assert!(matches!(idle, Advance::Idle));
}

#[test]
fn without_a_bookmark_the_events_follow_the_present_objects() {
    let (table, none) = (configmaps(10), selection("tier=none"));
    write(&table, "a", Some("x"));
    let now = Instant::now();
    let mut state = State::start(present(0, false), &table, now);
    let listed = state.advance(source(&table, &none), now);
    assert!(matches!(listed, Advance::Listed { examined: 1, .. }));
    assert!(state.take_initial().is_none(), "nothing is selected");
    let State::Streaming {
        rv,
        began,
        keeps_up: false,
    } = state
    else {
        panic!("{state:?}");
    };
    assert_eq!((rv.get(), began.get()), (2, 2));
}

#[test]
fn a_version_to_come_is_awaited_for_three_seconds() {
    let (table, everything) = (configmaps(10), selection(""));
    let now = Instant::now();
    let soon = now + Duration::from_millis(2999);
    let mut early = State::start(present(2, true), &table, now);
    let mut late = State::start(present(3, true), &table, now);
    for state in [&mut early, &mut late] {
        let idle = state.advance(source(&table, &everything), soon);
        assert!(matches!(idle, Advance::Idle));
        assert_eq!(state.rv(), ResourceVersion::ZERO);
    }
    write(&table, "a", Some("x"));
    let over = now + Duration::from_secs(3);
    let listed = early.advance(source(&table, &everything), over);
    assert!(matches!(
        listed,
        Advance::Listed {
            examined: 1,
            was_awaited: true
        }
    ));
    let failed = late.advance(source(&table, &everything), over);
    let Advance::Failed {
        error: ApiError::Timeout { message, .. },
        fell_behind: false,
    } = failed
    else {
        panic!("{failed:?}");
    };
    assert_eq!(message, "Too large resource version: 3, current: 2");
    assert!(matches!(late, State::Ended));
    assert!(late.take_initial().is_none());
    let idle = late.advance(source(&table, &everything), over);
    assert!(matches!(idle, Advance::Idle));
}

#[test]
fn a_watch_behind_the_window_expires() {
    let (table, everything) = (configmaps(2), selection(""));
    let now = Instant::now();
    let mut slow = State::start(Start::Now, &table, now);
    assert_eq!(slow.rv().get(), 1);
    write(&table, "a", Some("1"));
    let batch = slow.advance(source(&table, &everything), now);
    assert_eq!(versions(batch), [2]);
    for tier in ["2", "3", "4"] {
        write(&table, "a", Some(tier));
    }
    let mut resumed = State::start(Start::After(ResourceVersion::new(2)), &table, now);
    for (state, slow) in [(&mut slow, true), (&mut resumed, false)] {
        let failed = state.advance(source(&table, &everything), now);
        let Advance::Failed { error, fell_behind } = failed else {
            panic!("{failed:?}");
        };
        let ApiError::Expired(message) = error else {
            panic!("{error:?}");
        };
        assert_eq!(message, "too old resource version: 2 (3)");
        assert_eq!(fell_behind, slow);
        assert!(matches!(state, State::Ended));
    }
}

#[test]
fn events_beyond_the_horizon_come_later() {
    let (table, everything) = (configmaps(10), selection(""));
    let now = Instant::now();
    for name in ["a", "b", "c"] {
        write(&table, name, Some("x"));
    }
    let mut state = State::start(Start::After(ResourceVersion::new(1)), &table, now);
    let until = |horizon| Source {
        horizon: Some(ResourceVersion::new(horizon)),
        ..source(&table, &everything)
    };
    assert!(matches!(state.advance(until(1), now), Advance::Idle));
    assert_eq!(versions(state.advance(until(3), now)), [2, 3]);
    // A horizon that falls back takes nothing back.
    assert!(matches!(state.advance(until(2), now), Advance::Idle));
    assert_eq!(state.rv().get(), 3);
    let rest = state.advance(source(&table, &everything), now);
    assert_eq!(versions(rest), [4]);
}

#[test]
fn events_before_the_watch_began_are_counted() {
    let (table, everything) = (configmaps(10), selection(""));
    let now = Instant::now();
    write(&table, "a", Some("x"));
    write(&table, "b", Some("x"));
    let mut state = State::start(Start::After(ResourceVersion::new(1)), &table, now);
    write(&table, "c", Some("x"));
    let batch = state.advance(source(&table, &everything), now);
    let Advance::Batch {
        after,
        events,
        past: 2,
    } = batch
    else {
        panic!("{batch:?}");
    };
    assert_eq!((after.get(), events.len()), (1, 3));
}

#[test]
fn changes_become_arrivals_and_departures_of_a_selection() {
    let (table, front) = (configmaps(10), selection("tier=front"));
    for tier in [
        Some("back"),
        Some("front"),
        Some("front"),
        Some("back"),
        None,
    ] {
        write(&table, "a", tier);
    }
    let (events, _) = table.events_after(ResourceVersion::new(1), 10).unwrap();
    let types = events.iter().map(|event| front.event_type(event));
    assert_eq!(
        types.collect::<Vec<_>>(),
        [
            None,
            Some(EventType::Added),
            Some(EventType::Modified),
            Some(EventType::Deleted),
            None,
        ]
    );
}

#[test]
fn bookmarks_come_each_period_and_before_the_end() {
    let seconds = Duration::from_secs;
    let now = Instant::now();
    let mut schedule = Schedule::new(now, seconds(100), Some(seconds(60)));
    assert!(!schedule.take_bookmark(now + seconds(59)));
    for due in [60, 98] {
        assert_eq!(schedule.next(), now + seconds(due));
        assert!(schedule.take_bookmark(now + seconds(due)));
    }
    assert_eq!(schedule.next(), schedule.deadline());
    assert!(!schedule.take_bookmark(now + seconds(100)), "it is over");
    assert!(!schedule.is_over(now + seconds(99)));
    assert!(schedule.is_over(now + seconds(100)));
}

#[test]
fn a_client_without_bookmarks_waits_for_the_end() {
    let now = Instant::now();
    let mut schedule = Schedule::new(now, Duration::MAX, None);
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    assert_eq!(schedule.next(), now + year);
    assert!(!schedule.take_bookmark(now + year));
    assert!(!schedule.has_bookmarks());
}
