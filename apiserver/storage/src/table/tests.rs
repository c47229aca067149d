use jiff::Timestamp;

use super::super::{Initial, Storage};
use super::state::DECODED_MAX;
use super::*;
use crate::json::{Value, json};

fn configmaps(window_events_max: usize) -> (Storage, Arc<Table>) {
    configmaps_with(window_events_max, true)
}

fn configmaps_with(window_events_max: usize, journal: bool) -> (Storage, Arc<Table>) {
    let limits = WindowLimits {
        events: window_events_max,
        bytes: 100_000,
    };
    let storage = Storage::new(Initial::empty(), limits, journal);
    let gvr = GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
    };
    let table = storage.table(&gvr);
    (storage, table)
}

fn commit(table: &Table, name: &str, change: Change) -> Result<Arc<StoredObject>, Conflict> {
    let key = ObjectKey::new(Some("ns"), name);
    let expected = table.get(&key);
    table.commit(Transaction {
        key: &key,
        expected: expected.as_ref(),
        change,
        time: Timestamp::UNIX_EPOCH,
        user_agent: &Arc::from("test"),
    })
}

fn put(table: &Table, name: &str, data: &str) -> u64 {
    commit(
        table,
        name,
        Change::Put(json!({"metadata": {"name": name}, "data": data})),
    )
    .unwrap()
    .rv
    .get()
}

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot
        .range(Some("ns"), None)
        .map(|object| object.key.as_str())
        .collect()
}

#[test]
fn versions_ascend_across_tables_and_are_written_into_the_object() {
    let (storage, table) = configmaps(10);
    let first = put(&table, "a", "1");
    let second = put(&table, "a", "2");
    assert_eq!((first, second, storage.resource_version().get()), (2, 3, 3));
    let object = table.get(&ObjectKey::new(Some("ns"), "a")).unwrap();
    assert_eq!(object.value()["metadata"]["resourceVersion"], "3");
    assert_eq!(
        serde_json::from_slice::<Value>(&object.json()).unwrap(),
        *object.value()
    );
}

#[test]
fn objects_rest_as_text_and_are_the_same_again() {
    let (_, table) = configmaps_with(10, false);
    put(&table, "first", "1");
    let first = table.get(&ObjectKey::new(Some("ns"), "first")).unwrap();
    let written = first.value();
    for index in 0..DECODED_MAX {
        assert!(Arc::ptr_eq(&written, &first.value()), "still awake");
        put(&table, &format!("other-{index}"), "");
    }
    let shared = first.value();
    assert!(
        Arc::ptr_eq(&written, &shared),
        "somebody still holds the value"
    );
    drop((written, shared));
    let again = first.value();
    assert_eq!(again["data"], "1");
    assert!(Arc::ptr_eq(&again, &first.value()));
    assert_eq!(first.fields(&["data"])["data"], "1");
    assert_eq!(first.fields(&["data"])["metadata"], Value::Null);
    drop(again);
    put(&table, "first", "2");
    assert_eq!(
        first.fields(&["data"]),
        Arc::new(json!({ "data": "1" })),
        "a version that is replaced rests as text"
    );
}

#[test]
fn texts_that_were_not_written_lately_are_compressed() {
    const OBJECTS: usize = 20;
    let text = "x".repeat(1024 * 1024);
    let (storage, table) = configmaps_with(10, false);
    let is_compressed = |table: &Table, name: String| {
        let object = table.get(&ObjectKey::new(Some("ns"), &name)).unwrap();
        assert_eq!(object.value()["data"], *text);
        object.is_compressed()
    };
    for index in 0..OBJECTS {
        let name = format!("{index:02}");
        put(&table, &name, &text);
        // As the answer to the writer does.
        table
            .get(&ObjectKey::new(Some("ns"), &name))
            .unwrap()
            .json();
    }
    let compressed = (0..OBJECTS).map(|index| is_compressed(&table, format!("{index:02}")));
    let compressed: Vec<_> = compressed.collect();
    assert!(
        compressed.is_sorted_by(|older, newer| older >= newer),
        "{compressed:?}"
    );
    assert_eq!((compressed[0], compressed[OBJECTS - 1]), (true, false));

    // Objects that a server begins with are no exception.
    let objects = (0..OBJECTS).map(|index| {
        let name = format!("{index:02}");
        let value = json!({ "metadata": { "name": name }, "data": text });
        let key = ObjectKey::new(Some("ns"), &name);
        Arc::new(StoredObject::new(key, rv(1), value))
    });
    let gvr = GroupVersionResource {
        resource: "secrets".to_owned(),
        ..table.gvr().clone()
    };
    storage.hold(gvr.clone(), objects.collect());
    let held = storage.table(&gvr);
    assert!(is_compressed(&held, "00".to_owned()));
    assert!(!is_compressed(&held, format!("{:02}", OBJECTS - 1)));
}

