use std::collections::BTreeMap;
use std::sync::Arc;

use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::decode::from_value;

use kube::core::Selector;

use super::*;
use crate::fit::{Load, NodeEntry, Profile, Strategy};

fn node(name: &str, labels: &Value, more: &Value) -> Node {
    let allocatable = json!({ "cpu": "4", "memory": "4Gi", "pods": "110" });
    let mut node = json!({
        "metadata": { "name": name, "labels": labels },
        "status": { "allocatable": allocatable },
    });
    node["spec"] = more["spec"].clone();
    node["status"]["images"] = more["images"].clone();
    from_value(node).unwrap()
}

fn pod(app: &str, mut spec: Value, cpu: Option<&str>) -> Pod {
    let requests = cpu.map(|cpu| json!({ "requests": { "cpu": cpu } }));
    spec["containers"] = json!([{ "name": "main", "image": "app", "resources": requests }]);
    let metadata = json!({ "name": app, "namespace": "default", "labels": { "app": app } });
    from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

/// Returns the scores of the nodes in zone a, in zone b, and in no zone.
fn scores(pod: &Pod, more: &Value, running: &[(&str, Pod)]) -> Vec<i64> {
    scores_by(&Profile::default(), pod, more, running)
}

fn scores_by(profile: &Profile, pod: &Pod, more: &Value, running: &[(&str, Pod)]) -> Vec<i64> {
    let nodes = [
        node("node-1", &json!({ "zone": "a" }), more),
        node("node-2", &json!({ "zone": "b" }), &json!({})),
        node("node-3", &json!({}), &json!({})),
    ];
    let mut loads: BTreeMap<String, Load> = BTreeMap::new();
    for (node, pod) in running {
        let load = loads.entry((*node).to_owned()).or_default();
        load.add(&Arc::new(pod.clone()));
    }
    let entries = NodeEntry::all(&nodes, &loads);
    let cluster = Cluster {
        profile,
        spread_selector: &of_service,
        nodes: entries.iter().filter_map(NodeEntry::info).collect(),
        namespace_labels: &|_| BTreeMap::new(),
        storage: None,
        devices: None,
    };
    let claims = PodClaims::of(pod, None);
    of((pod, &claims), &cluster, &cluster.nodes)
}

/// The selector of a Service of the pods with the label `service`.
fn of_service(pod: &Pod) -> Selector {
    let labels = pod.metadata.labels.iter().flatten();
    let selected = labels.filter(|(key, _)| *key == "service");
    selected
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

// Taints give 3 * 100 to each node; a pod without requests counts for 100m of 4 and 200Mi of
// 4096Mi, which leaves 97 and 95 of 100.
const EMPTY: i64 = 300 + 96;

#[test]
fn the_least_allocated_node_scores_highest() {
    let plain = pod("web", json!({}), None);
    let running = [("node-2", pod("db", json!({}), Some("2")))];
    // 47 of the processor and 90 of the memory are left there.
    assert_eq!(
        scores(&plain, &json!({}), &running),
        [EMPTY, 300 + 68, EMPTY]
    );
}

#[test]
fn a_pod_with_requests_prefers_the_node_that_it_balances() {
    let one = pod("web", json!({}), Some("1"));
    let running = [("node-2", pod("db", json!({}), Some("2")))];
    // The share of the processor grows by 25 of 100, so the deviation grows by 12.
    let empty = 300 + (75 + 95) / 2 + (50 + (50 + 87 - 100) / 2);
    let taken = 300 + (25 + 90) / 2 + (50 + (50 + 62 - 75) / 2);
    assert_eq!(scores(&one, &json!({}), &running), [empty, taken, empty]);
}

#[test]
fn unwanted_taints_and_preferred_labels_count() {
    let taint = json!({ "spec": { "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] } });
    let plain = pod("web", json!({}), None);
    assert_eq!(scores(&plain, &taint, &[]), [EMPTY - 300, EMPTY, EMPTY]);
    let prefers = |zone: &str, weight: i32| {
        let rule = json!({ "key": "zone", "operator": "In", "values": [zone] });
        json!({ "weight": weight, "preference": { "matchExpressions": [rule] } })
    };
    let terms = json!([prefers("a", 1), prefers("b", 4)]);
    let affinity = json!({ "preferredDuringSchedulingIgnoredDuringExecution": terms });
    let choosy = pod(
        "web",
        json!({ "affinity": { "nodeAffinity": affinity } }),
        None,
    );
    assert_eq!(
        scores(&choosy, &json!({}), &[]),
        [EMPTY + 2 * 25, EMPTY + 2 * 100, EMPTY]
    );
}

#[test]
fn terms_of_running_pods_count_for_the_pod_that_they_select() {
    let term = json!({
        "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } },
    });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let follower = pod(
        "db",
        json!({ "affinity": { "podAffinity": required } }),
        None,
    );
    let web = pod("web", json!({}), None);
    let running = [("node-2", follower.clone()), ("node-3", follower)];
    // The term on node-3 has no zone to count for. Two pods take 94 and 90 of 100 there.
    let taken = 300 + (95 + 90) / 2;
    assert_eq!(
        scores(&web, &json!({}), &running),
        [EMPTY, taken + 2 * 100, taken]
    );
}

#[test]
fn soft_constraints_prefer_domains_with_fewer_pods() {
    let constraint = json!([{
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }]);
    let web = pod(
        "web",
        json!({ "topologySpreadConstraints": constraint }),
        None,
    );
    let running = [("node-2", pod("web", json!({}), None))];
    let taken = 300 + (95 + 90) / 2;
    // A node without the topology key has no score.
    assert_eq!(
        scores(&web, &json!({}), &running),
        [EMPTY + 2 * 100, taken, EMPTY]
    );
}

#[test]
fn pods_of_a_service_are_spread_unless_they_say_how() {
    let served = |mut pod: Pod| {
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert("service".to_string(), "web".to_owned());
        pod
    };
    let web = served(pod("web", json!({}), None));
    let running = [
        ("node-2", web.clone()),
        ("node-3", pod("web", json!({}), None)),
    ];
    let taken = 300 + (95 + 90) / 2;
    // The nodes have no host names, and zones under another key: they are one domain of each.
    assert_eq!(
        scores(&web, &json!({}), &running),
        [EMPTY + 200, taken + 200, taken + 200]
    );
    let labels = |name: &str| json!({ "kubernetes.io/hostname": name });
    let nodes = ["node-1", "node-2"].map(|name| node(name, &labels(name), &json!({})));
    let mut load = Load::default();
    load.add(&Arc::new(web.clone()));
    let spread = |profile: &Profile, load: &Load| {
        let loads = BTreeMap::from([("node-2".to_owned(), load.clone())]);
        let entries = NodeEntry::all(&nodes, &loads);
        let cluster = Cluster {
            profile,
            spread_selector: &of_service,
            nodes: entries.iter().filter_map(NodeEntry::info).collect(),
            namespace_labels: &|_| BTreeMap::new(),
            storage: None,
            devices: None,
        };
        let claims = PodClaims::of(&web, None);
        of((&web, &claims), &cluster, &cluster.nodes)
    };
    // Skews of 3 add 2 to each node, and the pod on node-2 adds ln(4): 2 of 3 and 3 of 3.
    let mut profile = Profile::default();
    assert_eq!(spread(&profile, &load), [EMPTY + 2 * 100, taken + 2 * 66]);
    // The second pod is counted although the node was looked at before: 2 of 5 and 5 of 5.
    load.add(&Arc::new(web.clone()));
    let two = 300 + (92 + 85) / 2;
    assert_eq!(spread(&profile, &load), [EMPTY + 2 * 100, two + 2 * 40]);
    // A list without constraints spreads nothing.
    profile.arguments.spread.clear();
    assert_eq!(spread(&profile, &load), [EMPTY, two]);
}

#[test]
fn strategies_score_the_share_that_is_taken() {
    let mut profile = Profile {
        score: vec![(Plugin::NodeResourcesFit, 1)],
        ..Profile::default()
    };
    let web = pod("web", json!({}), Some("1"));
    let running = [("node-2", pod("db", json!({}), Some("2")))];
    let mut by = |strategy: Strategy, resources: &[(&str, i64)]| {
        let resources = resources.iter().copied();
        profile.arguments.strategy = strategy;
        profile.arguments.resources = resources.map(|(name, it)| (name.to_owned(), it)).collect();
        scores_by(&profile, &web, &json!({}), &running)
    };
    // 1 and 3 of 4 processors, 200Mi and 400Mi of 4096Mi.
    let both = [("cpu", 3), ("memory", 1)];
    let least = by(Strategy::LeastAllocated, &both);
    assert_eq!(
        least,
        [(3 * 75 + 95) / 4, (3 * 25 + 90) / 4, (3 * 75 + 95) / 4]
    );
    let most = by(Strategy::MostAllocated, &[("cpu", 1)]);
    assert_eq!(most, [25, 75, 25]);
    let points = vec![(20, 0), (70, 100), (80, 50)];
    // 25 is a tenth of the way from 20 to 70; 75 is half of the way from 70 to 80.
    let ratio = by(
        Strategy::RequestedToCapacityRatio(points.clone()),
        &[("cpu", 1)],
    );
    assert_eq!(ratio, [10, 75, 10]);
    // Memory is below the first point, has no score, and does not count.
    let ratio = by(Strategy::RequestedToCapacityRatio(points), &both);
    assert_eq!(ratio, [10, 75, 10]);
    // No node has it, and the pod does not ask for it.
    let gpu = by(
        Strategy::MostAllocated,
        &[("cpu", 1), ("example.com/gpu", 50)],
    );
    assert_eq!(gpu, [25, 75, 25]);
}

#[test]
fn requests_of_the_pod_as_a_whole_count_for_the_balance_only() {
    let whole = json!({ "resources": { "requests": { "cpu": "2", "memory": "1Gi" } } });
    let web = pod("web", whole, None);
    let by = |plugin: Plugin| {
        let profile = Profile {
            score: vec![(plugin, 1)],
            ..Profile::default()
        };
        scores_by(&profile, &web, &json!({}), &[])[0]
    };
    // As without them: 97 of the processor and 95 of the memory are left.
    assert_eq!(by(Plugin::NodeResourcesFit), 96);
    // Shares of 50 and 25 of 100 deviate by 12.5.
    assert_eq!(
        by(Plugin::NodeResourcesBalancedAllocation),
        50 + (50 + 87 - 100) / 2
    );
}

#[test]
fn weights_and_added_preferences_count() {
    let rule = json!({ "key": "zone", "operator": "In", "values": ["b"] });
    let preferred = json!([{ "weight": 5, "preference": { "matchExpressions": [rule] } }]);
    let added = json!({ "preferredDuringSchedulingIgnoredDuringExecution": preferred });
    let mut profile = Profile {
        score: vec![(Plugin::NodeAffinity, 7)],
        ..Profile::default()
    };
    let web = pod("web", json!({}), None);
    assert_eq!(scores_by(&profile, &web, &json!({}), &[]), [0, 0, 0]);
    profile.arguments.added_affinity = from_value(added).unwrap();
    assert_eq!(scores_by(&profile, &web, &json!({}), &[]), [0, 700, 0]);
}

#[test]
fn others_affinity_counts_as_configured() {
    let term = json!({
        "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } },
    });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let liking = json!([{ "weight": 1, "podAffinityTerm": term }]);
    let liking = json!({ "preferredDuringSchedulingIgnoredDuringExecution": liking });
    let of = |affinity: Value| {
        pod(
            "db",
            json!({ "affinity": { "podAffinity": affinity } }),
            None,
        )
    };
    let running = [("node-1", of(required)), ("node-2", of(liking))];
    let web = pod("web", json!({}), None);
    let mut profile = Profile {
        score: vec![(Plugin::InterPodAffinity, 1)],
        ..Profile::default()
    };
    let scores = |profile: &Profile| scores_by(profile, &web, &json!({}), &running);
    assert_eq!(scores(&profile), [100, 100, 0]);
    profile.arguments.hard_affinity_weight = 4;
    assert_eq!(scores(&profile), [100, 25, 0]);
    profile.arguments.ignores_preferences_of_others = true;
    assert_eq!(scores(&profile), [0, 0, 0]);
}

#[test]
fn images_on_a_node_count_by_size_and_spread() {
    let size = 3 * 500 * 1024 * 1024;
    let images = json!({ "images": [{ "names": ["app:latest"], "sizeBytes": size }] });
    // A third of the nodes has 1500Mi: 500Mi, between 23Mi and 1000Mi.
    let web = pod("web", json!({}), None);
    assert_eq!(
        scores(&web, &images, &[]),
        [EMPTY + 100 * (500 - 23) / (1000 - 23), EMPTY, EMPTY]
    );
    let mut without = web;
    without.spec.as_mut().unwrap().containers.clear();
    let scores = scores(&without, &images, &[]);
    assert_eq!(scores[0], scores[1], "it has no image");
}
