//! Ownership, conflicts and merging by example.

use super::apply::LAST_APPLIED;
use super::compare::Comparison;
use super::managers::{Managers, is_reset};
use super::typed::Shape;
use super::*;
use crate::json::{Value, json};

const EARLIER: &str = "2020-01-01T00:00:00Z";
const NOW: &str = "2020-01-02T00:00:00Z";

fn kind(group: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    }
}

fn manager_of(gvk: &GroupVersionKind, name: &str) -> FieldManager {
    let writer = Writer {
        field_manager: name,
        user_agent: "",
        subresource: "",
    };
    let schema = schema::builtin(gvk).cloned();
    FieldManager::new(gvk, schema, &writer, &[&["status"]])
}

fn manager(name: &str) -> FieldManager {
    manager_of(&kind("", "ConfigMap"), name)
}

fn config(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

/// Adds the fields of a stored object to the object that was sent.
fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = "1".into();
    object
}

#[test]
fn fields_of_new_objects_are_those_that_a_comparison_finds() {
    let container = json!({
        "name": "c", "env": [{ "name": "b", "value": "" }, { "name": "a\"\\" }],
        "ports": [{ "containerPort": 80 }, { "containerPort": 8, "protocol": "UDP" }],
        "resources": { "limits": { "cpu": "1" } }, "securityContext": {}, "args": ["x"],
    });
    let meta = json!({
        "name": "a", "namespace": "n", "creationTimestamp": NOW, "labels": { "l\u{7}": "" }, "annotations": {},
        "finalizers": ["b/c", "a"], "ownerReferences": [{ "uid": "u", "name": "o" }],
    });
    let pod = |spec: Value| {
        (
            "",
            "Pod",
            json!({ "metadata": meta, "spec": spec, "status": { "phase": "" } }),
        )
    };
    let twice = json!([container, container]);
    for ((group, name, mut object), is_direct) in [
        (
            pod(json!({ "containers": [container], "tolerations": [{}], "overhead": null })),
            true,
        ),
        (pod(json!({ "containers": [] })), false),
        (pod(json!({})), false),
        (pod(json!({ "containers": twice })), false),
        (pod(json!({ "containers": [null] })), false),
        (
            (
                "",
                "ConfigMap",
                json!({ "metadata": { "name": "a" }, "data": { "b": "", "a": "" } }),
            ),
            true,
        ),
        (
            (
                "",
                "ConfigMap",
                json!({ "metadata": { "name": "a", "uid": "u" } }),
            ),
            true,
        ),
        (("", "ConfigMap", json!({ "immutable": true })), true),
        (
            (
                "",
                "Service",
                json!({ "spec": { "ports": [{ "port": 80 }], "selector": { "a": "b" } } }),
            ),
            true,
        ),
        (
            (
                "apps",
                "StatefulSet",
                json!({ "spec": { "template": { "spec": { "containers": [container] } } } }),
            ),
            true,
        ),
        (
            (
                "apps",
                "ControllerRevision",
                json!({ "data": { "a": [1.5] }, "revision": 3 }),
            ),
            true,
        ),
        (
            (
                "batch",
                "Job",
                json!({ "metadata": {}, "spec": { "template": {} } }),
            ),
            false,
        ),
    ] {
        let gvk = kind(group, name);
        object["apiVersion"] = gvk.api_version().into();
        object["kind"] = name.into();
        let manager = manager_of(&gvk, "m");
        let mut compared = object.clone();
        manager.update(manager.nothing(), &mut compared, NOW);
        let created = manager.created(&object, NOW);
        assert_eq!(created.is_some(), is_direct, "{object}");
        manager.create(&mut object, NOW);
        assert_eq!(owners(&object), owners(&compared));
        assert_eq!(object, compared);
    }
}

/// The entries as `manager operation fields`.
fn owners(object: &Value) -> Vec<String> {
    let object = fields::unfolded(object);
    let entries = object["metadata"]["managedFields"].as_array();
    let entry = |entry: &Value| {
        format!(
            "{} {} {}",
            entry["manager"].as_str().unwrap(),
            entry["operation"].as_str().unwrap(),
            entry["fieldsV1"]
        )
    };
    entries.into_iter().flatten().map(entry).collect()
}

