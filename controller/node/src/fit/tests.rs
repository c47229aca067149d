use std::sync::Arc;

use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::decode::from_value;

use super::*;

fn node(name: &str, spec: &Value) -> Node {
    from_value(json!({
        "metadata": { "name": name },
        "spec": spec,
        "status": { "allocatable": { "pods": "3" } },
    }))
    .unwrap()
}

fn pod(mut spec: Value) -> Pod {
    if spec["containers"].is_null() {
        spec["containers"] = json!([]);
    }
    from_value(json!({ "metadata": { "name": "web-0" }, "spec": spec })).unwrap()
}

fn loads(pods: &[(&str, usize)]) -> BTreeMap<String, Load> {
    let load = |pods| Load {
        count: pods,
        pods: (0..pods).map(|_| Arc::new(pod(json!({})))).collect(),
        ..Load::default()
    };
    pods.iter()
        .map(|(name, pods)| ((*name).to_owned(), load(*pods)))
        .collect()
}

fn choose(pod: &Pod, nodes: &[Node], loads: &BTreeMap<String, Load>) -> Result<String, String> {
    choose_by(&Profile::default(), pod, nodes, loads)
}

fn choose_by(
    profile: &Profile,
    pod: &Pod,
    nodes: &[Node],
    loads: &BTreeMap<String, Load>,
) -> Result<String, String> {
    choose_or_nominee(profile, pod, (nodes, loads), None).map(|choice| choice.node)
}

fn choose_or_nominee(
    profile: &Profile,
    pod: &Pod,
    (nodes, loads): (&[Node], &BTreeMap<String, Load>),
    nominated: Option<&str>,
) -> Result<Choice, String> {
    let labels =
        |name: &str| BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]);
    let entries = NodeEntry::all(nodes, loads);
    let cluster = Cluster {
        profile,
        spread_selector: &|_| Selector::default(),
        nodes: entries.iter().filter_map(NodeEntry::info).collect(),
        namespace_labels: &labels,
        storage: None,
        devices: None,
    };
    let chosen = super::choose(pod, &cluster, nominated);
    chosen.map_err(|fit_error| {
        let planned = super::plan(pod, &cluster, &fit_error, &[]);
        fit_error.message(&planned.err().unwrap_or_default().message)
    })
}

#[test]
fn the_emptiest_node_wins_then_the_first_in_natural_order() {
    let nodes = [
        node("node-10", &json!({})),
        node("node-1", &json!({})),
        node("node-2", &json!({})),
    ];
    for (taken, expected) in [
        (&[][..], "node-1"),
        (&[("node-1", 1)][..], "node-2"),
        (&[("node-1", 1), ("node-2", 1)][..], "node-10"),
        (
            &[("node-1", 1), ("node-2", 2), ("node-10", 1)][..],
            "node-1",
        ),
    ] {
        let chosen = choose(&pod(json!({})), &nodes, &loads(taken));
        assert_eq!(chosen.as_deref(), Ok(expected));
    }
}

#[test]
fn refusals_are_counted_by_reason() {
    let taint = json!({ "taints": [{ "key": "gpu", "value": "x", "effect": "NoSchedule" }] });
    let nodes = [
        node("node-1", &json!({ "unschedulable": true })),
        node("node-2", &taint),
        node("node-3", &taint),
        node("node-4", &json!({})),
    ];
    let full = loads(&[("node-4", 3)]);
    let refused = choose(&pod(json!({})), &nodes, &full);
    let message = "0/4 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, \
        2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: \
        0/4 nodes are available: 1 No preemption victims found for incoming pod, \
        3 Preemption is not helpful for scheduling.";
    assert_eq!(refused, Err(message.to_owned()));
    for (toleration, expected) in [
        (json!({ "key": "gpu", "operator": "Exists" }), "node-2"),
        (
            json!({ "key": "gpu", "value": "x", "effect": "NoSchedule" }),
            "node-2",
        ),
        (json!({ "operator": "Exists" }), "node-1"),
    ] {
        let tolerant = pod(json!({ "tolerations": [toleration] }));
        assert_eq!(choose(&tolerant, &nodes, &full).as_deref(), Ok(expected));
    }
    let nowhere = choose(&pod(json!({})), &[], &full);
    assert_eq!(
        nowhere,
        Err("no nodes available to schedule pods".to_owned())
    );
}

