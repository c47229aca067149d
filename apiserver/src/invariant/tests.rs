use std::sync::Arc;

use jiff::Timestamp;

use super::{Declaration, Invariants, Observer, Variable};
use crate::json::{Value, json};
use crate::meta::{GroupVersionResource, ResourceVersion};
use crate::status::FieldPath;
use crate::storage::{EventType, JournalEntry};

fn compile(declarations: &[Declaration]) -> Result<Invariants, String> {
    let compiled = Invariants::compile(declarations, ["Backup"], &FieldPath::new("properties"));
    compiled.map_err(|errors| errors.to_string())
}

fn stated(name: &str, expression: &str) -> Declaration {
    Declaration {
        name: name.to_owned(),
        expression: expression.to_owned(),
        ..Declaration::default()
    }
}

/// A write of a pod, whose `ready` is as given.
fn write(rv: u64, event: EventType, name: &str, [before, after]: [bool; 2]) -> JournalEntry {
    let pod = |ready: bool| -> Arc<Value> {
        let metadata = json!({"namespace": "default", "name": name});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"ready": ready},
        });
        Arc::new(pod)
    };
    JournalEntry {
        rv: ResourceVersion::new(rv),
        time: Timestamp::UNIX_EPOCH,
        gvr: GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "pods".to_owned(),
        },
        event,
        user_agent: "kubelet/v1".into(),
        object: pod(after).into(),
        previous: (event != EventType::Added).then(|| pod(before).into()),
    }
}

fn violations(observer: &mut Observer<'_>, entry: &JournalEntry) -> Vec<String> {
    let found = observer.judge(entry).into_iter();
    found
        .map(|one| format!("{}: {}", one.name, one.message))
        .collect()
}

#[test]
fn a_violation_is_reported_when_it_begins() {
    let ready = Variable {
        name: "ready".to_owned(),
        expression: "objects.Pod.filter(pod, pod.status.ready)".to_owned(),
    };
    let invariants = compile(&[Declaration {
        variables: vec![ready],
        message_expression: "'ready are ' + string(size(variables.ready))".to_owned(),
        ..stated("one is ready", "size(variables.ready) > 0")
    }]);
    let invariants = invariants.unwrap();
    let mut observer = invariants.observe();
    let mut reported =
        |rv, event, name, ready| violations(&mut observer, &write(rv, event, name, ready));
    use EventType::{Added, Deleted, Modified};
    assert_eq!(reported(1, Added, "a", [false, true]), [""; 0]);
    assert_eq!(
        reported(2, Modified, "a", [true, false]),
        ["one is ready: ready are 0"]
    );
    assert_eq!(reported(3, Added, "b", [false, false]), [""; 0]);
    assert_eq!(reported(4, Modified, "b", [false, true]), [""; 0]);
    assert_eq!(
        reported(5, Deleted, "b", [true, true]),
        ["one is ready: ready are 0"]
    );
}

#[test]
fn the_write_and_what_was_before_it_have_names() {
    let invariants = compile(&[
        stated(
            "never unready again",
            "object == null || oldObject == null || object.status.ready || !oldObject.status.ready",
        ),
        stated(
            "one at a time",
            "size(objects.Pod) - size(previous.Pod) <= 1",
        ),
        stated(
            "no deletion by kubelets",
            "event.type != 'DELETED' || !event.userAgent.startsWith('kubelet')",
        ),
        stated(
            "in time",
            "event.time < timestamp('2000-01-01T00:00:00Z') && event.resourceVersion < 3 \
             && event.resource == 'pods'",
        ),
    ]);
    let invariants = invariants.unwrap();
    let mut observer = invariants.observe();
    let mut reported =
        |rv, event, name, ready| violations(&mut observer, &write(rv, event, name, ready));
    use EventType::{Added, Deleted, Modified};
    assert_eq!(reported(1, Added, "a", [false, true]), [""; 0]);
    let again = reported(2, Modified, "a", [true, false]);
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(again[0].starts_with("never unready again: failed expression: object == null"));
    let deleted = reported(3, Deleted, "a", [false, false]);
    assert_eq!(deleted.len(), 2, "{deleted:?}");
    assert!(deleted[0].starts_with("no deletion by kubelets: "));
    assert!(deleted[1].starts_with("in time: "));
}

#[test]
fn what_has_no_value_does_not_hold() {
    let invariants = compile(&[stated("x", "objects.Pod.all(pod, pod.spec.hostNetwork)")]);
    let invariants = invariants.unwrap();
    let mut observer = invariants.observe();
    observer.pass(&write(1, EventType::Added, "a", [false, true]));
    assert_eq!(
        violations(
            &mut observer,
            &write(2, EventType::Added, "b", [false, true])
        ),
        [
            "x: expression 'objects.Pod.all(pod, pod.spec.hostNetwork)' resulted in error: \
          no such key: spec"
        ]
    );
}

#[test]
fn faults_are_worded_as_those_of_a_policy() {
    let refused = |expression: &str| compile(&[stated("x", expression)]).unwrap_err();
    assert_eq!(
        refused("size(objects.Pods) < 3"),
        "properties[0].expression: Invalid value: \"size(objects.Pods) < 3\": compilation failed: \
         ERROR: <input>:1:13: undefined field 'Pods'\n | size(objects.Pods) < 3\n | ............^"
    );
    assert_eq!(
        refused("size(objects.Backup)"),
        "properties[0].expression: Invalid value: \"size(objects.Backup)\": must evaluate to bool \
         but got int"
    );
    assert_eq!(
        refused(""),
        "properties[0].expression: Required value: expression is not specified"
    );
    let several = [stated("", "true"), stated("y", "true"), stated("y", "true")];
    assert_eq!(
        compile(&several).unwrap_err(),
        "[properties[0].name: Required value: name is not specified, properties[2].name: \
         Duplicate value: \"y\"]"
    );
}

#[test]
fn the_object_before_a_write_is_that_of_its_entry() {
    let kept = "event.type != 'MODIFIED' || !oldObject.status.ready || object.status.ready";
    let invariants = compile(&[stated("stays ready", kept)]).unwrap();
    let broken = [format!("stays ready: failed expression: {kept}")];
    let mut observer = invariants.observe();
    let added = write(1, EventType::Added, "web-0", [false, true]);
    assert_eq!(violations(&mut observer, &added), [""; 0]);
    let mut known = write(2, EventType::Modified, "web-0", [false, false]);
    known.previous = Some(added.object.clone());
    assert_eq!(violations(&mut observer, &known), broken);
    let other = write(3, EventType::Modified, "web-0", [false, false]);
    assert_eq!(violations(&mut observer, &other), [""; 0]);
    let other = write(4, EventType::Modified, "web-0", [true, false]);
    assert_eq!(violations(&mut observer, &other), broken);
}