/// Entries as they are held.
fn at_rest(mut entries: Value) -> Value {
    fields::settle(&mut entries);
    entries
}

#[test]
fn comparisons_follow_the_schema() {
    let pod = schema::builtin(&kind("", "Pod")).map(|schema| &**schema);
    // schema, old, new, added, modified, removed
    let cases = [
        (
            None,
            json!({ "a": 1, "m": { "x": 1 } }),
            json!({ "b": 1, "m": { "x": 2 }, "e": {} }),
            json!({ "f:b": {}, "f:e": {} }),
            json!({ "f:m": { "f:x": {} } }),
            json!({ "f:a": {} }),
        ),
        (
            None,
            json!({ "l": [1], "s": 1 }),
            json!({ "l": [1, 2], "s": { "t": 1 } }),
            json!({ "f:s": { "f:t": {} } }),
            json!({ "f:l": {}, "f:s": {} }),
            json!({}),
        ),
        (
            pod,
            json!({ "spec": { "containers": [{ "name": "a", "image": "i" }, { "name": "b" }] } }),
            json!({ "spec": { "containers": [{ "name": "a", "image": "j", "command": ["x"] }] } }),
            json!({ "f:spec": { "f:containers": { "k:{\"name\":\"a\"}": { "f:command": {} } } } }),
            json!({ "f:spec": { "f:containers": { "k:{\"name\":\"a\"}": { "f:image": {} } } } }),
            json!({ "f:spec": { "f:containers": {
                "k:{\"name\":\"b\"}": { ".": {}, "f:name": {} },
            } } }),
        ),
        (
            pod,
            json!({ "metadata": { "managedFields": [1] }, "spec": { "containers": null } }),
            json!({ "metadata": { "finalizers": ["f"] }, "spec": { "containers": [] } }),
            json!({ "f:metadata": { "f:finalizers": { ".": {}, "v:\"f\"": {} } } }),
            json!({ "f:spec": { "f:containers": {} } }),
            json!({}),
        ),
        // Items with the same keys are one.
        (
            pod,
            json!({ "spec": { "containers": [{ "name": "a" }] } }),
            json!({ "spec": { "containers": [{ "name": "a" }, { "name": "a" }] } }),
            json!({ "f:spec": { "f:containers": { "k:{\"name\":\"a\"}": {} } } }),
            json!({}),
            json!({ "f:spec": { "f:containers": {
                "k:{\"name\":\"a\"}": { ".": {}, "f:name": {} },
            } } }),
        ),
    ];
    for (schema, old, new, added, modified, removed) in cases {
        let comparison = Comparison::of(Shape::of_kind(schema), &old, &new);
        assert_eq!(comparison.added.to_fields(), added, "added by {new}");
        assert_eq!(
            comparison.modified.to_fields(),
            modified,
            "modified by {new}"
        );
        assert_eq!(comparison.removed.to_fields(), removed, "removed by {new}");
    }
}

#[test]
fn merged_lists_keep_both_orders() {
    let pod = Shape::of_kind(schema::builtin(&kind("", "Pod")).map(|schema| &**schema));
    // live, applied, merged: the names of containers
    let cases: [(&[&str], &[&str], &[&str]); 5] = [
        (&["a", "b"], &["c"], &["a", "b", "c"]),
        (&["a", "b"], &["c", "a"], &["c", "a", "b"]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b", "c"], &["b", "x"], &["a", "b", "c", "x"]),
        (&[], &["b", "a"], &["b", "a"]),
    ];
    for (live, applied, want) in cases {
        let pod_of = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "spec": { "containers": containers } })
        };
        let merged = merge::merge(pod, &pod_of(live), &pod_of(applied));
        assert_eq!(merged, Some(pod_of(want)), "{live:?} with {applied:?}");
    }
}

