//! Each property reports forbidden behavior and accepts allowed behavior.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp, ToSpan};
use kubeproof_apiserver::fault::{Effect, Fault, Requests};
use kubeproof_apiserver::meta::GroupVersionResource;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::{Value, json};

use super::super::{Caches, DeclaredProperties, Observed, Property, World, violations};
use super::{
    Finalizers, NoOrphans, NoSecrets, ObservedGenerations, SecondReconcile, SpecsAsAsked,
    TransitionTimes, UncontestedFields, ValidOwners,
};
use crate::properties::RustProperty;

fn write(user_agent: &str, resource: &str, before: Option<Value>, object: Value) -> JournalEntry {
    JournalEntry {
        rv: ResourceVersion::new(1),
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

/// Writes of objects, which are known by their uids.
struct Writes(Vec<JournalEntry>);

impl Writes {
    fn none() -> Self {
        Self(Vec::new())
    }

    fn then(mut self, user_agent: &str, resource: &str, object: Value) -> Self {
        let mut entries = self.0.iter().rev();
        let before =
            entries.find(|entry| entry.object["metadata"]["uid"] == object["metadata"]["uid"]);
        let before = before.map(|entry| Value::clone(&entry.object));
        let mut entry = write(user_agent, resource, before, object);
        entry.rv = ResourceVersion::new(self.0.len() as u64 + 1);
        self.0.push(entry);
        self
    }

    fn gone(self, user_agent: &str, uid: &str) -> Self {
        let mut entries = self.0.iter().rev();
        let last = entries
            .find(|entry| entry.object["metadata"]["uid"] == uid)
            .unwrap();
        let (resource, object) = (last.gvr.resource.clone(), Value::clone(&last.object));
        let mut gone = self.then(user_agent, &resource, object);
        gone.0.last_mut().unwrap().event = EventType::Deleted;
        gone
    }

    /// The violations that the property finds in a cluster that has settled in the end.
    fn violations<P: Property + 'static>(
        &self,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Vec<String> {
        let property = RustProperty::new(make);
        let observed = Observed {
            journal: &self.0,
            points: &[],
            given_rv: ResourceVersion::ZERO,
            settled: &[ResourceVersion::new(self.0.len() as u64)],
            caches: Caches::Current,
            unanswered: &BTreeSet::new(),
            general: &[property],
        };
        let found = violations(observed, &DeclaredProperties::default());
        found.into_iter().map(|one| one.what).collect()
    }
}

/// An object in the namespace `x`, whose uid is its name, with these further fields.
fn object(name: &str, more: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name, "namespace": "x", "uid": name}});
    for (field, value) in more.as_object().unwrap() {
        match field.as_str() {
            "spec" | "status" | "data" | "message" => object[field] = value.clone(),
            _ => object["metadata"][field] = value.clone(),
        }
    }
    object
}

#[test]
fn a_transition_time_stays_while_the_status_does() {
    let pod = |status: &str, time: u32| {
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": time});
        json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}})
    };
    let violations = |user_agent: &str, after: Value| {
        let entry = write(user_agent, "pods", Some(pod("True", 1)), after);
        TransitionTimes::default().judge(&entry, &World::default())
    };
    assert_eq!(violations("c", pod("False", 2)), [""; 0]);
    assert_eq!(violations("c", pod("True", 1)), [""; 0]);
    assert_eq!(
        violations("c", pod("True", 2)),
        ["pods a has another transition time of Ready, which stays True"]
    );
    assert_eq!(
        violations("test", pod("True", 2)),
        [""; 0],
        "the test may do so"
    );
}

