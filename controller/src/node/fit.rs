//! Which node a pod goes to: a pure choice over the nodes and what runs on them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint, Toleration};

use super::affinity;

/// A host port as it is taken: protocol, address, port.
type HostPort = (String, String, i32);

/// What runs on a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) pods: usize,
    ports: BTreeSet<HostPort>,
}

impl Load {
    /// Counts a pod that holds a place on the node.
    pub(super) fn add(&mut self, pod: &Pod) {
        self.pods += 1;
        self.ports.extend(pod.spec.iter().flat_map(host_ports));
    }
}

/// Why a pod does not fit on a node, in the order the filters ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misfit {
    Cordoned,
    Tainted,
    Affinity,
    Ports,
    Full,
}

impl Misfit {
    fn message(self) -> &'static str {
        match self {
            Self::Cordoned => "node(s) were unschedulable",
            Self::Tainted => "node(s) had untolerated taint(s)",
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::Full => "Too many pods",
        }
    }
}

/// The node for `pod`: of those it fits on the one with the fewest pods, then the first.
///
/// # Errors
///
/// The message of the `FailedScheduling` event when it fits on none.
pub(super) fn choose<'a>(
    pod: &Pod,
    nodes: impl IntoIterator<Item = &'a Node>,
    loads: &BTreeMap<String, Load>,
) -> Result<String, String> {
    let idle = Load::default();
    let mut total = 0_usize;
    let mut refusals: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut best: Option<(usize, (usize, &str))> = None;
    for node in nodes {
        total += 1;
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let load = loads.get(name).unwrap_or(&idle);
        match misfit(pod, node, load) {
            Some(misfit) => *refusals.entry(misfit.message()).or_default() += 1,
            None => {
                let rank = (load.pods, natural(name));
                best = Some(best.map_or(rank, |best| best.min(rank)));
            }
        }
    }
    if let Some((_, (_, name))) = best {
        return Ok(name.to_owned());
    }
    if total == 0 {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let mut reasons: Vec<String> = refusals
        .iter()
        .map(|(message, count)| format!("{count} {message}"))
        .collect();
    reasons.sort();
    Err(format!(
        "0/{total} nodes are available: {}.",
        reasons.join(", ")
    ))
}

/// Orders `node-2` before `node-10`.
fn natural(name: &str) -> (usize, &str) {
    (name.len(), name)
}

fn misfit(pod: &Pod, node: &Node, load: &Load) -> Option<Misfit> {
    let spec = pod.spec.as_ref()?;
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let node_spec = node.spec.as_ref();
    if node_spec.and_then(|spec| spec.unschedulable) == Some(true) {
        let cordon = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if !tolerated(&cordon, tolerations) {
            return Some(Misfit::Cordoned);
        }
    }
    let taints = node_spec
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let mut strict = taints
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule");
    if !strict.all(|taint| tolerated(taint, tolerations)) {
        return Some(Misfit::Tainted);
    }
    if !affinity::matches(spec, node) {
        return Some(Misfit::Affinity);
    }
    if host_ports(spec)
        .iter()
        .any(|port| load.ports.iter().any(|taken| conflict(port, taken)))
    {
        return Some(Misfit::Ports);
    }
    let places = node
        .status
        .as_ref()
        .and_then(|status| status.allocatable.as_ref()?.get("pods"));
    let places = places.and_then(|places| places.0.parse::<usize>().ok());
    places
        .is_some_and(|places| load.pods >= places)
        .then_some(Misfit::Full)
}

/// Whether any of `tolerations` tolerates the taint.
pub(crate) fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations
        .iter()
        .any(|toleration| tolerates(toleration, taint))
}

/// Whether `toleration` tolerates `taint`.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = |value: &Option<String>| value.clone().unwrap_or_default();
    let matched = match toleration.operator.as_deref() {
        // Without a key, Exists tolerates everything.
        Some("Exists") => key.is_empty() || key == taint.key,
        _ => key == taint.key && value(&toleration.value) == value(&taint.value),
    };
    matched && (effect.is_empty() || effect == taint.effect)
}

fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let taken = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        let address = port.host_ip.clone().unwrap_or_default();
        Some((protocol, address, number))
    });
    taken.collect()
}

fn conflict(one: &HostPort, other: &HostPort) -> bool {
    let any = |address: &str| address.is_empty() || address == "0.0.0.0";
    let addresses = one.1 == other.1 || any(&one.1) || any(&other.1);
    one.0 == other.0 && one.2 == other.2 && addresses
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, spec: &Value) -> Node {
        serde_json::from_value(json!({
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
        serde_json::from_value(json!({ "metadata": { "name": "web-0" }, "spec": spec })).unwrap()
    }

    fn loads(pods: &[(&str, usize)]) -> BTreeMap<String, Load> {
        let load = |pods| Load {
            pods,
            ..Load::default()
        };
        pods.iter()
            .map(|(name, pods)| ((*name).to_owned(), load(*pods)))
            .collect()
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
            2 node(s) had untolerated taint(s).";
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
        let nowhere = choose(&pod(json!({})), [], &full);
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
        load.add(&wants("10.0.0.1"));
        let loads = BTreeMap::from([("node-1".to_owned(), load)]);
        assert!(choose(&wants("10.0.0.2"), &nodes, &loads).is_ok());
        assert!(choose(&wants(""), &nodes, &loads).is_err());
    }
}