#[test]
fn a_host_port_is_taken_once_per_node() {
    let wants = |ip: &str| {
        let port = json!({ "containerPort": 80, "hostPort": 80, "hostIP": ip });
        pod(json!({ "containers": [{ "name": "main", "ports": [port] }] }))
    };
    let nodes = [node("node-1", &json!({}))];
    let mut load = Load::default();
    load.add(&Arc::new(wants("10.0.0.1")));
    let loads = BTreeMap::from([("node-1".to_owned(), load)]);
    assert!(choose(&wants("10.0.0.2"), &nodes, &loads).is_ok());
    assert!(choose(&wants(""), &nodes, &loads).is_err());
}

/// Returns nodes `node-1` to `node-3` in the zones a, a and b.
fn zones() -> [Node; 3] {
    [("node-1", "a"), ("node-2", "a"), ("node-3", "b")].map(|(name, zone)| {
        from_value(json!({
            "metadata": { "name": name, "labels": { "zone": zone } },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } },
        }))
        .unwrap()
    })
}

fn labelled(app: &str, spec: Value) -> Pod {
    let mut pod = pod(spec);
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.labels = Some(BTreeMap::from([("app".to_owned(), app.to_owned())]));
    pod
}

fn running(pods: &[(&str, Pod)]) -> BTreeMap<String, Load> {
    let mut loads: BTreeMap<String, Load> = BTreeMap::new();
    for (node, pod) in pods {
        let load = loads.entry((*node).to_owned()).or_default();
        load.add(&Arc::new(pod.clone()));
    }
    loads
}

/// Returns the part of the scheduler's message about the nodes.
fn reasons(refused: Result<String, String>) -> String {
    let message = refused.unwrap_err();
    let (reasons, preemption) = message.split_once(". no new claims").unwrap();
    assert!(preemption.ends_with('.'), "{preemption}");
    reasons.to_owned()
}

#[test]
fn resources_run_out() {
    let wants = |cpu: &str, memory: &str| {
        let requests = json!({ "requests": { "cpu": cpu, "memory": memory } });
        pod(json!({ "containers": [{ "name": "main", "resources": requests }] }))
    };
    let loads = running(&[
        ("node-1", wants("3", "1Gi")),
        ("node-2", wants("3500m", "8Gi")),
    ]);
    let chosen = choose(&wants("500m", "1Gi"), &zones()[..2], &loads);
    assert_eq!(chosen.as_deref(), Ok("node-1"));
    let refused = choose(&wants("2", "1Gi"), &zones()[..2], &loads);
    let expected = "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu";
    assert_eq!(reasons(refused), expected);
    let preempting = choose(&wants("5", "1Gi"), &zones(), &loads).unwrap_err();
    let helpless = "0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert!(preempting.ends_with(helpless), "{preempting}");
}

fn term(app: &str) -> Value {
    json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": app } } })
}

#[test]
fn pods_seek_and_avoid_each_other() {
    let rule = |kind: &str, app: &str| {
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term(app)] });
        json!({ "affinity": { kind: required } })
    };
    let loads = running(&[
        ("node-1", labelled("db", json!({}))),
        ("node-3", labelled("web", rule("podAntiAffinity", "noisy"))),
    ]);
    for (pod, expected) in [
        (labelled("x", rule("podAffinity", "web")), "node-3"),
        (labelled("x", rule("podAffinity", "db")), "node-2"),
        (labelled("x", rule("podAntiAffinity", "db")), "node-3"),
        (labelled("noisy", json!({})), "node-2"),
        // A pod that alone meets its own affinity term can be the first.
        (labelled("new", rule("podAffinity", "new")), "node-2"),
    ] {
        let chosen = choose(&pod, &zones(), &loads);
        assert_eq!(chosen.as_deref(), Ok(expected), "{pod:?}");
    }
    let lonely = labelled("x", rule("podAffinity", "none"));
    let expected = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules";
    assert_eq!(reasons(choose(&lonely, &zones(), &loads)), expected);
    let noisy = labelled("noisy", rule("podAntiAffinity", "db"));
    let expected = "0/3 nodes are available: 1 node(s) didn't satisfy existing pods \
        anti-affinity rules, 2 node(s) didn't match pod anti-affinity rules";
    assert_eq!(reasons(choose(&noisy, &zones(), &loads)), expected);
}

