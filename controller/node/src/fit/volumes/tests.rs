use kube::runtime::watcher::Event;
use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::decode::from_value;

use std::collections::BTreeMap;

use kube::core::Selector;

use super::*;
use crate::fit::Profile;
use crate::fit::{NodeEntry, choose};

#[derive(Default)]
struct Stored(Storage);

impl Stored {
    fn claim(mut self, name: &str, spec: &Value, phase: &str) -> Self {
        let mut metadata = json!({ "name": name, "namespace": "default", "uid": name });
        if spec["volumeName"].is_string() {
            metadata["annotations"] = json!({ BIND_COMPLETED: "yes" });
        }
        let claim = json!({ "metadata": metadata, "spec": spec, "status": { "phase": phase } });
        let claim = from_value(claim).unwrap();
        self.0.claims.apply(Event::Apply(Arc::new(claim)));
        self
    }

    fn volume(mut self, name: &str, labels: &Value, spec: &Value) -> Self {
        let volume = json!({
            "metadata": { "name": name, "labels": labels },
            "spec": spec, "status": { "phase": "Available" },
        });
        let volume = from_value(volume).unwrap();
        self.0.volumes.apply(Event::Apply(Arc::new(volume)));
        self
    }

    fn class(mut self, name: &str, provisioner: &str, mode: &str, zones: &[&str]) -> Self {
        let mut class = json!({
            "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode,
        });
        if !zones.is_empty() {
            let rule = json!({ "key": "zone", "values": zones });
            class["allowedTopologies"] = json!([{ "matchLabelExpressions": [rule] }]);
        }
        let class = from_value(class).unwrap();
        self.0.classes.apply(Event::Apply(Arc::new(class)));
        self
    }

    /// Returns the node and the volumes of a pod with these claims, or the message that refuses it.
    fn place(&self, used: &[&str], running: &[(&str, Value)]) -> String {
        let nodes = ["a", "b"].map(|zone| {
            let labels = json!({ "zone": zone, "topology.kubernetes.io/zone": zone });
            let node = json!({
                "metadata": { "name": format!("node-{zone}"), "labels": labels },
                "status": { "allocatable": { "pods": "9" } },
            });
            from_value::<Node>(node).unwrap()
        });
        let mut loads: BTreeMap<String, Load> = BTreeMap::new();
        for (node, volume) in running {
            let load = loads.entry((*node).to_owned()).or_default();
            load.add(&Arc::new(pod("other", std::slice::from_ref(volume))));
        }
        let entries = NodeEntry::all(&nodes, &loads);
        let cluster = Cluster {
            profile: &Profile::default(),
            spread_selector: &|_| Selector::default(),
            nodes: entries.iter().filter_map(NodeEntry::info).collect(),
            namespace_labels: &|_| BTreeMap::new(),
            storage: Some(&self.0),
            devices: None,
        };
        let volumes: Vec<Value> = used.iter().map(|name| of_claim(name)).collect();
        match choose(&pod("web", &volumes), &cluster, None) {
            Ok(choice) => {
                let bindings = choice.bindings;
                let existing = bindings.existing.iter();
                let existing = existing
                    .map(|(claim, volume)| format!(" {}={}", claim.name_any(), volume.name_any()));
                let provisioned = bindings.provisioned.iter();
                let provisioned = provisioned.map(|claim| format!(" {}=new", claim.name_any()));
                let bound: String = existing.chain(provisioned).collect();
                format!("{}{bound}", choice.node)
            }
            Err(fit_error) => {
                let message = fit_error.message("");
                let reasons = message.strip_prefix("0/2 nodes are available: ");
                reasons.unwrap_or(&message).to_owned()
            }
        }
    }
}

fn of_claim(name: &str) -> Value {
    json!({ "name": name, "persistentVolumeClaim": { "claimName": name } })
}

fn pod(name: &str, volumes: &[Value]) -> Pod {
    from_value(json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "containers": [], "volumes": volumes },
    }))
    .unwrap()
}