#[test]
fn atomic_values_are_replaced_and_maps_are_merged() {
    let service = Shape::of_kind(schema::builtin(&kind("", "Service")).map(|schema| &**schema));
    let live =
        json!({ "metadata": { "labels": { "a": "1" } }, "spec": { "selector": { "a": "1" } } });
    let applied =
        json!({ "metadata": { "labels": { "b": "2" } }, "spec": { "selector": { "b": "2" } } });
    let want = json!({
        "metadata": { "labels": { "a": "1", "b": "2" } },
        "spec": { "selector": { "b": "2" } },
    });
    assert_eq!(merge::merge(service, &live, &applied), Some(want));
}

#[test]
fn updates_take_the_fields_they_change() {
    let mut object = config(json!({ "k": "v", "l": "v" }));
    manager("first").create(&mut object, EARLIER);
    let all = "first Update {\"f:data\":{\".\":{},\"f:k\":{},\"f:l\":{}}}";
    assert_eq!(owners(&object), [all]);

    let live = stored(object);
    let mut next = live.clone();
    next["data"] = json!({ "k": "w", "n": "v" });
    manager("second").update(&live, &mut next, NOW);
    let want = [
        "first Update {\"f:data\":{}}",
        "second Update {\"f:data\":{\"f:k\":{},\"f:n\":{}}}",
    ];
    assert_eq!(owners(&next), want);
    assert_eq!(next["metadata"]["managedFields"][0]["time"], EARLIER);
    assert_eq!(next["metadata"]["managedFields"][1]["time"], NOW);
}

#[test]
fn updates_that_change_nothing_leave_owners_alone() {
    let mut object = config(json!({ "k": "v" }));
    manager("first").create(&mut object, EARLIER);
    let live = stored(object);
    for sent in [
        json!(null),
        json!([{ "manager": "broken" }]),
        live["metadata"]["managedFields"].clone(),
    ] {
        let mut next = config(json!({ "k": "v" }));
        next["metadata"]["managedFields"] = sent;
        manager("second").update(&live, &mut next, NOW);
        assert_eq!(
            next["metadata"]["managedFields"],
            live["metadata"]["managedFields"]
        );
    }
}

#[test]
fn clients_can_forget_owners() {
    for (entries, want) in [
        (json!([]), true),
        (json!([{}]), true),
        (json!([{ "manager": "" }]), true),
        (json!(null), false),
        (json!([{ "manager": "m" }]), false),
        (json!([{}, {}]), false),
    ] {
        assert_eq!(is_reset(&entries), want, "{entries}");
    }
    let mut object = config(json!({ "k": "v" }));
    manager("first").create(&mut object, EARLIER);
    let live = stored(object);
    let mut next = config(json!({ "k": "w" }));
    next["metadata"]["managedFields"] = json!([{}]);
    manager("second").update(&live, &mut next, NOW);
    assert_eq!(next["metadata"].get("managedFields"), None);
    // Without owners, updates are not tracked until the first apply.
    let live = stored(next);
    let mut next = config(json!({ "k": "x" }));
    manager("second").update(&live, &mut next, NOW);
    assert_eq!(next["metadata"].get("managedFields"), None);
    let applied = manager("m").apply(
        Some(&stored(next)),
        &config(json!({ "l": "v" })),
        Force::No,
        NOW,
    );
    let want = [
        "m Apply {\"f:data\":{\"f:l\":{}}}",
        "before-first-apply Update {\"f:data\":{\".\":{},\"f:k\":{}}}",
    ];
    assert_eq!(owners(&applied.unwrap()), want);
}

