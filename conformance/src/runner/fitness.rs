//! Which scenarios a cluster that exists already can run, and what it needs for them.

use std::time::Duration;

use kubeproof_controller::apps::statefulset::Settings;
use kubeproof_controller::autoscaling::horizontal;
use kubeproof_controller::kruise::Gates;
use kubeproof_machinery::json::Value;

use crate::scenario::{Scenario, Step, Target, Timings, Verb};
use crate::testbed::ProgramTime;

/// Scenarios that let more time pass are run in real time only on request.
pub const LONGEST: Duration = Duration::from_secs(60);
/// The part of annotations that control simulated pods.
const DIRECTIVE: &str = "kubeproof.dev/";
/// Kinds without a namespace.
const CLUSTER_KINDS: &[&str] = &[
    "CustomResourceDefinition",
    "Namespace",
    "Node",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "StorageClass",
];
/// Returns why no cluster that exists already can run `scenario`; `None` when one can, with the simulated nodes of the
/// run if [`needs_own_nodes`].
#[must_use]
pub fn unportable(scenario: &Scenario) -> Option<&'static str> {
    let given = &scenario.given;
    let has_gates = given
        .kruise()
        .is_some_and(|gates| gates != Gates::default());
    if given.statefulset() != Settings::default() || has_gates {
        return Some("asks for another version or a feature gate");
    }
    let controllers = given.controllers.as_ref();
    if controllers.is_some_and(|chosen| !chosen.leaves_out()) {
        return Some("chooses the controllers");
    }
    if given.load_balancers.is_some() {
        return Some("has a cloud of its own");
    }
    if given.scheduler_config.is_some() {
        return Some("configures the scheduler");
    }
    if given.metrics.is_some() {
        return Some("chooses the metrics APIs");
    }
    let mut all = given.objects.iter().flat_map(|manifest| &manifest.objects);
    if all.any(super::is_live) {
        return Some("begins with the objects of another cluster");
    }
    if scenario.faults.is_some() {
        return Some("makes the server misbehave");
    }
    let manifests = steps(scenario).filter_map(|step| match &step.verb {
        Verb::Apply(manifest) | Verb::Create(manifest) => Some(manifest),
        _ => None,
    });
    let mut objects = given.objects.iter().chain(manifests);
    if objects.any(|manifest| manifest.objects.iter().any(is_elsewhere)) {
        return Some("has objects outside of one namespace");
    }
    let is_scaled = controllers.is_none_or(|chosen| chosen.has(horizontal::NAME));
    if is_scaled && objects_of(scenario).any(|object| object["kind"] == "HorizontalPodAutoscaler") {
        return Some("reads the metrics of simulated containers");
    }
    steps(scenario).find_map(|step| match &step.verb {
        Verb::Fault(_) | Verb::Lift(_) => Some("makes the server misbehave"),
        Verb::Metric(_) => Some("puts values of metrics"),
        Verb::Restart(_) => Some("restarts the controllers"),
        Verb::Kubectl(command) if command.starts_with("rollout restart") => {
            Some("writes the time into a template")
        }
        _ => None,
    })
}

/// Whether the scenario can only be run with simulated nodes that belong to the run: it says how pods or nodes behave,
/// or it has no nodes, or its pods use devices, whose drivers real nodes lack.
#[must_use]
pub fn needs_own_nodes(scenario: &Scenario) -> bool {
    let given = &scenario.given;
    let directs = |object: &Value| object.to_string().contains(DIRECTIVE);
    let of_nodes = |step: &Step| {
        matches!(
            step.verb,
            Verb::Pod(_) | Verb::Node(_) | Verb::Containers(_)
        )
    };
    given.timings != Timings::default()
        || given.nodes == 0 && objects_of(scenario).any(has_pods)
        || !given.same_images.lists().is_empty()
        || !given.missing_images.patterns().is_empty()
        || objects_of(scenario).any(directs)
        || objects_of(scenario).any(has_devices)
        || steps(scenario).any(of_nodes)
}

/// Whether the scenario asks a kubelet for logs or for programs in containers. The API server connects to the node's
/// port for that, and simulated nodes have none.
#[must_use]
pub fn asks_kubelets(scenario: &Scenario) -> bool {
    let asked = |command: &str| command.starts_with("logs ") || command.starts_with("exec ");
    steps(scenario).any(|step| matches!(&step.verb, Verb::Kubectl(command) if asked(command)))
}

/// Whether the object is, or makes, pods with ResourceClaims.
fn has_devices(object: &Value) -> bool {
    let paths = [
        "/spec",
        "/spec/template/spec",
        "/spec/jobTemplate/spec/template/spec",
    ];
    let mut specs = paths.iter().filter_map(|path| object.pointer(path));
    specs.any(|spec| spec["resourceClaims"].is_array())
}

/// Whether pods come of the object.
fn has_pods(object: &Value) -> bool {
    let spec = &object["spec"];
    object["kind"] == "Pod" || spec["template"].is_object() || spec["jobTemplate"].is_object()
}