#[test]
fn a_controller_may_learn_late_that_it_has_changed_a_status() {
    let pod = |status: &str, time: u32| {
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": time});
        json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}})
    };
    let violations = |caches: Caches, seconds: i64| {
        let mut property = TransitionTimes::new(caches);
        let first = write("c", "pods", Some(pod("False", 1)), pod("True", 2));
        let mut again = write("c", "pods", Some(pod("True", 2)), pod("True", 3));
        again.time += seconds.seconds();
        let violations = property.judge(&first, &World::default());
        assert_eq!(violations, [""; 0]);
        property.judge(&again, &World::default()).len()
    };
    let lagging = Caches::lagging(&[]);
    assert_eq!(violations(lagging, 60), 0);
    assert_eq!(violations(lagging, 61), 1, "no cache lags for so long");
    assert_eq!(violations(Caches::Current, 0), 1);
    let jump = |minutes: i64| Fault {
        name: "clock".to_owned(),
        requests: Requests::default(),
        after: 0,
        times: None,
        lasts: None,
        effect: Effect::Jump(SignedDuration::from_mins(minutes)),
    };
    let ahead = Caches::lagging(&[(jump(10), 2), (jump(-5), 1)]);
    assert_eq!(violations(ahead, 1260), 0, "20 of 21 minutes never passed");
    assert_eq!(violations(ahead, 1261), 1);
    assert_eq!(
        Caches::with(&[(jump(10), 2)]),
        Caches::Current,
        "a clock that is set forward holds no event back"
    );
}

#[test]
fn an_owner_exists_in_the_same_namespace() {
    let owned = |kind: &str, namespace: &str, owners: Value| {
        json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {
                "name": "a", "namespace": namespace, "uid": format!("{kind}-1"),
                "ownerReferences": owners,
            },
        })
    };
    let violations = |namespace: &str, owner: Value| {
        let mut property = ValidOwners::default();
        let shop = write("test", "shops", None, owned("Shop", "x", json!([])));
        assert_eq!(property.judge(&shop, &World::default()), [""; 0]);
        let pod = owned("Pod", namespace, json!([owner]));
        property.judge(&write("c", "pods", None, pod), &World::default())
    };
    let owner =
        |kind: &str, uid: &str| json!({"apiVersion": "v2", "kind": kind, "name": "a", "uid": uid});
    assert_eq!(violations("x", owner("Shop", "Shop-1")), [""; 0]);
    let fault = |kind: &str, fault: &str| [format!("pods a is owned by {kind} a, which {fault}")];
    assert_eq!(
        violations("x", owner("Shop", "other")),
        fault("Shop", "never existed")
    );
    assert_eq!(
        violations("y", owner("Shop", "Shop-1")),
        fault("Shop", "is in another namespace")
    );
    assert_eq!(
        violations("x", owner("Mall", "Shop-1")),
        ["pods a is owned by Mall a, whose uid is that of another object"]
    );
}

#[test]
fn a_dependent_goes_with_its_last_owner() {
    let owned = |owners: &[&str]| {
        let owners = owners
            .iter()
            .map(|uid| json!({"kind": "Shop", "name": uid, "uid": uid}));
        object("a", &json!({"ownerReferences": owners.collect::<Vec<_>>()}))
    };
    let shops = || {
        let one = Writes::none().then("test", "shops", object("one", &json!({})));
        one.then("test", "shops", object("two", &json!({})))
    };
    let violations = |writes: Writes| writes.violations(NoOrphans::default);
    let left = |agent: &str| {
        shops()
            .then(agent, "pods", owned(&["one"]))
            .gone("test", "one")
    };
    assert_eq!(
        violations(left("c")),
        ["pods x/a stays, and its owner Shop one is gone"]
    );
    assert_eq!(
        violations(left("test")),
        [""; 0],
        "the test may have left it"
    );
    assert_eq!(
        violations(left("c").gone("garbage-collector", "a")),
        [""; 0]
    );
    let other = shops()
        .then("c", "pods", owned(&["one", "two"]))
        .gone("test", "one");
    assert_eq!(violations(other), [""; 0], "another owner is there");
    let mut leaving = owned(&["one"]);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(violations(left("c").then("gc", "pods", leaving)), [""; 0]);
}