#[test]
fn the_oldest_updates_are_merged() {
    let mut live = stored(config(json!({})));
    manager("u00").create(&mut live, EARLIER);
    for index in 1..=12 {
        let mut next = live.clone();
        next["data"][format!("k{index:02}")] = "v".into();
        let now = format!("2020-01-02T00:00:{index:02}Z");
        manager(&format!("u{index:02}")).update(&live, &mut next, &now);
        live = next;
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert!(
        owners[0].starts_with("ancient-changes Update "),
        "{owners:?}"
    );
    assert!(owners[9].starts_with("u12 "), "{owners:?}");
}

#[test]
fn applies_share_conflict_and_force() {
    let first = manager("m1").apply(
        None,
        &config(json!({ "k": "v", "l": "v" })),
        Force::No,
        EARLIER,
    );
    let live = stored(first.unwrap());
    let same = manager("m2").apply(Some(&live), &config(json!({ "k": "v" })), Force::No, NOW);
    let same = same.unwrap();
    let want = [
        "m2 Apply {\"f:data\":{\"f:k\":{}}}",
        "m1 Apply {\"f:data\":{\"f:k\":{},\"f:l\":{}}}",
    ];
    assert_eq!(owners(&same), want);
    assert_eq!(same["metadata"]["managedFields"][0].get("time"), None);

    let other = config(json!({ "k": "w", "l": "w" }));
    let error = manager("m3")
        .apply(Some(&same), &other, Force::No, NOW)
        .unwrap_err();
    let message = "Apply failed with 3 conflicts: conflicts with \"m1\":\n- .data.k\n- .data.l\nconflicts with \"m2\":\n- .data.k";
    assert_eq!(error.to_string(), message);
    let forced = manager("m3")
        .apply(Some(&same), &other, Force::Yes, NOW)
        .unwrap();
    assert_eq!(
        owners(&forced),
        ["m3 Apply {\"f:data\":{\"f:k\":{},\"f:l\":{}}}"]
    );
    assert_eq!(forced["data"], json!({ "k": "w", "l": "w" }));
}

#[test]
fn applies_remove_what_they_no_longer_set() {
    let applied = config(json!({ "k": "v", "l": "v" }));
    let live = stored(
        manager("m1")
            .apply(None, &applied, Force::No, EARLIER)
            .unwrap(),
    );
    let mut shared = live.clone();
    shared["data"]["u"] = "v".into();
    manager("u").update(&live, &mut shared, EARLIER);
    let next = manager("m1").apply(Some(&shared), &config(json!({ "l": "v" })), Force::No, NOW);
    let next = next.unwrap();
    assert_eq!(next["data"], json!({ "l": "v", "u": "v" }));
    let want = [
        "m1 Apply {\"f:data\":{\"f:l\":{}}}",
        "u Update {\"f:data\":{\"f:u\":{}}}",
    ];
    assert_eq!(owners(&next), want);
    assert_eq!(next["metadata"]["managedFields"][0]["time"], NOW);
}

#[test]
fn what_does_not_fit_the_schema_is_refused() {
    let prefix = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): ";
    let cases = [
        (json!(["x"]), ".data: expected map, got &{[x]}"),
        (
            json!({ "k": 5 }),
            ".data.k: expected string, got &value.valueUnstructured{Value:5}",
        ),
    ];
    for (data, want) in cases {
        let error = manager("m")
            .apply(None, &config(data), Force::No, NOW)
            .unwrap_err();
        assert_eq!(error.to_string(), format!("{prefix}{want}"));
        assert_eq!(error.code(), 500);
    }
    let mut foreign = config(json!({}));
    foreign["kind"] = "Other".into();
    let error = manager("m")
        .apply(None, &foreign, Force::No, NOW)
        .unwrap_err();
    assert_eq!(error.to_string(), "invalid object type: /v1, Kind=Other");
    let mut managed = config(json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    let error = manager("m")
        .apply(None, &managed, Force::No, NOW)
        .unwrap_err();
    assert_eq!(error.to_string(), "metadata.managedFields must be nil");

    let pod = kind("", "Pod");
    let twice = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
        "spec": { "containers": [{ "name": "c" }, { "name": "c" }] } });
    let error = manager_of(&pod, "m")
        .apply(None, &twice, Force::No, NOW)
        .unwrap_err();
    let want = "failed to create typed patch object (/a; /v1, Kind=Pod): .spec.containers: duplicate entries for key [name=\"c\"]";
    assert_eq!(error.to_string(), want);
}