#[test]
fn an_object_that_is_removed_as_it_is_differs_in_its_version_only() {
    let (_, table) = configmaps(10);
    let object = |kind: &str| {
        json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {
                "name": "a", "generateName": "\"resourceVersion\":\"9\"", "labels": { "a": "b" },
                "managedFields": [{ "manager": "resourceVersion", "fieldsV1": "\0{\"f:data\":{}}" }],
            },
            "data": { "resourceVersion": "2" },
        })
    };
    // The fields of an unknown kind are sorted, so other versions come before that of the metadata.
    for kind in ["ConfigMap", "Unknown"] {
        let put = commit(&table, "a", Change::Put(object(kind))).unwrap();
        let removed = commit(&table, "a", Change::RemoveStored).unwrap();
        let mut want = Value::clone(&put.value());
        want["metadata"]["resourceVersion"] = removed.rv.to_string().into();
        let copied = StoredObject::new(put.key.clone(), removed.rv, want.clone());
        assert_eq!(removed.json(), copied.json());
        assert_eq!(removed.json_fields(), copied.json_fields());
        assert_eq!(*removed.value(), want);
        assert_eq!(removed.label("a"), Some("b"));
        assert!(table.get(&put.key).is_none());
    }
}

#[test]
fn a_removed_object_has_all_but_its_version_whatever_its_kind() {
    let kinds = [
        ("v1", "ConfigMap", true),
        ("example.com/v1", "DeleteOptions", false),
        ("meta.k8s.io/v1", "Own", false),
    ];
    for ((api_version, kind, is_built_in), journal) in kinds
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        for is_prepared in [true, false] {
            let (storage, table) = configmaps_with(1000, journal);
            while put(&table, "other", "") < 98 {}
            let object = json!({
                "apiVersion": api_version, "kind": kind,
                "metadata": { "name": "a", "annotations": { "resourceVersion": "99" } },
            });
            let stored = commit(&table, "a", Change::Put(object)).unwrap();
            let change = match is_prepared {
                true => table.removal(&stored),
                false => Change::RemoveStored,
            };
            let by_text = is_built_in && !journal;
            if is_prepared {
                assert_eq!(matches!(change, Change::RemoveStored), by_text, "{kind}");
                let is_written = stored.known_bytes() > 0;
                assert_eq!(is_written, by_text, "the text is there before the commit");
            }
            let removed = commit(&table, "a", change).unwrap();
            assert_eq!((stored.rv, removed.rv), (rv(99), rv(100)));
            if is_prepared {
                let is_decoded = removed.known_bytes() == 0;
                assert_eq!(is_decoded, !by_text, "the journal decodes nothing");
            }
            let mut want = Value::clone(&stored.value());
            want["metadata"]["resourceVersion"] = "100".into();
            assert_eq!(*removed.value(), want);
            let copied = StoredObject::new(stored.key.clone(), removed.rv, want.clone());
            assert_eq!(removed.json(), copied.json());
            assert_eq!(removed.json_fields(), copied.json_fields());
            let last = storage.journal().pop();
            assert_eq!(
                last.map(|entry| Value::clone(&entry.object)),
                journal.then_some(want)
            );
        }
    }
}

