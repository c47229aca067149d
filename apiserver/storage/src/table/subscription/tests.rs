use jiff::Timestamp;

use super::super::{Change, Transaction, WindowLimits};
use super::*;
use crate::json::json;
use crate::meta::GroupVersionResource;
use crate::{EventType, Initial, ObjectKey, Storage, StoredObject};

/// Objects of one label, or one object.
#[derive(Debug)]
enum Selected {
    Label(&'static str),
    Name(&'static str),
}

impl Filter for Selected {
    fn name(&self) -> String {
        format!("{self:?}")
    }

    fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Label(_) => None,
            Self::Name(name) => Some(ObjectKey::new(None, name)),
        }
    }

    fn selects(&self, object: &StoredObject) -> bool {
        match self {
            Self::Label(value) => object.label("app") == Some(value),
            Self::Name(name) => object.key.as_str() == *name,
        }
    }
}

fn table(window: usize) -> (Storage, Arc<Table>) {
    let limits = WindowLimits {
        events: window,
        bytes: 100_000,
    };
    let storage = Storage::new(Initial::empty(), limits, false);
    let table = storage.table(&GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "nodes".to_owned(),
    });
    (storage, table)
}

/// Writes an object with the label `app`, or removes it; returns the version.
fn write(table: &Table, name: &str, app: Option<&str>) -> ResourceVersion {
    let key = ObjectKey::new(None, name);
    let expected = table.get(&key);
    let value = json!({ "metadata": { "name": name, "labels": { "app": app } } });
    let change = match app {
        Some(_) => Change::Put(value),
        None => Change::Remove(value),
    };
    let written = table.commit(Transaction {
        key: &key,
        expected: expected.as_ref(),
        change,
        time: Timestamp::UNIX_EPOCH,
        user_agent: &Arc::from("test"),
    });
    written.unwrap().rv
}

fn seen(subscription: &Subscription, after: ResourceVersion) -> Vec<(String, EventType)> {
    let (events, _) = subscription.events_after(after, 100).unwrap();
    let pair = |own: &SelectedEvent| (own.event.object.key.to_string(), own.event_type);
    events.iter().map(pair).collect()
}

#[test]
fn a_group_sees_its_objects_come_change_and_go() {
    let (_storage, table) = table(100);
    let began = write(&table, "a", Some("other"));
    let web = Subscription::new(Arc::clone(&table), Arc::new(Selected::Label("web")));
    let one = Subscription::new(Arc::clone(&table), Arc::new(Selected::Name("b")));
    write(&table, "a", Some("web"));
    write(&table, "b", Some("web"));
    write(&table, "b", Some("other"));
    write(&table, "a", None);
    write(&table, "c", Some("other"));
    let event = |name: &str, event_type| (name.to_owned(), event_type);
    use EventType::{Added, Deleted, Modified};
    let all = [
        event("a", Added),
        event("b", Added),
        event("b", Deleted),
        event("a", Deleted),
    ];
    assert_eq!(seen(&web, began), all);
    assert_eq!(seen(&one, began), [event("b", Added), event("b", Modified)]);
    // A watch of earlier events reads the window.
    let before = ResourceVersion::new(began.get() - 1);
    assert_eq!(seen(&web, before), all);
}

#[test]
fn events_come_in_parts_that_reach_to_the_last_of_them() {
    let (_storage, table) = table(100);
    let web = Subscription::new(Arc::clone(&table), Arc::new(Selected::Label("web")));
    let began = table.facts().rv;
    let first = write(&table, "a", Some("web"));
    write(&table, "b", Some("other"));
    write(&table, "c", Some("web"));
    let last = write(&table, "d", Some("other"));
    let (events, reached) = web.events_after(began, 1).unwrap();
    assert_eq!((events.len(), reached), (1, first));
    let (events, reached) = web.events_after(reached, 1).unwrap();
    assert_eq!((events.len(), reached), (1, last));
    assert_eq!(web.events_after(last, 1).unwrap().1, last);
}

#[test]
fn a_watch_that_misses_only_others_events_does_not_expire() {
    let (_storage, table) = table(3);
    let web = Subscription::new(Arc::clone(&table), Arc::new(Selected::Label("web")));
    let began = table.facts().rv;
    for index in 0..10 {
        write(&table, &format!("other-{index}"), Some("other"));
    }
    let own = write(&table, "a", Some("web"));
    assert_eq!(seen(&web, began).len(), 1);
    for index in 10..20 {
        write(&table, &format!("other-{index}"), Some("other"));
    }
    let expired = web.events_after(began, 100);
    assert!(matches!(expired, Err(WindowError::Expired { .. })));
    assert_eq!(web.events_after(own, 100).unwrap().0.len(), 0);
    // The log has forgotten what the window has.
    write(&table, "a", Some("web"));
    assert!(matches!(
        web.events_after(began, 100),
        Err(WindowError::Expired { .. })
    ));
    assert_eq!(seen(&web, own).len(), 1);
}

#[test]
fn only_watches_of_the_written_object_are_woken() {
    let (_storage, table) = table(100);
    let web = Subscription::new(Arc::clone(&table), Arc::new(Selected::Label("web")));
    let one = Subscription::new(Arc::clone(&table), Arc::new(Selected::Name("b")));
    let woken = |write_it: &dyn Fn()| {
        let (all, web, one) = (table.changed(), web.changed(), one.changed());
        let mut waiting = [&all, &web, &one].map(|changed| Box::pin(changed.notified()));
        waiting.iter_mut().for_each(|own| {
            own.as_mut().enable();
        });
        write_it();
        waiting.map(|mut own| own.as_mut().enable())
    };
    let by = |name: &'static str, app: &'static str| {
        let table = &table;
        move || {
            write(table, name, Some(app));
        }
    };
    assert_eq!(woken(&by("a", "other")), [true, false, false]);
    assert_eq!(woken(&by("b", "other")), [true, false, true]);
    assert_eq!(woken(&by("b", "web")), [true, true, true]);
    assert_eq!(woken(&|| table.compact()), [true, true, true]);
}

#[test]
fn a_group_ends_with_its_last_watch() {
    let (_storage, table) = table(100);
    let begin = || Subscription::new(Arc::clone(&table), Arc::new(Selected::Name("a")));
    let (one, other) = (begin(), begin());
    let groups = || table.state.read().groups.groups.len();
    assert_eq!(groups(), 1);
    drop(one);
    assert_eq!(groups(), 1);
    drop(other);
    let state = table.state.read();
    let groups = &state.groups;
    assert!(groups.groups.is_empty() && groups.by_name.is_empty() && groups.of_one.is_empty());
}

#[test]
fn selected_events_behind_many_others_are_read_at_once() {
    let (_storage, table) = table(100);
    let began = write(&table, "a", Some("other"));
    for _ in 0..20 {
        write(&table, "a", Some("other"));
    }
    write(&table, "b", Some("web"));
    let last = write(&table, "a", Some("other"));
    let web = Subscription::new(Arc::clone(&table), Arc::new(Selected::Label("web")));
    let (events, reached) = web.events_after(began, 5).unwrap();
    let names: Vec<_> = events
        .iter()
        .map(|own| own.event.object.key.as_str())
        .collect();
    assert_eq!(names, ["b"]);
    let (events, reached) = web.events_after(reached, 5).unwrap();
    assert!(events.is_empty());
    assert_eq!(reached, last);
}