#[test]
fn preferences_come_before_emptiness() {
    let toward = json!([{ "weight": 5, "podAffinityTerm": term("db") }]);
    let toward = json!({ "preferredDuringSchedulingIgnoredDuringExecution": toward });
    let loads = running(&[("node-3", labelled("db", json!({})))]);
    let pod = labelled("x", json!({ "affinity": { "podAffinity": toward } }));
    assert_eq!(choose(&pod, &zones(), &loads).as_deref(), Ok("node-3"));
    let key = json!({ "key": "zone", "operator": "In", "values": ["b"] });
    let term = json!([{ "weight": 1, "preference": { "matchExpressions": [key] } }]);
    let node = json!({ "preferredDuringSchedulingIgnoredDuringExecution": term });
    let pod = labelled("x", json!({ "affinity": { "nodeAffinity": node } }));
    assert_eq!(choose(&pod, &zones(), &loads).as_deref(), Ok("node-3"));
    let mut tainted = zones();
    tainted[2].spec = from_value(json!({
        "taints": [{ "key": "k", "effect": "PreferNoSchedule" }],
    }))
    .unwrap();
    assert_eq!(choose(&pod, &tainted, &loads).as_deref(), Ok("node-1"));
}

#[test]
fn pods_are_spread_over_zones() {
    let constraint = json!([{
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }]);
    let pod = labelled("web", json!({ "topologySpreadConstraints": constraint }));
    let loads = running(&[("node-1", labelled("web", json!({})))]);
    assert_eq!(choose(&pod, &zones(), &loads).as_deref(), Ok("node-3"));
    let mut cordoned = zones();
    cordoned[2].spec = from_value(json!({ "unschedulable": true })).unwrap();
    let expected = "0/3 nodes are available: 1 node(s) were unschedulable, \
        2 node(s) didn't match pod topology spread constraints";
    assert_eq!(reasons(choose(&pod, &cordoned, &loads)), expected);
}

#[test]
fn only_nodes_that_affinity_names_are_looked_at() {
    let field = json!({ "key": "metadata.name", "operator": "In", "values": ["node-9"] });
    let terms = json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
    let node = json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms });
    let pinned = pod(json!({ "affinity": { "nodeAffinity": node } }));
    let expected = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]";
    assert_eq!(
        reasons(choose(&pinned, &zones(), &BTreeMap::new())),
        expected
    );
}

#[test]
fn a_node_without_a_capacity_for_pods_takes_none() {
    let bare: Node = from_value(json!({ "metadata": { "name": "node-1" } })).unwrap();
    let refused = choose(&pod(json!({})), &[bare], &BTreeMap::new());
    assert_eq!(reasons(refused), "0/1 nodes are available: 1 Too many pods");
}

#[test]
fn terms_that_name_two_nodes_refuse_all() {
    let field = |name: &str| json!({ "key": "metadata.name", "operator": "In", "values": [name] });
    let terms = json!([{ "matchFields": [field("node-1"), field("node-2")] }]);
    let node =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
    let torn = pod(json!({ "affinity": { "nodeAffinity": node } }));
    let expected = "0/3 nodes are available: pod affinity terms conflict. not found";
    let refused = choose(&torn, &zones(), &BTreeMap::new());
    assert_eq!(refused, Err(expected.to_owned()));
}

#[test]
fn one_pod_has_to_meet_all_affinity_terms() {
    let version = json!({
        "topologyKey": "zone", "labelSelector": { "matchLabels": { "version": "v1" } },
    });
    let required =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term("db"), version] });
    let seeking = labelled("x", json!({ "affinity": { "podAffinity": required } }));
    let mut both = labelled("db", json!({}));
    let labels = both.metadata.labels.get_or_insert_default();
    labels.insert("version".to_string(), "v1".to_owned());
    let mut other = labelled("other", json!({}));
    other.metadata.labels.clone_from(&both.metadata.labels);
    other
        .metadata
        .labels
        .get_or_insert_default()
        .insert("app".to_string(), "other".to_owned());
    // In zone a two pods meet one term each.
    let apart = [("node-1", labelled("db", json!({}))), ("node-2", other)];
    let expected = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules";
    assert_eq!(
        reasons(choose(&seeking, &zones(), &running(&apart))),
        expected
    );
    let mut together = apart.to_vec();
    together.push(("node-3", both));
    let chosen = choose(&seeking, &zones(), &running(&together));
    assert_eq!(chosen.as_deref(), Ok("node-3"));
}