#[test]
fn a_commit_upon_an_old_read_is_refused_and_changes_nothing() {
    let (storage, table) = configmaps(10);
    put(&table, "a", "1");
    let key = ObjectKey::new(Some("ns"), "a");
    let stale = table.get(&key);
    put(&table, "a", "2");
    for expected in [stale.as_ref(), None] {
        let commit = Transaction {
            key: &key,
            expected,
            change: Change::Put(json!({"metadata": {}})),
            time: Timestamp::UNIX_EPOCH,
            user_agent: &Arc::from("test"),
        };
        assert_eq!(table.commit(commit).unwrap_err(), Conflict);
    }
    assert_eq!(table.get(&key).unwrap().value()["data"], "2");
    assert_eq!(storage.resource_version(), rv(3));
}

#[test]
fn the_window_answers_events_and_lists_of_any_version_it_holds() {
    let (_, table) = configmaps(10);
    put(&table, "a", "1");
    put(&table, "b", "1");
    let last = json!({"metadata": {"name": "a"}, "data": "1"});
    let deleted = commit(&table, "a", Change::Remove(last)).unwrap();
    assert_eq!(deleted.value()["metadata"]["resourceVersion"], "4");

    let (events, reached) = table.events_after(rv(2), 100).unwrap();
    let types: Vec<_> = events.iter().map(|event| event.event_type).collect();
    assert_eq!(
        (types, reached),
        (vec![EventType::Added, EventType::Deleted], rv(4))
    );

    assert_eq!(
        names(&table.snapshot_at_version(rv(1)).unwrap()),
        Vec::<&str>::new()
    );
    assert_eq!(
        names(&table.snapshot_at_version(rv(3)).unwrap()),
        ["ns/a", "ns/b"]
    );
    assert_eq!(names(&table.snapshot_at_version(rv(4)).unwrap()), ["ns/b"]);
    assert_eq!(
        table.snapshot_at_version(rv(5)).unwrap_err(),
        WindowError::Future { current: rv(4) }
    );
}

#[test]
fn versions_before_the_window_are_expired() {
    let (_, table) = configmaps(2);
    for data in ["1", "2", "3", "4"] {
        put(&table, "a", data);
    }
    let expired = WindowError::Expired { compacted: rv(3) };
    assert_eq!(table.events_after(rv(2), 100).unwrap_err(), expired);
    assert_eq!(table.snapshot_at_version(rv(2)).unwrap_err(), expired);
    assert_eq!(table.events_after(rv(3), 100).unwrap().0.len(), 2);
    assert_eq!(names(&table.snapshot_at_version(rv(3)).unwrap()), ["ns/a"]);
    table.compact();
    assert_eq!(
        table.events_after(rv(4), 9).unwrap_err(),
        WindowError::Expired { compacted: rv(5) }
    );
    assert!(table.events_after(rv(5), 9).unwrap().0.is_empty());
}

#[test]
fn a_window_of_large_events_holds_few() {
    let (_, table) = configmaps(1000);
    let large = "x".repeat(30_000);
    let mut last = 0;
    for _ in 0..50 {
        last = put(&table, "a", &large);
        table.get(&ObjectKey::new(Some("ns"), "a")).unwrap().json();
    }
    // Three events of 30,000 bytes fit, and the newest is not counted yet.
    let (events, _) = table.events_after(rv(last - 4), 100).unwrap();
    assert_eq!(events.len(), 4);
    assert_eq!(
        table.events_after(rv(last - 5), 100).unwrap_err(),
        WindowError::Expired {
            compacted: rv(last - 4)
        }
    );
    // Small ones push them out one by one, and many are remembered again.
    for _ in 0..100 {
        last = put(&table, "b", "small");
        table.get(&ObjectKey::new(Some("ns"), "b")).unwrap().json();
    }
    assert_eq!(
        table.events_after(rv(last - 100), 200).unwrap().0.len(),
        100
    );
}

