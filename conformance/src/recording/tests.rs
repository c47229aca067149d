use jiff::Timestamp;
use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_machinery::json::json;

use super::*;

fn entry(rv: u64, event: EventType, object: Value, previous: Option<Value>) -> JournalEntry {
    JournalEntry {
        rv: ResourceVersion::new(rv),
        time: Timestamp::UNIX_EPOCH,
        gvr: GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "pods".to_owned(),
        },
        event,
        user_agent: "".into(),
        object: std::sync::Arc::new(object).into(),
        previous: previous.map(|previous| std::sync::Arc::new(previous).into()),
    }
}

fn pod(name: &str, phase: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": name, "generateName": "web-", "namespace": "own"},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"},
    })
}

/// Two pods with generated names, of which the one that `first` names starts first.
fn recording(names: [&str; 2], first: usize) -> Recording {
    let mut journal: Vec<JournalEntry> = names
        .iter()
        .zip(2..)
        .map(|(name, rv)| entry(rv, EventType::Added, pod(name, "Pending"), None))
        .collect();
    let started = names[first];
    journal.push(entry(
        4,
        EventType::Modified,
        pod(started, "Running"),
        Some(pod(started, "Pending")),
    ));
    let step = Taken {
        heading: "1. apply".to_owned(),
        note: None,
        after_rv: ResourceVersion::new(1),
        began: Timestamp::UNIX_EPOCH,
    };
    let observed = Observed {
        journal: &journal,
        steps: &[step],
        namespace: "own",
        stated: "default",
    };
    Recording::of("t", observed)
}

#[test]
fn a_recording_reads_as_it_was_written() {
    let mut recording = recording(["web-abcde", "web-fghij"], 0);
    recording.origin = Some("x v1 on y v1".to_owned());
    let text = recording.to_string();
    assert!(
        text.contains("\n  pod web-00001\n    created\n    Running, not ready\n"),
        "{text}"
    );
    assert_eq!(Recording::parse(&text), recording);
    assert_eq!(Recording::parse(&text).to_string(), text);
}

#[test]
fn pods_with_generated_names_are_interchangeable_and_their_changes_are_not() {
    let derived = recording(["web-abcde", "web-fghij"], 0);
    let none = Listed::default();
    let other = recording(["web-zzzzz", "web-yyyyy"], 1);
    assert_eq!(differences("a/b", &derived, &other, &none), None);
    let mut other = other;
    let (_, changes) = &mut other.steps[0];
    changes.values_mut().for_each(|changes| changes.reverse());
    let text = differences("a/b", &derived, &other, &none).expect("the order differs");
    assert!(text.contains("+pod web-*: Running, not ready"), "{text}");
}

#[test]
fn a_recording_has_the_title_of_its_scenario() {
    let (derived, mut other) = (recording(["a", "b"], 0), recording(["a", "b"], 0));
    other.title = "u".to_owned();
    let text = differences("a/b", &derived, &other, &Listed::default());
    let expected = "the title is \"t\", in the recording \"u\"\n";
    assert_eq!(text.as_deref(), Some(expected));
}

#[test]
fn a_listed_difference_is_explained_until_it_is_none() {
    let (derived, mut other) = (recording(["a", "b"], 0), recording(["a", "b"], 0));
    let event = "Warning Failed pod a by kubelet: x";
    other.events.insert(event.to_owned());
    let list = format!("[{{scenario: a/b, lines: ['event {event}'], because: some reason}}]");
    let listed = Listed::parse(&list).expect("a list");
    assert_eq!(differences("a/b", &derived, &other, &listed), None);
    assert!(differences("a/c", &derived, &other, &listed).is_some());
    let stale = differences("a/b", &other, &other, &listed).expect("there is no such difference");
    assert!(
        stale.contains("listed differences that are none"),
        "{stale}"
    );
    assert!(Listed::parse("[{scenario: a/b, lines: [], because: ' '}]").is_err());
}

#[test]
fn the_way_of_a_workloads_status_is_not_compared() {
    assert_eq!(decided("pod a", "status x"), Some("status x".to_owned()));
    assert_eq!(decided("statefulset a", "status 1/1/1 cur=A upd=A"), None);
    let mixed = "spec.replicas 1 → 2, status 1/1/1 cur=A upd=A, observedGeneration 2";
    assert_eq!(
        decided("statefulset a", mixed),
        Some("spec.replicas 1 → 2".to_owned())
    );
    let volume = "annotation volume.kubernetes.io/storage-provisioner=x";
    assert_eq!(decided("claim a", volume), None);
    let mixed = format!("{volume}, bound");
    assert_eq!(decided("claim a", &mixed), Some("bound".to_owned()));
}

#[test]
fn what_a_program_does_otherwise_everywhere_is_left_out_before_objects_are_sorted() {
    let derived = recording(["web-abcde", "web-fghij"], 0);
    let mut other = derived.clone();
    other.origin = Some("x 1.6 and y v1".to_owned());
    for changes in other.steps[0].1.values_mut() {
        changes.insert(0, "condition Own True".to_owned());
    }
    let list = |program: &str, shown_by: &str| {
        let text = r"^pod \S+: condition Own True$";
        let entry = format!(
            "{{program: {program}, shown_by: {shown_by}, texts: ['{text}'], because: some reason}}"
        );
        Listed::parse(&format!("[{entry}]")).expect("a list")
    };
    assert!(differences("a/b", &derived, &other, &Listed::default()).is_some());
    assert_eq!(
        differences("a/b", &derived, &other, &list("x 1.6", "a/b")),
        None
    );
    assert!(differences("a/b", &derived, &other, &list("x 1.7", "a/b")).is_some());
    other.steps.clone_from(&derived.steps);
    assert_eq!(
        differences("a/c", &derived, &other, &list("x 1.6", "a/b")),
        None
    );
    let stale = differences("a/b", &derived, &other, &list("x 1.6", "a/b"));
    assert!(stale.is_some_and(|text| text.contains("listed differences that are none")));
    assert!(
        Listed::parse("[{program: x, shown_by: a/b, texts: ['('], because: some reason}]").is_err()
    );
}

#[test]
fn the_order_of_conditions_is_not_compared() {
    let facts = |order: [&str; 2]| {
        let types = order.map(|name| format!("status.conditions[{name}].status True"));
        let mut facts = vec!["generation 1".to_owned()];
        facts.extend(types);
        facts.push("status.phase Running".to_owned());
        facts
    };
    let sorted = facts(["A", "B"]);
    let other = facts(["B", "A"]);
    assert!(in_order(&other).eq(sorted.iter().map(String::as_str)));
    assert!(in_order(&sorted[..1]).eq(["generation 1"]));
}
