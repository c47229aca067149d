//! Parts of generated pods.

use serde_json::{Value, json};

use super::draw::Draw;
use super::feature::Features;
use super::names::{APPS, HOSTNAME, ZONE};

pub(super) fn pod_labels(draw: &Draw) -> Value {
    match draw.below(10) {
        0 => json!({}),
        _ => json!({ "app": draw.pick(APPS), "version": draw.pick(&["v1", "v2"]) }),
    }
}

/// The versions and kinds of the sets that each namespace has.
pub(super) const SETS: [(&str, &str); 3] = [
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "ReplicationController"),
];

/// Makes a pod one of a set of its namespace.
pub(super) fn join_set(draw: &Draw, pod: &mut Value) {
    let (version, kind) = SETS[draw.below(SETS.len())];
    pod["metadata"]["labels"]["set"] = json!(kind);
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": version, "kind": kind, "name": "one", "uid": "one", "controller": true,
    }]);
}

/// Draws the requests of a container.
pub(super) fn requests(draw: &Draw, features: Features) -> Value {
    let mut requests = json!({});
    if !features.resources {
        return requests;
    }
    if draw.chance(70) {
        requests["cpu"] = json!(draw.pick(&["0", "1m", "100m", "250m", "1", "1500m", "3"]));
    }
    if draw.chance(60) {
        requests["memory"] = json!(draw.pick(&["0", "64Mi", "128Mi", "300M", "1Gi", "3Gi"]));
    }
    if draw.chance(15) {
        requests["ephemeral-storage"] = json!(draw.pick(&["100Mi", "1Gi", "2Gi"]));
    }
    requests
}

/// Draws requests with resources that need equal limits.
pub(super) fn resources(draw: &Draw, features: Features) -> Value {
    let mut requests = requests(draw, features);
    let mut limits = json!({});
    if features.resources && draw.chance(20) {
        let gpus = json!(draw.pick(&["0", "1", "2"]));
        requests["example.com/gpu"] = gpus.clone();
        limits["example.com/gpu"] = gpus;
    }
    if features.resources && draw.chance(10) {
        let pages = json!(draw.pick(&["2Mi", "32Mi"]));
        requests["hugepages-2Mi"] = pages.clone();
        limits["hugepages-2Mi"] = pages;
        // Pages need a request of memory or of the processor next to them.
        requests["cpu"] = json!("10m");
    }
    json!({ "requests": requests, "limits": limits })
}

pub(super) fn host_port(draw: &Draw) -> Value {
    let mut port = json!({
        "containerPort": 80,
        "hostPort": draw.between(8080, 8081),
        "protocol": draw.pick(&["TCP", "TCP", "UDP"]),
    });
    if draw.chance(50) {
        port["hostIP"] = json!(draw.pick(&["0.0.0.0", "127.0.0.1", "10.0.0.1"]));
    }
    port
}

/// Draws a volume whose disk pods of one node may not share.
pub(super) fn disk(draw: &Draw) -> Value {
    match draw.below(2) {
        0 => json!({ "name": "disk", "gcePersistentDisk": {
            "pdName": draw.pick(&["disk-1", "disk-2"]), "readOnly": draw.chance(30),
        } }),
        _ => json!({ "name": "disk", "iscsi": {
            "targetPortal": "10.0.0.1:3260", "iqn": draw.pick(&["iqn.2026-01.com.example:one", "iqn.2026-01.com.example:two"]),
            "lun": 0, "readOnly": draw.chance(30),
        } }),
    }
}

/// Draws a rule about a label.
pub(super) fn rule(draw: &Draw, node_name: Option<&str>) -> Value {
    let key = draw.pick(&[ZONE, "disk", "cores", HOSTNAME, "none"]);
    let values = match key {
        ZONE => draw.pick(&[&["a"][..], &["a", "b"], &["b", "c"]]),
        "disk" => draw.pick(&[&["ssd"][..], &["hdd"], &["ssd", "hdd"]]),
        "cores" => draw.pick(&[&["2"][..], &["4", "8"], &["many"]]),
        _ => &["other"][..],
    };
    let mut values = json!(values);
    if let Some(name) = node_name.filter(|_| key == HOSTNAME) {
        values = json!([name]);
    }
    match draw.below(10) {
        0 => json!({ "key": key, "operator": "Exists" }),
        1 => json!({ "key": key, "operator": "DoesNotExist" }),
        2..=4 => json!({ "key": key, "operator": "NotIn", "values": values }),
        5 => {
            json!({ "key": "cores", "operator": draw.pick(&["Gt", "Lt"]), "values": [draw.pick(&["1", "3", "4"])] })
        }
        _ => json!({ "key": key, "operator": "In", "values": values }),
    }
}