#[test]
fn kubectl_takes_over_from_client_side_apply() {
    let last = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": "v" } });
    let mut object = config(json!({ "k": "v", "l": "v" }));
    object["metadata"]["annotations"] = json!({ LAST_APPLIED: last.to_string() });
    manager("kubectl-client-side-apply").create(&mut object, EARLIER);
    let live = stored(object);
    let taken = config(json!({ "k": "w" }));
    assert!(
        manager("other")
            .apply(Some(&live), &taken, Force::No, NOW)
            .is_err()
    );
    let next = manager("kubectl")
        .apply(Some(&live), &taken, Force::No, NOW)
        .unwrap();
    assert_eq!(next["data"], json!({ "k": "w", "l": "v" }));
    assert_eq!(
        next["metadata"]["annotations"][LAST_APPLIED],
        format!("{taken}\n")
    );
    // Not from what client-side apply did not set.
    let error = manager("kubectl").apply(Some(&live), &config(json!({ "l": "w" })), Force::No, NOW);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .ends_with("using v1: .data.l")
    );
}

#[test]
fn a_scale_has_the_owners_of_the_replicas() {
    let held = json!([
        { "manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "time": EARLIER,
          "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:replicas": {}, "f:x": {} } } },
        { "manager": "n", "operation": "Apply", "apiVersion": "apps/v1", "time": NOW,
          "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:y": {} } } },
    ]);
    let replicas = json!({ "f:spec": { "f:replicas": {} } });
    let scale = scale::to_scale(&held, &scale::REPLICAS).unwrap().unwrap();
    assert_eq!(scale.as_array().unwrap().len(), 1);
    assert_eq!(scale[0]["apiVersion"], "autoscaling/v1");
    assert_eq!(scale[0]["fieldsV1"], fields::at_rest(&replicas.to_string()));
    assert_eq!(
        scale::to_parent(&held, &scale, "apps/v1", &scale::REPLICAS).unwrap(),
        Some(at_rest(held.clone()))
    );

    let taken = json!([{ "manager": "s", "operation": "Apply", "apiVersion": "autoscaling/v1",
        "time": NOW, "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": replicas }]);
    let parent = scale::to_parent(&held, &taken, "apps/v1", &scale::REPLICAS)
        .unwrap()
        .unwrap();
    let object = json!({ "metadata": { "managedFields": parent } });
    let want = [
        "s Apply {\"f:spec\":{\"f:replicas\":{}}}",
        "m Apply {\"f:spec\":{\"f:x\":{}}}",
        "n Apply {\"f:spec\":{\"f:y\":{}}}",
    ];
    assert_eq!(owners(&object), want);
}

#[test]
fn entries_are_ordered_and_broken_ones_refused() {
    let entry = |manager: &str, operation: &str, time: &str| {
        json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": {} } })
    };
    let sorted = json!([
        entry("z", "Apply", NOW),
        entry("z", "Update", EARLIER),
        entry("a", "Update", NOW),
        entry("b", "Update", NOW),
    ]);
    let mut shuffled = sorted.as_array().unwrap().clone();
    shuffled.reverse();
    let managers = Managers::decode(&Value::Array(shuffled)).unwrap();
    assert_eq!(managers.encode(), Some(at_rest(sorted)));
    for (field, value) in [
        ("operation", "Delete"),
        ("apiVersion", ""),
        ("fieldsType", ""),
        ("fieldsType", "FieldsV2"),
    ] {
        let mut broken = entry("a", "Update", NOW);
        broken[field] = value.into();
        assert!(
            Managers::decode(&json!([broken])).is_err(),
            "{field}={value}"
        );
    }
}

#[test]
fn a_user_agent_names_its_program() {
    let long = "x".repeat(200);
    for (agent, want) in [
        ("kubectl/v1.36.0 (linux/amd64)", "kubectl"),
        ("plain", "plain"),
        ("", ""),
        (long.as_str(), &long[..128]),
    ] {
        assert_eq!(manager_of_user_agent(agent), want);
    }
}
