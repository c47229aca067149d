//! Each property reports forbidden behavior and accepts allowed behavior.

use jiff::Timestamp;
use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::{EventType, JournalEntry};
use serde_json::{Value, json};

use super::super::{Property, World};
use super::{TransitionTimes, ValidOwners};

fn write(user_agent: &str, resource: &str, before: Option<Value>, object: Value) -> JournalEntry {
    JournalEntry {
        rv: 1,
        time: Timestamp::UNIX_EPOCH,
        gvr: GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
        },
        event: match before {
            None => EventType::Added,
            Some(_) => EventType::Modified,
        },
        user_agent: user_agent.into(),
        object: object.into(),
        previous: before.map(Into::into),
    }
}

#[test]
fn a_transition_time_stays_while_the_status_does() {
    let pod = |status: &str, time: u32| {
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": time});
        json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}})
    };
    let told = |user_agent: &str, after: Value| {
        let entry = write(user_agent, "pods", Some(pod("True", 1)), after);
        TransitionTimes.judge(&entry, &World::default())
    };
    assert_eq!(told("c", pod("False", 2)), [""; 0]);
    assert_eq!(told("c", pod("True", 1)), [""; 0]);
    assert_eq!(
        told("c", pod("True", 2)),
        ["pods a has another transition time of Ready, which stays True"]
    );
    assert_eq!(told("test", pod("True", 2)), [""; 0], "the test may do so");
}

#[test]
fn an_owner_exists_in_the_same_namespace() {
    let object = |kind: &str, namespace: &str, owners: Value| {
        json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {
                "name": "a", "namespace": namespace, "uid": format!("{kind}-1"),
                "ownerReferences": owners,
            },
        })
    };
    let told = |namespace: &str, owner: Value| {
        let mut property = ValidOwners::default();
        let shop = write("test", "shops", None, object("Shop", "x", json!([])));
        assert_eq!(property.judge(&shop, &World::default()), [""; 0]);
        let pod = object("Pod", namespace, json!([owner]));
        property.judge(&write("c", "pods", None, pod), &World::default())
    };
    let owner =
        |kind: &str, uid: &str| json!({"apiVersion": "v2", "kind": kind, "name": "a", "uid": uid});
    assert_eq!(told("x", owner("Shop", "Shop-1")), [""; 0]);
    let fault = |kind: &str, fault: &str| [format!("pods a is owned by {kind} a, which {fault}")];
    assert_eq!(
        told("x", owner("Shop", "other")),
        fault("Shop", "never existed")
    );
    assert_eq!(
        told("y", owner("Shop", "Shop-1")),
        fault("Shop", "is in another namespace")
    );
    assert_eq!(
        told("x", owner("Mall", "Shop-1")),
        ["pods a is owned by Mall a, whose uid is that of another object"]
    );
}