/// Draws a term of a node affinity.
pub(super) fn node_term(draw: &Draw, names: &[&str]) -> Value {
    let mut term = json!({});
    let name = draw.pick(names);
    if !draw.chance(10) {
        let rules = draw.between(1, 2);
        let rules: Vec<Value> = (0..rules).map(|_| rule(draw, Some(name))).collect();
        term["matchExpressions"] = json!(rules);
    }
    if draw.chance(10) {
        let fields = draw.between(1, 2);
        let field = |_| {
            json!({
                "key": "metadata.name",
                "operator": draw.pick(&["In", "In", "NotIn"]),
                "values": [draw.pick(names)],
            })
        };
        term["matchFields"] = json!((0..fields).map(field).collect::<Vec<_>>());
    }
    term
}

/// Draws a selector of pods; null selects none.
pub(super) fn selector(draw: &Draw) -> Value {
    match draw.below(12) {
        0 => Value::Null,
        1 => json!({}),
        2 => {
            json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": [draw.pick(APPS)] }] })
        }
        3 => json!({ "matchExpressions": [{ "key": "version", "operator": "Exists" }] }),
        4 => {
            json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web", "db"] }] })
        }
        _ => json!({ "matchLabels": { "app": draw.pick(APPS) } }),
    }
}

fn pod_term(draw: &Draw) -> Value {
    let mut term = json!({ "topologyKey": draw.pick(&[ZONE, ZONE, HOSTNAME, "disk"]) });
    let selector = selector(draw);
    if !selector.is_null() {
        // A selector may not name the keys, too.
        let is_about_versions = selector["matchExpressions"][0]["key"] == "version";
        match draw.below(8) {
            0 if !is_about_versions => term["matchLabelKeys"] = json!(["version"]),
            1 if !is_about_versions => term["mismatchLabelKeys"] = json!(["version"]),
            _ => {}
        }
        term["labelSelector"] = selector;
    }
    if draw.chance(20) {
        term["namespaces"] = json!([draw.pick(&["team-a", "default", "gone"])]);
    }
    if draw.chance(20) {
        term["namespaceSelector"] = match draw.below(3) {
            0 => json!({}),
            1 => json!({ "matchLabels": { "team": "a" } }),
            _ => json!({ "matchExpressions": [{ "key": "team", "operator": "Exists" }] }),
        };
    }
    term
}

/// Draws required terms about other pods.
pub(super) fn pod_terms(draw: &Draw, most: usize) -> Value {
    let terms = draw.between(1, most);
    let terms: Vec<Value> = (0..terms).map(|_| pod_term(draw)).collect();
    json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms })
}

/// Draws preferred terms about other pods.
pub(super) fn preferred_pod_terms(draw: &Draw) -> Value {
    let terms = draw.between(1, 2);
    let term = |_| json!({ "weight": draw.between(1, 100), "podAffinityTerm": pod_term(draw) });
    json!((0..terms).map(term).collect::<Vec<_>>())
}

/// Draws constraints of the spread over topologies, each with another key.
pub(super) fn spread(draw: &Draw) -> Value {
    let keys: Vec<&str> = [ZONE, HOSTNAME, "disk"]
        .into_iter()
        .filter(|_| draw.chance(50))
        .collect();
    let keys = if keys.is_empty() { vec![ZONE] } else { keys };
    let constraints = keys.into_iter().map(|key| {
        let when = draw.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]);
        let mut constraint = json!({
            "topologyKey": key,
            "maxSkew": draw.between(1, 3),
            "whenUnsatisfiable": when,
        });
        let selector = selector(draw);
        if !selector.is_null() {
            let is_about_versions = selector["matchExpressions"][0]["key"] == "version";
            if draw.chance(20) && !is_about_versions {
                constraint["matchLabelKeys"] = json!(["version"]);
            }
            constraint["labelSelector"] = selector;
        }
        if when == "DoNotSchedule" && draw.chance(25) {
            constraint["minDomains"] = json!(draw.between(1, 5));
        }
        if draw.chance(25) {
            constraint["nodeAffinityPolicy"] = json!(draw.pick(&["Honor", "Ignore"]));
        }
        if draw.chance(25) {
            constraint["nodeTaintsPolicy"] = json!(draw.pick(&["Honor", "Ignore"]));
        }
        constraint
    });
    json!(constraints.collect::<Vec<_>>())
}

/// Draws tolerations.
pub(super) fn tolerations(draw: &Draw) -> Value {
    let count = draw.between(1, 2);
    let tolerations = (0..count).map(|_| {
        let mut toleration = match draw.below(5) {
            0 => json!({ "operator": "Exists" }),
            1 => json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists" }),
            2 => json!({ "key": draw.pick(&["dedicated", "spot"]), "operator": "Exists" }),
            _ => json!({
                "key": draw.pick(&["dedicated", "spot"]), "operator": "Equal",
                "value": draw.pick(&["gpu", "db", ""]),
            }),
        };
        if draw.chance(50) {
            toleration["effect"] =
                json!(draw.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]));
        }
        toleration
    });
    json!(tolerations.collect::<Vec<_>>())
}