/// An object whose `spec.size` is `size`, a field of `manager` if there is one.
fn sized(manager: Option<&str>, size: i64) -> Value {
    let fields = json!({"f:spec": {"f:size": {}}});
    let managed = manager.map(|manager| json!({"manager": manager, "fieldsV1": fields}));
    let spec = manager.map_or(json!({}), |_| json!({"size": size}));
    object(
        "a",
        &json!({"spec": spec, "managedFields": managed.into_iter().collect::<Vec<_>>()}),
    )
}

#[test]
fn two_controllers_do_not_overwrite_each_other_by_turns() {
    let violations = |writes: &[(&str, Option<&str>, i64)]| {
        let mut all = Writes::none();
        for (agent, manager, size) in writes {
            all = all.then(agent, "shops", sized(*manager, *size));
        }
        all.violations(UncontestedFields::default)
    };
    let (one, other) = (("c", Some("c"), 1), ("d", Some("d"), 2));
    let fight = ["spec.size of shops x/a goes back and forth between 1 by c and 2 by d"];
    assert_eq!(violations(&[one, other, one, other]), fight);
    assert_eq!(
        violations(&[one, other, one]),
        [""; 0],
        "the second one may have given in"
    );
    let progress = [one, other, ("c", Some("c"), 3), ("d", Some("d"), 4)];
    assert_eq!(violations(&progress), [""; 0], "they count up together");
    let test = ("test", Some("test"), 5);
    assert_eq!(
        violations(&[one, other, one, test, one, other]),
        [""; 0],
        "the test begins anew"
    );
    let removed = [one, ("d", None, 0), one, ("d", None, 0)];
    assert_eq!(
        violations(&removed),
        ["spec.size of shops x/a goes back and forth between 1 by c and null by d"]
    );
    let own = [one, ("c", None, 0), one, ("c", None, 0)];
    assert_eq!(
        violations(&own),
        [""; 0],
        "a controller may remove its own field"
    );
    let reports = [
        one,
        ("kubelet", Some("kubelet"), 2),
        one,
        ("kubelet", Some("kubelet"), 2),
    ];
    assert_eq!(violations(&reports), [""; 0], "the kubelet reports");
}

#[test]
fn the_fields_of_list_items_are_contested_item_by_item() {
    let written = |manager: &str, kind: &str, status: &str| {
        let key = format!("k:{{\"type\":\"{kind}\"}}");
        let fields = json!({"f:status": {"f:conditions": {key: {".": {}, "f:status": {}}}}});
        let conditions = json!([{"type": kind, "status": status}]);
        let more = json!({
            "managedFields": [{"manager": manager, "fieldsV1": fields}],
            "status": {"conditions": conditions},
        });
        object("a", &more)
    };
    let violations = |other: &str| {
        let mut all = Writes::none();
        for _ in 0..2 {
            all = all.then("c", "shops", written("c", "Open", "True"));
            all = all.then("d", "shops", written("d", other, "False"));
        }
        all.violations(UncontestedFields::default)
    };
    let fight = violations("Open");
    assert_eq!(
        fight,
        [
            "status.conditions[type=Open].status of shops x/a goes back and forth between \"True\" by c \
             and \"False\" by d"
        ]
    );
}

#[test]
fn a_status_is_of_the_present_generation_in_the_end() {
    let at = |generation: i64, observed: i64| {
        let status = json!({"observedGeneration": observed});
        object("a", &json!({"generation": generation, "status": status}))
    };
    let violations = |writes: Writes| writes.violations(ObservedGenerations::default);
    let begun = || {
        let new = object("a", &json!({"generation": 1}));
        Writes::none()
            .then("test", "shops", new)
            .then("c", "shops", at(1, 1))
    };
    let changed = || begun().then("test", "shops", at(2, 1));
    assert_eq!(
        violations(changed()),
        ["the status of shops x/a is of generation 1, and there are 2"]
    );
    assert_eq!(violations(changed().then("c", "shops", at(2, 2))), [""; 0]);
    assert_eq!(
        violations(
            begun()
                .then("c", "shops", at(1, 2))
                .then("c", "shops", at(1, 1))
        ),
        ["the status of shops a is of generation 2, and there are 1"]
    );
    let mut leaving = at(2, 1);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(
        violations(begun().then("test", "shops", leaving)),
        [""; 0],
        "it is on its way out"
    );
    let fixed = Writes::none().then("test", "shops", at(2, 1));
    assert_eq!(
        violations(fixed),
        [""; 0],
        "no controller reports a generation"
    );
}