#[test]
fn the_lines_of_watches_count_too() {
    let (_, table) = configmaps(1000);
    let large = "x".repeat(30_000);
    for _ in 0..10 {
        let last = put(&table, "a", &large);
        table.get(&ObjectKey::new(Some("ns"), "a")).unwrap().json();
        table.events_after(rv(last - 1), 1).unwrap().0[0].frame();
    }
    assert_eq!(table.state.read().window.len(), 2);
}

#[test]
fn watchers_of_an_event_share_its_bytes() {
    let (_, table) = configmaps(10);
    put(&table, "a", "1");
    let one = table.events_after(rv(1), 1).unwrap().0[0].frame();
    let other = table.events_after(rv(1), 1).unwrap().0[0].frame();
    assert_eq!(one.as_ptr(), other.as_ptr());
}

#[test]
fn keys_are_ordered_by_bytes_as_in_etcd() {
    let (_, table) = configmaps(10);
    for (namespace, name) in [("a", "x"), ("a-b", "x"), ("a", "b")] {
        let key = ObjectKey::new(Some(namespace), name);
        let change = Change::Put(json!({"metadata": {}}));
        let user_agent = Arc::from("");
        let time = Timestamp::UNIX_EPOCH;
        table
            .commit(Transaction {
                key: &key,
                expected: None,
                change,
                time,
                user_agent: &user_agent,
            })
            .unwrap();
    }
    let snapshot = table.snapshot();
    let all: Vec<_> = snapshot
        .range(None, None)
        .map(|object| object.key.as_str())
        .collect();
    assert_eq!(all, ["a-b/x", "a/b", "a/x"]);
    let start = ObjectKey::from_text("a/c");
    let rest: Vec<_> = snapshot
        .range(Some("a"), Some(&start))
        .map(|object| object.key.as_str())
        .collect();
    assert_eq!(rest, ["a/x"]);
}

/// A write of `name` that expects what `table` has now, or nothing.
fn joint<'a>(
    table: &'a Table,
    key: &'a ObjectKey,
    expected: Option<&'a Arc<StoredObject>>,
    (change, rv): (Change, Option<u64>),
) -> Joint<'a> {
    static AGENT: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "test".into());
    Joint {
        table,
        rv: rv.map(ResourceVersion::new),
        transaction: Transaction {
            key,
            expected,
            change,
            time: Timestamp::UNIX_EPOCH,
            user_agent: &AGENT,
        },
    }
}

#[test]
fn writes_to_several_tables_happen_together_or_not_at_all() {
    let (storage, maps) = configmaps(10);
    let secrets = storage.table(&GroupVersionResource {
        resource: "secrets".to_owned(),
        ..maps.gvr().clone()
    });
    let value = |name: &str| json!({"metadata": {"name": name, "namespace": "ns"}});
    let [a, b] = ["a", "b"].map(|name| ObjectKey::new(Some("ns"), name));
    put(&maps, "a", "1");
    let before = storage.resource_version();
    // Another object is there.
    let refused = storage.commit_together(vec![
        joint(&secrets, &b, None, (Change::Put(value("b")), None)),
        joint(&maps, &a, None, (Change::Put(value("a")), None)),
    ]);
    let (index, writes) = refused.unwrap_err();
    assert_eq!((index, writes.len()), (1, 2));
    assert!(secrets.get(&b).is_none());
    assert_eq!(storage.resource_version(), before);
    // The second write of an object follows from the first.
    let old = maps.get(&a);
    let removed = Change::Remove(value("a"));
    storage
        .commit_together(vec![
            joint(&secrets, &b, None, (Change::Put(value("b")), Some(70))),
            joint(&maps, &a, old.as_ref(), (removed, None)),
            joint(&maps, &a, None, (Change::Put(value("a")), Some(60))),
        ])
        .unwrap();
    assert_eq!(secrets.get(&b).unwrap().rv, rv(70));
    assert_eq!(maps.get(&a).unwrap().rv, rv(72));
    let (events, _) = maps.events_after(before, 10).unwrap();
    let types: Vec<EventType> = events.iter().map(|event| event.event_type).collect();
    assert_eq!(types, [EventType::Deleted, EventType::Added]);
    assert_eq!(*storage.subscribe().borrow(), 72);
}