#[test]
fn a_spread_without_a_selector_counts_no_pod() {
    let loads = running(&[
        ("node-1", labelled("web", json!({}))),
        ("node-2", labelled("web", json!({}))),
    ]);
    let spread = |selector: &Value| {
        let mut constraint = json!({
            "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "nodeAffinityPolicy": "Ignore",
        });
        if !selector.is_null() {
            constraint["labelSelector"] = selector.clone();
        }
        let zone = json!({ "zone": "a" });
        let spec = json!({ "topologySpreadConstraints": [constraint], "nodeSelector": zone });
        choose(&labelled("web", spec), &zones(), &loads).is_ok()
    };
    assert!(spread(&Value::Null));
    assert!(spread(&json!({})));
    assert!(!spread(&json!({ "matchLabels": { "app": "web" } })));
}

#[test]
fn a_profile_says_which_filters_run() {
    let taint = json!({ "taints": [{ "key": "gpu", "value": "x", "effect": "NoSchedule" }] });
    let nodes = [node("node-1", &taint)];
    let none = loads(&[]);
    let by = |profile: &Profile| choose_by(profile, &pod(json!({})), &nodes, &none);
    let refused = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";
    let no_claims = "no new claims to deallocate";
    let unhelpful =
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    let mut profile = Profile::default();
    let both = format!("{refused} {no_claims}, {unhelpful}");
    assert_eq!(by(&profile), Err(both));
    profile.post_filter = vec![Plugin::DefaultPreemption, Plugin::DynamicResources];
    assert_eq!(
        by(&profile),
        Err(format!("{refused} {unhelpful}, {no_claims}"))
    );
    profile.post_filter = vec![Plugin::DynamicResources];
    assert_eq!(by(&profile), Err(format!("{refused} {no_claims}")));
    profile.post_filter.clear();
    assert_eq!(by(&profile), Err(refused.to_owned()));
    profile.filter.retain(|own| *own != Plugin::TaintToleration);
    assert_eq!(by(&profile).as_deref(), Ok("node-1"));
    profile.pre_filter.retain(|own| *own != Plugin::NodePorts);
    let error = "running \"NodePorts\" filter plugin: reading \"PreFilterNodePorts\" from cycleState: not found";
    assert_eq!(by(&profile), Err(error.to_owned()));
}

#[test]
fn an_error_of_a_filter_ends_the_search_for_victims() {
    let nodes = [node("node-1", &json!({}))];
    let important = pod(json!({ "priority": 10 }));
    let mut profile = Profile::default();
    let needed = Plugin::InterPodAffinity;
    profile.pre_filter.retain(|own| *own != needed);
    // The filter has its turn only once there is room for the pod.
    let message = "0/1 nodes are available: 1 Too many pods. preemption: running \
        \"InterPodAffinity\" filter plugin: error reading \"PreFilterInterPodAffinity\" from \
        cycleState: not found";
    let full = loads(&[("node-1", 3)]);
    let refused = choose_by(&profile, &important, &nodes, &full);
    assert_eq!(refused, Err(message.to_owned()));
}