fn wants(class: &str, size: &str) -> Value {
    json!({
        "storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": size } },
    })
}

fn bound_to(volume: &str, mode: &str) -> Value {
    json!({ "volumeName": volume, "accessModes": [mode] })
}

/// A volume that nodes of one zone reach.
fn in_zone(zone: &str, class: &str, size: &str) -> Value {
    let rule = json!({ "key": "zone", "operator": "In", "values": [zone] });
    let terms = json!([{ "matchExpressions": [rule] }]);
    json!({
        "storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "capacity": { "storage": size },
        "nodeAffinity": { "required": { "nodeSelectorTerms": terms } },
    })
}

#[test]
fn claims_that_cannot_be_used_refuse_all_nodes() {
    let stored = Stored::default()
        .class("now", "p", "Immediate", &[])
        .claim("unbound", &wants("now", "1Gi"), "Pending")
        .claim("lost", &bound_to("gone", "ReadWriteOnce"), "Lost")
        .claim("dangling", &bound_to("gone", "ReadWriteOnce"), "Bound");
    for (claim, expected) in [
        ("none", "persistentvolumeclaim \"none\" not found"),
        (
            "unbound",
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            "lost",
            "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"gone\"",
        ),
        ("dangling", "persistentvolume \"gone\" not found"),
    ] {
        let expected = format!("{expected}.");
        assert_eq!(stored.place(&[claim], &[]), expected);
    }
}

#[test]
fn bound_volumes_choose_their_nodes() {
    let zone = json!({ "topology.kubernetes.io/zone": "b__c" });
    let stored = Stored::default()
        .claim("near-b", &bound_to("in-b", "ReadWriteOnce"), "Bound")
        .claim("near-a", &bound_to("in-a", "ReadWriteOnce"), "Bound")
        .claim("far", &bound_to("in-c", "ReadWriteOnce"), "Bound")
        .claim(
            "labelled",
            &bound_to("with-label", "ReadWriteOnce"),
            "Bound",
        )
        .volume("in-b", &json!({}), &in_zone("b", "", "1Gi"))
        .volume("in-a", &json!({}), &in_zone("a", "", "1Gi"))
        .volume("in-c", &json!({}), &in_zone("c", "", "1Gi"))
        .volume("with-label", &zone, &json!({}));
    assert_eq!(stored.place(&["near-b"], &[]), "node-b");
    assert_eq!(stored.place(&["labelled"], &[]), "node-b");
    let expected = "1 node(s) didn't match PersistentVolume's node affinity, \
        1 node(s) had no available volume zone.";
    assert_eq!(stored.place(&["near-a", "labelled"], &[]), expected);
    let expected = "2 node(s) didn't match PersistentVolume's node affinity.";
    assert_eq!(stored.place(&["far"], &[]), expected);
}

#[test]
fn claims_that_wait_get_the_smallest_volume_that_their_node_reaches() {
    let stored = Stored::default()
        .class("local", NO_PROVISIONER, "WaitForFirstConsumer", &[])
        .class("made", "p", "WaitForFirstConsumer", &["b"])
        .claim("big", &wants("local", "5Gi"), "Pending")
        .claim("small", &wants("local", "1Gi"), "Pending")
        .claim("made", &wants("made", "1Gi"), "Pending")
        .volume("b-10", &json!({}), &in_zone("b", "local", "10Gi"))
        .volume("b-6", &json!({}), &in_zone("b", "local", "6Gi"))
        .volume("a-2", &json!({}), &in_zone("a", "local", "2Gi"));
    assert_eq!(stored.place(&["small"], &[]), "node-a small=a-2");
    assert_eq!(stored.place(&["big"], &[]), "node-b big=b-6");
    // The smallest claim chooses first.
    assert_eq!(
        stored.place(&["big", "small"], &[]),
        "node-b small=b-6 big=b-10"
    );
    assert_eq!(stored.place(&["made"], &[]), "node-b made=new");
    let full = Stored::default()
        .class("local", NO_PROVISIONER, "WaitForFirstConsumer", &[])
        .claim("big", &wants("local", "5Gi"), "Pending");
    let expected = "2 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(full.place(&["big"], &[]), expected);
}