#[test]
fn a_deleted_object_loses_its_finalizers() {
    let with = |finalizers: &[&str], is_deleted: bool| {
        let mut object = object("a", &json!({"finalizers": finalizers}));
        if is_deleted {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        object
    };
    let violations = |writes: Writes| writes.violations(Finalizers::default);
    let held = |agent: &str, finalizer: &str| {
        let begun = Writes::none().then("test", "shops", with(&[], false));
        let held = begun.then(agent, "shops", with(&[finalizer], false));
        held.then("test", "shops", with(&[finalizer], true))
    };
    assert_eq!(
        violations(held("c", "x.dev/a")),
        [
            "shops x/a was deleted but still has finalizer x.dev/a; c has to remove it once \
             deletionTimestamp is set"
        ]
    );
    assert_eq!(
        violations(held("c", "x.dev/a").then("c", "shops", with(&[], true))),
        [""; 0]
    );
    assert_eq!(
        violations(held("test", "x.dev/a")),
        [""; 0],
        "no controller has ever handled it"
    );
    let protected = held("pvc-protection", "kubernetes.io/pvc-protection");
    assert_eq!(violations(protected), [""; 0], "a user may keep it");
}

#[test]
fn what_has_settled_is_not_written_again() {
    let writes = |agent: &str, resource: &str| {
        let first = Writes::none().then("c", resource, object("a", &json!({})));
        let again = first.then(agent, resource, object("a", &json!({"spec": 1})));
        again.violations(|| SecondReconcile::after(ResourceVersion::new(1)))
    };
    assert_eq!(writes("c", "shops"), ["c writes shops x/a again"]);
    for (agent, resource) in [
        ("c", "leases"),
        ("c", "events"),
        ("test", "shops"),
        ("kubelet", "pods"),
    ] {
        assert_eq!(writes(agent, resource), [""; 0], "{agent} {resource}");
    }
}

#[test]
fn daemon_sets_and_budgets_may_count_again_and_write_nothing_else() {
    for (resource, counter) in [
        ("daemonsets", "desiredNumberScheduled"),
        ("poddisruptionbudgets", "currentHealthy"),
    ] {
        let status = |count: u32, other: u32, image: &str| {
            let status = json!({counter: count, "other": other});
            object("a", &json!({"spec": {"image": image}, "status": status}))
        };
        let written = |object: Value| {
            let first = Writes::none().then("c", resource, status(3, 3, "1"));
            let again = first.then("c", resource, object);
            again.violations(|| SecondReconcile::after(ResourceVersion::new(1)))
        };
        assert_eq!(written(status(2, 2, "1")), [""; 0]);
        let violation = [format!("c writes {resource} x/a again")];
        assert_eq!(written(status(3, 2, "1")), violation);
        assert_eq!(written(status(2, 2, "2")), violation);
    }
}

#[test]
fn what_a_secret_has_is_in_no_event_or_status() {
    // `correct horse` and `user`
    let secret = object(
        "s",
        &json!({"data": {"password": "Y29ycmVjdCBob3JzZQ==", "username": "Y29ycmVjdCB1c2Vy", "pin": "MTIzNA=="}}),
    );
    let violations = |agent: &str, resource: &str, more: &Value| {
        let known = Writes::none().then("test", "secrets", secret.clone());
        known
            .then(agent, resource, object("a", more))
            .violations(NoSecrets::default)
    };
    let event = |message: &str| violations("c", "events", &json!({"message": message}));
    assert_eq!(
        event("cannot log in with correct horse"),
        ["events a has password of secret s"]
    );
    assert_eq!(
        event("Y29ycmVjdCBob3JzZQ== is wrong").len(),
        1,
        "base64 hides nothing"
    );
    assert_eq!(
        event("cannot log in as correct user, nor with 1234"),
        [""; 0]
    );
    let url = json!({"status": {"urls": ["db://correct horse@db"]}});
    assert_eq!(
        violations("c", "shops", &url),
        ["the status of shops a has password of secret s"]
    );
    assert_eq!(
        violations("test", "shops", &url),
        [""; 0],
        "the test may do so"
    );
    let spec = json!({"spec": {"password": "correct horse"}});
    assert_eq!(
        violations("c", "shops", &spec),
        [""; 0],
        "a spec is neither"
    );
}

#[test]
fn the_replicas_of_an_autoscalers_target_are_anybodys() {
    let fields = |replicas: i64| json!({"spec": {"replicas": replicas}});
    let shop = |replicas: i64| {
        let mut shop = object("a", &fields(replicas));
        shop["kind"] = json!("Shop");
        shop
    };
    let scaled = |target: &Value| {
        let autoscaler = object("b", &json!({"spec": {"scaleTargetRef": target}}));
        let mut writes = Writes::none().then("test", "horizontalpodautoscalers", autoscaler);
        "autoscaling".clone_into(&mut writes.0[0].gvr.group);
        let writes = writes
            .then("test", "shops", shop(1))
            .then("keda", "shops", shop(2));
        writes.violations(SpecsAsAsked::default)
    };
    let target = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name});
    assert_eq!(scaled(&target("Shop", "a")), [""; 0]);
    for other in [
        target("Shop", "other"),
        target("Site", "a"),
        json!({"apiVersion": "apps/v1", "kind": "Shop", "name": "a"}),
    ] {
        let told = "keda changes replicas in the spec of shops x/a, which the test created";
        assert_eq!(scaled(&other), [told], "{other}");
    }
}