#[test]
fn a_profile_adds_affinity_and_ignores_resources() {
    let nodes = [node("node-1", &json!({}))];
    let requests = json!({ "requests": { "example.com/gpu": "1" } });
    let gpu = pod(json!({ "containers": [{ "name": "main", "resources": requests }] }));
    let by = |profile: &Profile, pod: &Pod| choose_by(profile, pod, &nodes, &loads(&[]));
    let mut profile = Profile::default();
    profile.post_filter.clear();
    let lacking = "0/1 nodes are available: 1 Insufficient example.com/gpu.";
    assert_eq!(by(&profile, &gpu), Err(lacking.to_owned()));
    let group = "example.com".to_owned();
    profile.arguments.ignored_groups.insert(group);
    assert_eq!(by(&profile, &gpu).as_deref(), Ok("node-1"));
    profile.arguments.ignored_groups.clear();
    let name = "example.com/gpu".to_owned();
    profile.arguments.ignored_resources.insert(name);
    assert_eq!(by(&profile, &gpu).as_deref(), Ok("node-1"));
    let rule = json!({ "key": "zone", "operator": "In", "values": ["a"] });
    let terms = json!({ "nodeSelectorTerms": [{ "matchExpressions": [rule] }] });
    let added = json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms });
    profile.arguments.added_affinity = from_value(added).unwrap();
    let enforced =
        "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity.";
    assert_eq!(by(&profile, &pod(json!({}))), Err(enforced.to_owned()));
}

#[test]
fn a_large_cluster_is_not_looked_at_as_a_whole() {
    let mut profile = Profile::default();
    let mut feasible = |percentage: usize, nodes: usize| {
        profile.percentage_of_nodes_to_score = percentage;
        profile.feasible_nodes_to_find(nodes)
    };
    // The table of upstream's `TestNumFeasibleNodesToFind`, less what is below the least number.
    assert_eq!(feasible(0, 10), 100);
    assert_eq!(feasible(40, 10), 100);
    assert_eq!(feasible(0, 1_000), 420);
    assert_eq!(feasible(40, 1_000), 400);
    assert_eq!(feasible(0, 6_000), 300);
    assert_eq!(feasible(40, 6_000), 2_400);
    // The nodes after the first hundred are empty, too, and would win.
    let nodes: Vec<Node> = (1..=150)
        .map(|index| node(&format!("node-{index}"), &json!({})))
        .collect();
    let taken: Vec<(String, usize)> = (1..=100)
        .map(|index| (format!("node-{index}"), 1))
        .collect();
    let taken: Vec<(&str, usize)> = taken
        .iter()
        .map(|(name, count)| (&**name, *count))
        .collect();
    assert_eq!(
        choose(&pod(json!({})), &nodes, &loads(&taken)).as_deref(),
        Ok("node-1")
    );
    let all = Profile {
        percentage_of_nodes_to_score: 100,
        ..Profile::default()
    };
    let chosen = choose_by(&all, &pod(json!({})), &nodes, &loads(&taken));
    assert_eq!(chosen.as_deref(), Ok("node-101"));
}

#[test]
fn a_pod_that_names_its_node_is_not_held_up_by_others() {
    let nodes: Vec<Node> = (1..=150)
        .map(|index| node(&format!("node-{index}"), &json!({})))
        .collect();
    let field = json!({ "key": "metadata.name", "operator": "In", "values": ["node-140"] });
    let terms = json!([{ "matchFields": [field] }]);
    let required =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
    let pinned = pod(json!({ "affinity": { "nodeAffinity": required } }));
    assert_eq!(
        choose(&pinned, &nodes, &loads(&[])).as_deref(),
        Ok("node-140")
    );
    let refused = choose(&pinned, &nodes, &loads(&[("node-140", 3)])).unwrap_err();
    assert!(
        refused.starts_with("0/150 nodes are available: 1 Too many pods, 149 node(s) didn't"),
        "{refused}"
    );
}

#[test]
fn a_nominated_node_that_fits_ends_the_search() {
    let nodes: Vec<Node> = (1..=150)
        .map(|index| node(&format!("node-{index}"), &json!({})))
        .collect();
    let search = |taken: &[(&str, usize)], nominated| {
        let loads = loads(taken);
        let choice = choose_or_nominee(
            &Profile::default(),
            &pod(json!({})),
            (&nodes, &loads),
            nominated,
        );
        let choice = choice.unwrap();
        (choice.node, choice.examined)
    };
    assert_eq!(search(&[], Some("node-140")), ("node-140".to_owned(), 0));
    assert_eq!(search(&[], None), ("node-1".to_owned(), 100));
    // A full node counts as one that was looked at.
    let full = [("node-2", 3), ("node-140", 3)];
    assert_eq!(search(&full, Some("node-140")), ("node-1".to_owned(), 101));
}