/// Whether the scenario changes nodes, so that no other can run meanwhile.
#[must_use]
pub fn changes_nodes(scenario: &Scenario) -> bool {
    let is_node = |target: &Target| matches!(target.resource.as_str(), "node" | "nodes");
    steps(scenario).any(|step| match &step.verb {
        Verb::Node(_) => true,
        Verb::Patch(patch) => is_node(&patch.target),
        Verb::Update(update) => is_node(&update.target),
        Verb::Delete(delete) => is_node(&delete.target),
        _ => false,
    })
}

/// Returns why `scenario` cannot be run with a program as the controller; `None` when it can.
#[must_use]
pub fn unfit_for_program(scenario: &Scenario, time: ProgramTime) -> Option<&'static str> {
    if scenario.given.statefulset() != Settings::default() {
        return Some("asks for another version or a feature gate of a controller of ours");
    }
    let of_ours = |step: &Step| matches!(step.verb, Verb::Restart(_) | Verb::Node(_));
    if steps(scenario).any(of_ours) {
        return Some("lets nodes fail or controllers of ours start anew");
    }
    let takes_long = time == ProgramTime::Real && time_of(scenario) > LONGEST;
    takes_long.then_some("lets much time pass")
}

/// Returns the time that the scenario lets pass.
#[must_use]
pub fn time_of(scenario: &Scenario) -> Duration {
    let waits = steps(scenario).map(|step| match &step.verb {
        Verb::Advance(time) => time.0,
        _ => Duration::ZERO,
    });
    waits.sum::<Duration>() + min_ready(scenario)
}

fn steps(scenario: &Scenario) -> impl Iterator<Item = &Step> {
    scenario.given.steps.iter().chain(&scenario.steps)
}

/// The longest time for which pods of the scenario have to be ready.
pub(super) fn min_ready(scenario: &Scenario) -> Duration {
    let waits = |object: &Value| min_ready_seconds(object).max(grace_seconds(object));
    let longest = objects_of(scenario).filter_map(waits).max();
    Duration::from_secs(longest.unwrap_or(0))
}

/// The objects that the scenario gives, creates and changes.
pub(super) fn objects_of(scenario: &Scenario) -> impl Iterator<Item = &Value> {
    let of_steps = steps(scenario).flat_map(|step: &Step| match &step.verb {
        Verb::Apply(manifest) | Verb::Create(manifest) => manifest.objects.iter().collect(),
        Verb::Patch(patch) => vec![&patch.patch],
        Verb::Update(update) => vec![&update.object],
        _ => Vec::new(),
    });
    let given = scenario.given.objects.iter();
    given.flat_map(|manifest| &manifest.objects).chain(of_steps)
}

fn min_ready_seconds(object: &Value) -> Option<u64> {
    let spec = object.get("spec")?;
    let of_rollout = "/updateStrategy/rollingUpdate/minReadySeconds";
    let stated = spec
        .get("minReadySeconds")
        .or_else(|| spec.pointer(of_rollout));
    stated?.as_u64()
}

/// The time that a pod of OpenKruise's workloads waits before it is updated.
fn grace_seconds(object: &Value) -> Option<u64> {
    let strategy = object.pointer("/spec/updateStrategy")?;
    let block = strategy.get("rollingUpdate").unwrap_or(strategy);
    block
        .pointer("/inPlaceUpdateStrategy/gracePeriodSeconds")?
        .as_u64()
}

/// Whether the object is of a kind that has no namespace, or names another one than scenarios do.
fn is_elsewhere(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    CLUSTER_KINDS.contains(&kind) || !object["metadata"]["namespace"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(steps: &str) -> Scenario {
        let text = format!("title: t\nsource: s\nsteps: {steps}");
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn what_needs_the_simulated_server_is_not_portable() {
        assert_eq!(unportable(&parse("[{table: pods}]")), None);
        for wrong in [
            "[{restart: controllers}]",
            "[{lift: a}]",
            "[{create: {kind: Node, metadata: {name: n}}}]",
            "[{create: {kind: Pod, metadata: {namespace: other}}}]",
        ] {
            assert!(unportable(&parse(wrong)).is_some(), "{wrong}");
        }
    }

    #[test]
    fn what_says_how_pods_and_nodes_behave_needs_nodes_of_the_run() {
        assert!(!needs_own_nodes(&parse("[{table: pods}]")));
        for own in [
            "[{pod: {name: a, ready: false}}]",
            "[{node: {down: node-1}}]",
            "[{containers: a}]",
            "[{create: {kind: Pod, metadata: {annotations: {kubeproof.dev/ready: \"false\"}}}}]",
            "[{create: {kind: Pod, spec: {resourceClaims: [{name: gpu}]}}}]",
            "[{create: {kind: Job, spec: {template: {spec: {resourceClaims: [{name: gpu}]}}}}}]",
        ] {
            let scenario = parse(own);
            assert!(needs_own_nodes(&scenario), "{own}");
            assert_eq!(unportable(&scenario), None, "{own}");
        }
        assert!(changes_nodes(&parse("[{node: {drain: node-1}}]")));
        let labels = "[{patch: {target: node/node-1, patch: {metadata: {labels: {disk: ssd}}}}}]";
        assert!(changes_nodes(&parse(labels)));
        assert!(asks_kubelets(&parse("[{kubectl: logs web-0}]")));
        assert!(!asks_kubelets(&parse("[{kubectl: get pods}]")));
    }
}