#[test]
fn a_spec_is_its_creators() {
    let shop = |size: i64, owners: Value| {
        object(
            "a",
            &json!({"spec": {"size": size}, "ownerReferences": owners}),
        )
    };
    let changed = |creator: &str, agent: &str, owners: Value| {
        let created = Writes::none().then(creator, "shops", shop(1, owners.clone()));
        created.then(agent, "shops", shop(2, owners))
    };
    let violations = |writes: Writes| writes.violations(SpecsAsAsked::default);
    assert_eq!(
        violations(changed("test", "c", json!([]))),
        ["c changes size in the spec of shops x/a, which the test created"]
    );
    assert_eq!(
        violations(changed("d", "c", json!([]))),
        ["c changes size in the spec of shops x/a, which d created"]
    );
    assert_eq!(violations(changed("c", "c", json!([]))), [""; 0]);
    assert_eq!(violations(changed("test", "test", json!([]))), [""; 0]);
    let owned = changed("test", "c", json!([{"uid": "o", "controller": true}]));
    assert_eq!(violations(owned), [""; 0], "its owner is a controller's");
    let may = changed("test", "c", json!([]))
        .violations(|| SpecsAsAsked::default().filled_in("shops", "size", "r"));
    assert_eq!(may, [""; 0]);
    let pod = |node: Value| object("a", &json!({"spec": {"nodeName": node}}));
    let bound =
        Writes::none()
            .then("test", "pods", pod(Value::Null))
            .then("s", "pods", pod("n".into()));
    assert_eq!(violations(bound), [""; 0]);
    let status = Writes::none().then("test", "shops", shop(1, json!([])));
    let mut reported = shop(1, json!([]));
    reported["status"] = json!({"size": 1});
    assert_eq!(violations(status.then("c", "shops", reported)), [""; 0]);
}