#[test]
fn a_volume_that_is_tied_to_the_claim_is_the_only_choice() {
    let mut tied = in_zone("b", "local", "10Gi");
    tied["claimRef"] = json!({ "namespace": "default", "name": "small", "uid": "small" });
    let stored = Stored::default()
        .class("local", NO_PROVISIONER, "WaitForFirstConsumer", &[])
        .claim("small", &wants("local", "1Gi"), "Pending")
        .volume("tied", &json!({}), &tied)
        .volume("a-2", &json!({}), &in_zone("a", "local", "2Gi"));
    assert_eq!(stored.place(&["small"], &[]), "node-b small=tied");
}

#[test]
fn volumes_that_pods_may_not_share_keep_them_apart() {
    let stored = Stored::default()
        .claim("own", &bound_to("v", "ReadWriteOncePod"), "Bound")
        .volume("v", &json!({}), &json!({}));
    assert_eq!(stored.place(&["own"], &[]), "node-a");
    let expected = "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
        access mode already in-use by another pod.";
    assert_eq!(
        stored.place(&["own"], &[("node-b", of_claim("own"))]),
        expected
    );
    for (one, other, expected) in [
        (
            json!({ "gcePersistentDisk": { "pdName": "d" } }),
            json!({ "gcePersistentDisk": { "pdName": "d", "readOnly": true } }),
            true,
        ),
        (
            json!({ "gcePersistentDisk": { "pdName": "d", "readOnly": true } }),
            json!({ "gcePersistentDisk": { "pdName": "d", "readOnly": true } }),
            false,
        ),
        (
            json!({ "awsElasticBlockStore": { "volumeID": "d", "readOnly": true } }),
            json!({ "awsElasticBlockStore": { "volumeID": "d", "readOnly": true } }),
            true,
        ),
        (
            json!({ "iscsi": { "iqn": "i", "lun": 0, "targetPortal": "p" } }),
            json!({ "iscsi": { "iqn": "i", "lun": 1, "targetPortal": "q" } }),
            true,
        ),
        (
            json!({ "rbd": { "monitors": ["m", "n"], "image": "i", "pool": "rbd" } }),
            json!({ "rbd": { "monitors": ["n"], "image": "i", "pool": "rbd" } }),
            true,
        ),
        (
            json!({ "rbd": { "monitors": ["m"], "image": "i", "pool": "rbd" } }),
            json!({ "rbd": { "monitors": ["n"], "image": "i", "pool": "rbd" } }),
            false,
        ),
    ] {
        let volume = |mut source: Value| {
            source["name"] = json!("disk");
            from_value::<Volume>(source).unwrap()
        };
        assert_eq!(conflict(&volume(one), &volume(other)), expected);
    }
}

/// An object with this kind's fields in addition to its name.
fn named<K: serde::de::DeserializeOwned>(name: &str, fields: &Value) -> Event<Arc<K>> {
    let mut object = fields.clone();
    object["metadata"] = json!({ "name": name });
    Event::Apply(Arc::new(from_value(object).unwrap()))
}

