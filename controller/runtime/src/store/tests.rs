//! Tests of the store: order, indexes, lists after an expired watch, and stale reads.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::*;

fn object(namespace: &str, name: &str, rv: u64) -> Arc<ConfigMap> {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some(namespace.to_owned());
    object.metadata.name = Some(name.to_owned());
    object.metadata.uid = Some(format!("uid of {name}"));
    object.metadata.resource_version = Some(rv.to_string());
    Arc::new(object)
}

fn config_map(name: &str, rv: u64) -> Arc<ConfigMap> {
    object("default", name, rv)
}

/// Another object of that name.
fn successor(name: &str, rv: u64) -> Arc<ConfigMap> {
    let mut object = ConfigMap::clone(&config_map(name, rv));
    object.metadata.uid = Some("another uid".to_owned());
    Arc::new(object)
}

fn controlled(name: &str, rv: u64, uid: &str) -> Arc<ConfigMap> {
    let mut object = ConfigMap::clone(&config_map(name, rv));
    object.metadata.owner_references = Some(vec![OwnerReference {
        uid: uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    Arc::new(object)
}

/// The events of a list.
fn list(objects: impl IntoIterator<Item = Arc<ConfigMap>>) -> Vec<Event<Arc<ConfigMap>>> {
    let objects = objects.into_iter().map(Event::InitApply);
    let events = std::iter::once(Event::Init).chain(objects);
    events.chain([Event::InitDone]).collect()
}

fn text(change: &Change<ConfigMap>) -> String {
    let name = change.object().name_any();
    let version = |object: &Arc<ConfigMap>| resource_version(&**object);
    match change {
        Change::Added(new) => format!("+{name}:{}", version(new)),
        Change::Updated { old, new } => format!("{name}:{}->{}", version(old), version(new)),
        Change::Deleted { old, last } => format!("-{name}:{}->{}", version(old), version(last)),
    }
}

type Apply = fn(&mut Store<ConfigMap>, Event<Arc<ConfigMap>>) -> Vec<Change<ConfigMap>>;

/// The changes of `events`, as text.
fn changes(
    store: &mut Store<ConfigMap>,
    apply: Apply,
    events: Vec<Event<Arc<ConfigMap>>>,
) -> Vec<String> {
    let changes = events.into_iter().flat_map(|event| apply(store, event));
    changes.map(|change| text(&change)).collect()
}

fn names<'a>(objects: impl IntoIterator<Item = &'a Arc<ConfigMap>>) -> Vec<String> {
    let objects = objects.into_iter();
    objects.map(|object| object.name_any()).collect()
}

#[test]
fn objects_and_the_changes_of_a_list_are_in_the_order_of_keys() {
    let mut store = Store::default();
    let listed = ["b/y", "a-b/z", "a/x", "b/a"].map(|key| key.split_once('/').unwrap());
    let listed = listed.map(|(namespace, name)| object(namespace, name, 1));
    assert_eq!(
        changes(&mut store, Store::apply, list(listed)),
        ["+x:1", "+z:1", "+a:1", "+y:1"]
    );
    assert_eq!(names(store.iter()), ["x", "z", "a", "y"]);
    assert_eq!(names(store.in_namespace("a")), ["x"]);
    assert_eq!(names(store.in_namespace("b")), ["a", "y"]);
    assert_eq!(names(store.in_namespace("c")), [""; 0]);
    assert_eq!(store.len(), 4);
    let key = ObjectKey::of(&*object("b", "y", 1));
    assert_eq!(store.get(&key).unwrap().name_any(), "y");
}

#[test]
fn a_store_is_synced_by_the_end_of_its_first_list() {
    let mut store = Store::default();
    assert!(!store.is_synced());
    for event in [Event::Init, Event::InitApply(config_map("a", 1))] {
        assert!(store.apply(event).is_empty());
        assert!(!store.is_synced());
    }
    assert_eq!(store.apply(Event::InitDone).len(), 1);
    assert!(store.is_synced());
    assert!(store.apply(Event::Init).is_empty());
    assert!(store.is_synced());
    assert_eq!(store.len(), 1, "until the second list ends");
}

#[test]
fn changes_have_the_old_and_the_new_object() {
    let mut store = Store::default();
    let events = vec![
        Event::Init,
        Event::InitDone,
        Event::Apply(config_map("a", 1)),
        Event::Apply(config_map("a", 3)),
        Event::Delete(config_map("a", 4)),
        Event::Delete(config_map("unknown", 5)),
    ];
    assert_eq!(
        changes(&mut store, Store::apply, events),
        ["+a:1", "a:1->3", "-a:3->4", "-unknown:5->5"]
    );
    assert_eq!(store.len(), 0);
}

#[test]
fn a_list_after_an_expired_watch_reports_missed_changes() {
    let before = || [config_map("a", 1), config_map("b", 2), config_map("c", 3)];
    let after = || [config_map("a", 1), successor("b", 7), config_map("d", 6)];
    let mut store = Store::default();
    let _ = changes(&mut store, Store::apply, list(before()));
    assert_eq!(
        changes(&mut store, Store::apply, list(after())),
        ["a:1->1", "b:2->7", "+d:6", "-c:3->3"],
        "c is deleted in the last state known"
    );
    assert_eq!(names(store.iter()), ["a", "b", "d"]);

    let mut store = Store::default();
    let _ = changes(&mut store, Store::apply_by_uid, list(before()));
    assert_eq!(
        changes(&mut store, Store::apply_by_uid, list(after())),
        ["-b:2->2", "+b:7", "+d:6", "-c:3->3"]
    );
}

#[test]
fn the_index_of_controllers_follows_the_owner_references() {
    let mut store = Store::default();
    let claimable = |store: &Store<ConfigMap>, uid: &str| names(store.claimable("default", uid));
    let first = [
        controlled("c", 1, "one"),
        config_map("b", 2),
        controlled("a", 3, "one"),
        controlled("d", 4, "two"),
    ];
    let _ = changes(&mut store, Store::apply, list(first));
    assert_eq!(claimable(&store, "one"), ["a", "b", "c"]);
    assert_eq!(claimable(&store, "two"), ["b", "d"]);
    assert_eq!(names(store.controlled_by("default", "one")), ["a", "c"]);
    assert_eq!(store.count_controlled_by("default", "one"), 2);
    assert_eq!(names(store.controlled_by("default", "")), [""; 0]);
    let moved = vec![
        Event::Apply(controlled("a", 5, "two")),
        Event::Apply(config_map("c", 6)),
        Event::Delete(config_map("b", 7)),
    ];
    let _ = changes(&mut store, Store::apply, moved);
    assert_eq!(claimable(&store, "one"), ["c"]);
    assert_eq!(claimable(&store, "two"), ["a", "c", "d"]);
    let newer = vec![Event::Apply(controlled("d", 8, "two"))];
    let _ = changes(&mut store, Store::apply, newer);
    let versions = store
        .controlled_by("default", "two")
        .map(|own| own.resource_version());
    assert_eq!(versions.flatten().collect::<Vec<_>>(), ["5", "8"]);
    let _ = changes(&mut store, Store::apply, list([controlled("d", 4, "two")]));
    assert_eq!(claimable(&store, "one"), [""; 0]);
    assert_eq!(claimable(&store, "two"), ["d"]);
}

#[test]
fn the_place_of_a_deleted_object_is_used_again() {
    let mut store = Store::default();
    let _ = changes(&mut store, Store::apply, list([controlled("a", 1, "one")]));
    for rv in (2..20).step_by(2) {
        let name = format!("b-{rv}");
        let events = vec![
            Event::Apply(controlled(&name, rv, "two")),
            Event::Apply(config_map("c", rv)),
            Event::Delete(controlled(&name, rv + 1, "two")),
        ];
        let _ = changes(&mut store, Store::apply, events);
        assert_eq!(store.count_controlled_by("default", "two"), 0);
    }
    assert_eq!(store.objects.len(), 3);
    assert_eq!(names(store.iter()), ["a", "c"]);
    assert_eq!(names(store.claimable("default", "one")), ["a", "c"]);
}

#[test]
fn an_object_that_is_listed_twice_has_one_place() {
    let mut store = Store::default();
    let twice = [config_map("a", 1), config_map("b", 2), config_map("a", 3)];
    assert_eq!(
        changes(&mut store, Store::apply, list(twice)),
        ["+a:1", "+a:3", "+b:2"]
    );
    assert_eq!(store.objects.len(), 2);
    let key = ObjectKey::of(&*config_map("a", 3));
    assert_eq!(
        resource_version(&**store.get(&key).unwrap()).to_string(),
        "3"
    );
}

#[test]
fn a_store_catches_up_with_a_write_by_its_event_or_by_a_later_list() {
    let mut store = Store::default();
    let _ = changes(&mut store, Store::apply, list([]));
    let written = store.wrote_at(ResourceVersion::new(7));
    assert_eq!(store.ensure_ready(written), Err(ResourceVersion::new(0)));
    let _ = store.apply(Event::Apply(config_map("b", 8)));
    assert_eq!(store.ensure_ready(written), Ok(()));

    let deleted_meanwhile = store.wrote_at(ResourceVersion::new(9));
    assert_eq!(
        store.ensure_ready(deleted_meanwhile),
        Err(ResourceVersion::new(8))
    );
    let _ = store.apply(Event::Init);
    assert_eq!(
        store.ensure_ready(deleted_meanwhile),
        Err(ResourceVersion::new(8))
    );
    let _ = store.apply(Event::InitDone);
    assert_eq!(store.ensure_ready(deleted_meanwhile), Ok(()));
}

#[test]
fn an_event_below_the_high_water_mark_does_not_lower_it() {
    let mut store = Store::default();
    let _ = changes(&mut store, Store::apply, list([config_map("a", 8)]));
    let written = store.wrote_at(ResourceVersion::new(9));
    let _ = store.apply(Event::Apply(config_map("b", 5)));
    assert_eq!(store.ensure_ready(written), Err(ResourceVersion::new(8)));
    let _ = store.apply(Event::Delete(config_map("b", 9)));
    assert_eq!(store.ensure_ready(written), Ok(()), "a deletion raises it");
    // Another server answers, with lower versions.
    let _ = changes(&mut store, Store::apply, list([config_map("a", 2)]));
    assert_eq!(
        store.ensure_ready(store.wrote_at(ResourceVersion::new(9))),
        Err(ResourceVersion::new(2))
    );
}
