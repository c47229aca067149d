use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::decode::from_value;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

use super::*;
use crate::fit::{NodeEntry, Profile, choose};

fn node(name: &str) -> Node {
    let allocatable = json!({ "cpu": "8", "pods": "110" });
    let node = json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } });
    from_value(node).unwrap()
}

/// A pod with this priority and this CPU request.
fn pod(name: &str, priority: i32, cpu: u32) -> Value {
    let requests = json!({ "requests": { "cpu": cpu.to_string() } });
    json!({
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "priority": priority, "containers": [{ "name": "c", "resources": requests }] },
    })
}

fn since(mut pod: Value, second: u32) -> Value {
    pod["status"] = json!({ "startTime": format!("2026-01-01T00:00:{second:02}Z") });
    pod
}

fn budget(app: &str, allowed: i32) -> Arc<PodDisruptionBudget> {
    let budget = json!({
        "metadata": { "name": app, "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": app } } },
        "status": { "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1 },
    });
    Arc::new(from_value(budget).unwrap())
}

/// Runs a preemption for a pod of priority 100 that requests 4 CPUs. Returns the node and the
/// victims, or the message.
fn outcome(nodes: &[Vec<Value>], budgets: &[Arc<PodDisruptionBudget>]) -> String {
    let names: Vec<String> = (1..=nodes.len())
        .map(|index| format!("node-{index}"))
        .collect();
    let machines: Vec<Node> = names.iter().map(|name| node(name)).collect();
    let mut loads: BTreeMap<String, Load> = BTreeMap::new();
    for (name, pods) in names.iter().zip(nodes) {
        let load = loads.entry(name.clone()).or_default();
        for pod in pods {
            load.add(&Arc::new(from_value(pod).unwrap()));
        }
    }
    let entries = NodeEntry::all(&machines, &loads);
    let cluster = Cluster {
        profile: &Profile::default(),
        spread_selector: &|_| Selector::default(),
        nodes: entries.iter().filter_map(NodeEntry::info).collect(),
        namespace_labels: &|_| BTreeMap::new(),
        storage: None,
        devices: None,
    };
    let preemptor: Pod = from_value(pod("new", 100, 4)).unwrap();
    let fit_error = choose(&preemptor, &cluster, None).unwrap_err();
    match preempt(&preemptor, &cluster, &fit_error, budgets) {
        Ok(plan) => {
            let victims: Vec<String> = plan.victims.iter().map(|pod| pod.name_any()).collect();
            format!("{}: {}", plan.node, victims.join(" "))
        }
        Err(refused) => refused.message,
    }
}

#[test]
fn the_least_important_pods_leave_and_no_more_than_must() {
    let pods = vec![
        since(pod("a", 10, 2), 1),
        since(pod("b", 10, 2), 2),
        since(pod("c", 20, 2), 3),
        since(pod("d", 200, 2), 4),
    ];
    // Of two equally important pods, the younger is evicted first; here both have to leave.
    assert_eq!(outcome(&[pods], &[]), "node-1: a b");
    let roomy = vec![since(pod("a", 10, 3), 1), since(pod("b", 10, 3), 2)];
    assert_eq!(outcome(&[roomy], &[]), "node-1: b");
}

#[test]
fn the_node_that_loses_least_is_chosen() {
    let one = |name: &str, priority: i32| vec![pod(name, priority, 8)];
    assert_eq!(outcome(&[one("a", 20), one("b", 10)], &[]), "node-2: b");
    // A budget without allowed disruptions outweighs priorities.
    let budgets = [budget("b", 0)];
    assert_eq!(
        outcome(&[one("a", 20), one("b", 10)], &budgets),
        "node-1: a"
    );
    let budgets = [budget("b", 1)];
    assert_eq!(
        outcome(&[one("a", 20), one("b", 10)], &budgets),
        "node-2: b"
    );
    let two = vec![pod("a", 10, 4), pod("x", 10, 4)];
    let three = vec![pod("b", 10, 3), pod("y", 10, 3), pod("z", 10, 2)];
    assert_eq!(outcome(&[three, two], &[]), "node-2: x");
    let old = vec![since(pod("a", 10, 8), 1)];
    let young = vec![since(pod("b", 10, 8), 9)];
    assert_eq!(outcome(&[old, young], &[]), "node-2: b");
}

#[test]
fn a_budget_protects_a_pod_as_long_as_another_can_go() {
    let pods = || vec![since(pod("a", 10, 4), 1), since(pod("b", 10, 4), 2)];
    assert_eq!(outcome(&[pods()], &[]), "node-1: b");
    assert_eq!(outcome(&[pods()], &[budget("b", 0)]), "node-1: a");
}

#[test]
fn without_victims_the_message_says_why() {
    let higher = vec![pod("a", 100, 8)];
    let mixed = vec![pod("a", 100, 6), pod("b", 1, 1)];
    let message = outcome(&[higher, mixed], &[]);
    let expected = "0/2 nodes are available: 1 Insufficient cpu, \
                    1 No preemption victims found for incoming pod.";
    assert_eq!(message, expected);
}