#[test]
fn a_volume_is_provisioned_where_its_driver_has_room() {
    let claim =
        json!({ "storageClassName": "fast", "resources": { "requests": { "storage": "5Gi" } } });
    let place = |capacities: &[Value], opts_in: bool| {
        let mut stored = Stored::default()
            .class("fast", "csi.example.com", "WaitForFirstConsumer", &[])
            .claim("data", &claim, "Pending");
        let driver = json!({ "spec": { "storageCapacity": opts_in } });
        stored.0.drivers.apply(named("csi.example.com", &driver));
        for (number, capacity) in capacities.iter().enumerate() {
            let name = format!("c{number}");
            stored.0.capacities.apply(named(&name, capacity));
        }
        stored.place(&["data"], &[])
    };
    let of = |zone: &str, class: &str, more: &Value| {
        let mut capacity = more.clone();
        capacity["storageClassName"] = json!(class);
        capacity["nodeTopology"] = json!({ "matchLabels": { "zone": zone } });
        capacity
    };
    let enough = json!({ "capacity": "5Gi" });
    assert_eq!(place(&[], false), "node-a data=new");
    let none = "2 node(s) did not have enough free storage.";
    assert_eq!(place(&[], true), none);
    assert_eq!(place(&[of("b", "fast", &enough)], true), "node-b data=new");
    assert_eq!(place(&[of("b", "slow", &enough)], true), none);
    let little = json!({ "capacity": "4Gi" });
    assert_eq!(place(&[of("b", "fast", &little)], true), none);
    // The size of a single volume counts more than what is left.
    let small = json!({ "capacity": "50Gi", "maximumVolumeSize": "1Gi" });
    assert_eq!(place(&[of("b", "fast", &small)], true), none);
    let nowhere = json!({ "capacity": "5Gi", "storageClassName": "fast" });
    assert_eq!(place(&[nowhere], true), none);
}

#[test]
fn a_node_has_only_so_many_volumes_of_a_driver() {
    let csi =
        |handle: &str| json!({ "csi": { "driver": "csi.example.com", "volumeHandle": handle } });
    let bound = |volume: &str| json!({ "volumeName": volume });
    let stored = |limit: i32| {
        let mut stored = Stored::default()
            .class("fast", "csi.example.com", "WaitForFirstConsumer", &[])
            .volume("v1", &json!({}), &csi("1"))
            .volume("v2", &json!({}), &csi("2"))
            .volume("local", &json!({}), &json!({ "local": { "path": "/" } }))
            .claim("one", &bound("v1"), "Bound")
            .claim("two", &bound("v2"), "Bound")
            .claim("other", &bound("local"), "Bound")
            .claim("new", &json!({ "storageClassName": "fast" }), "Pending");
        let driver = |name: &str, limit: i32| json!({ "name": name, "nodeID": "n", "allocatable": { "count": limit } });
        for node in ["node-a", "node-b"] {
            let drivers = [
                driver("csi.example.com", limit),
                driver("none.example.com", 0),
            ];
            let spec = json!({ "spec": { "drivers": drivers } });
            stored.0.csi_nodes.apply(named(node, &spec));
        }
        stored
    };
    let full = |count: usize| format!("{count} node(s) exceed max volume count.");
    assert_eq!(stored(0).place(&["one"], &[]), full(2));
    assert_eq!(stored(1).place(&["one"], &[]), "node-a");
    assert_eq!(stored(1).place(&["one", "two"], &[]), full(2));
    assert_eq!(stored(0).place(&["new"], &[]), full(2));
    // Volumes of no driver with a limit do not count.
    assert_eq!(stored(0).place(&["other"], &[]), "node-a");
    // A volume that a pod on the node has is not a further one.
    let running = [("node-a", of_claim("two")), ("node-b", of_claim("one"))];
    assert_eq!(stored(1).place(&["one"], &running), "node-b");
    let running = [("node-a", of_claim("two")), ("node-b", of_claim("new"))];
    assert_eq!(stored(1).place(&["one"], &running), full(2));
    let mut attached = stored(1);
    for node in ["node-a", "node-b"] {
        let spec = json!({
            "attacher": "csi.example.com", "nodeName": node, "source": { "persistentVolumeName": "v2" },
        });
        attached
            .0
            .attachments
            .apply(named(node, &json!({ "spec": spec })));
    }
    assert_eq!(attached.place(&["one"], &[]), full(2));
    assert_eq!(attached.place(&["two"], &[]), "node-a");
}
