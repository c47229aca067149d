//! Runs portable scenarios on an existing cluster, and compares the final state.
//!
//! The controllers are the cluster's own and time is real. Times are therefore not compared, nor values that depend
//! on the time or the cluster: ages, how often an event was repeated, the storage class that the cluster chose.

mod cluster;
mod namespaces;

use std::collections::BTreeSet;
use std::time::Duration;

use kubeproof_controller::apps::statefulset::Settings;
use kubeproof_controller::kruise::Gates;
use serde_json::Value;

use super::cluster::Cluster;
use super::{RunError, prepare_within, take_steps};
use crate::outcome::portable_outcome;
use crate::scenario::{DEFAULT_NAMESPACE, Scenario, ScenarioFile, Step, Timings, Verb};

pub(super) use cluster::RemoteCluster;
pub use cluster::RemoteError;
pub use namespaces::{NamespaceError, Namespaces};

/// A cluster counts as settled after this long without a change, in real time; longer where pods have to be ready for
/// some time.
const QUIET: Duration = Duration::from_secs(4);
/// Scenarios that let more time pass are not run in real time.
const ADVANCE_MAX: Duration = Duration::from_secs(60);
/// The prefix of annotations that control simulated pods.
const DIRECTIVE: &str = "kubeproof.dev/";

/// Why `scenario` says nothing about a cluster that is there already; `None` when it does.
#[must_use]
pub fn unportable(scenario: &Scenario) -> Option<&'static str> {
    if !scenario.portable {
        return Some("not marked portable");
    }
    let given = &scenario.given;
    let has_gates = given
        .kruise()
        .is_some_and(|gates| gates != Gates::default());
    if given.statefulset() != Settings::default() || has_gates {
        return Some("asks for another version or a feature gate");
    }
    let own_time = given.timings != Timings::default();
    if given.namespace != DEFAULT_NAMESPACE || given.controllers.is_some() || own_time {
        return Some("asks for a namespace, controllers or a pace of its own");
    }
    if !given.same_images.lists().is_empty() {
        return Some("knows images under several names");
    }
    let steps = || given.steps.iter().chain(&scenario.steps);
    let manifests = steps().filter_map(|step| match &step.verb {
        Verb::Apply(manifest) | Verb::Create(manifest) => Some(manifest),
        _ => None,
    });
    let mut objects = given.objects.iter().chain(manifests);
    if objects.any(|manifest| manifest.objects.iter().any(is_elsewhere)) {
        return Some("has objects outside of one namespace");
    }
    let mut written = objects_of(scenario);
    if written.any(|object| object.to_string().contains(DIRECTIVE)) {
        return Some("tells simulated pods how to behave");
    }
    for step in steps() {
        match &step.verb {
            Verb::Pod(_) | Verb::Node(_) | Verb::Fault(_) | Verb::Lift(_) | Verb::Restart(_) => {
                return Some("makes pods, nodes or the server misbehave");
            }
            Verb::Containers(_) => return Some("looks at simulated nodes"),
            Verb::Kubectl(command) if command.starts_with("rollout restart") => {
                return Some("writes the time into a template");
            }
            _ => {}
        }
    }
    is_slow(scenario).then_some("lets much time pass")
}

/// Why `scenario` cannot be run in real time with a program as the controller; `None` when it can.
#[must_use]
pub fn unfit_for_program(scenario: &Scenario) -> Option<&'static str> {
    if scenario.given.statefulset() != Settings::default() {
        return Some("asks for another version or a feature gate of a controller of ours");
    }
    let mut steps = scenario.given.steps.iter().chain(&scenario.steps);
    let of_ours = |step: &Step| matches!(step.verb, Verb::Restart(_) | Verb::Node(_));
    if steps.any(of_ours) {
        return Some("lets nodes fail or controllers of ours start anew");
    }
    is_slow(scenario).then_some("lets much time pass")
}

/// Whether the scenario lets more time pass than a run in real time should take.
fn is_slow(scenario: &Scenario) -> bool {
    let steps = scenario.given.steps.iter().chain(&scenario.steps);
    let waits = steps.map(|step| match &step.verb {
        Verb::Advance(time) => time.0,
        _ => Duration::ZERO,
    });
    waits.sum::<Duration>() + min_ready(scenario) > ADVANCE_MAX
}

/// The longest time for which pods of the scenario have to be ready.
pub(super) fn min_ready(scenario: &Scenario) -> Duration {
    let waits = |object: &Value| min_ready_seconds(object).max(grace_seconds(object));
    let longest = objects_of(scenario).filter_map(waits).max();
    Duration::from_secs(longest.unwrap_or(0))
}

/// The objects that the scenario gives, creates and changes.
fn objects_of(scenario: &Scenario) -> impl Iterator<Item = &Value> {
    let steps = scenario.given.steps.iter().chain(&scenario.steps);
    let of_steps = steps.flat_map(|step: &Step| match &step.verb {
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

/// Whether the object is of a kind that has no namespace, or names another one.
fn is_elsewhere(object: &Value) -> bool {
    const KINDS: &[&str] = &[
        "CustomResourceDefinition",
        "Namespace",
        "Node",
        "PersistentVolume",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "StorageClass",
    ];
    let kind = object["kind"].as_str().unwrap_or_default();
    KINDS.contains(&kind) || !object["metadata"]["namespace"].is_null()
}

/// Runs `file` in a namespace of its own, one of `namespaces`, and returns the transcript. The namespace
/// is removed afterwards, whatever has happened; who drops this call calls [`Namespaces::remove_all`].
///
/// # Errors
/// [`RunError`] when a request is refused unexpectedly or the scenario never settles.
pub async fn run(
    file: &ScenarioFile,
    client: kube::Client,
    namespaces: &Namespaces,
) -> Result<String, RunError> {
    let mut scenario = file.scenario.clone();
    let name = file.name.rsplit('/').next().unwrap_or(&file.name);
    let namespace = format!("kubeproof-{name}");
    scenario.given.namespace.clone_from(&namespace);
    let quiet = QUIET + min_ready(&scenario);
    let failed = |source| RunError::Namespace {
        name: namespace.clone(),
        source,
    };
    let finalizers = finalizers(&scenario);
    let made = namespaces.make(&client, &namespace, finalizers).await;
    made.map_err(failed)?;
    let transcript = observe(&scenario, client.clone(), quiet).await;
    let removed = namespaces.remove(&client, &namespace).await;
    let transcript = transcript?;
    removed.map_err(failed)?;
    Ok(transcript.replace(&namespace, DEFAULT_NAMESPACE))
}

async fn observe(
    scenario: &Scenario,
    client: kube::Client,
    quiet: Duration,
) -> Result<String, RunError> {
    let remote = RemoteCluster::watch(client, &scenario.given.namespace, quiet).await?;
    let cluster = Cluster::Remote(&remote);
    let transcript = async {
        prepare_within(cluster, scenario).await?;
        take_steps(cluster, scenario, None, &mut Vec::new()).await
    };
    let transcript = transcript.await;
    remote.end().await;
    Ok(transcript?.text)
}

/// The finalizers that the scenario itself puts onto objects: no controller removes them.
fn finalizers(scenario: &Scenario) -> BTreeSet<String> {
    let written = objects_of(scenario).filter_map(|object| object.pointer("/metadata/finalizers"));
    let names = written.filter_map(Value::as_array).flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the part of a transcript of `scenario` that is compared with its golden: the facts that are equal on every
/// cluster.
#[must_use]
pub fn compared_outcome(scenario: &Scenario, transcript: &str) -> String {
    let retains = objects_of(scenario).any(|object| {
        object
            .pointer("/spec/persistentVolumeClaimRetentionPolicy")
            .is_some()
    });
    // A new claim gets its owner at once or, where the controller's cache does not show it yet, by an
    // update of the pod.
    let is_shown = |line: &&str| !retains || !line.contains(" SuccessfulUpdate Update Pod ");
    let is_certain = |line: &&str| !scenario.optional.iter().any(|one| one.line == *line);
    let outcome = portable_outcome(transcript);
    outcome
        .lines()
        .filter(is_shown)
        .filter(is_certain)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The optional lines of `scenario` that the transcript, its golden, does not have.
#[must_use]
pub fn stale_options<'a>(scenario: &'a Scenario, transcript: &str) -> Vec<&'a str> {
    let outcome = portable_outcome(transcript);
    let lines = scenario.optional.iter().map(|one| one.line.as_str());
    lines
        .filter(|line| !outcome.lines().any(|own| own == *line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(steps: &str) -> Scenario {
        let text = format!("title: t\nsource: s\nportable: true\nsteps: {steps}");
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn whether_a_claim_got_its_owner_late_is_not_compared() {
        let transcript =
            "# t\noutcome\n\n  events\n    ×1 Normal SuccessfulUpdate Update Pod web-0\n";
        let plain = compared_outcome(&parse("[]"), transcript);
        assert_eq!(plain, "events\nNormal SuccessfulUpdate Update Pod web-0");
        let patch = "{spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}}}";
        let retaining = parse(&format!(
            "[{{patch: {{target: statefulset/web, patch: {patch}}}}}]"
        ));
        assert_eq!(compared_outcome(&retaining, transcript), "events");
    }

    #[test]
    fn the_finalizers_of_a_scenario_are_those_that_it_writes() {
        let metadata = "{name: a, finalizers: [example.io/hold, example.io/other]}";
        let steps = format!("[{{create: {{kind: ConfigMap, metadata: {metadata}}}}}]");
        let found = finalizers(&parse(&steps));
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["example.io/hold", "example.io/other"]
        );
    }

    #[test]
    fn what_needs_the_simulation_is_not_portable() {
        assert_eq!(unportable(&parse("[{table: pods}]")), None);
        for wrong in [
            "[{restart: controllers}]",
            "[{advance: 2m}]",
            "[{create: {kind: Node, metadata: {name: n}}}]",
            "[{create: {kind: Pod, metadata: {annotations: {kubeproof.dev/ready: \"false\"}}}}]",
        ] {
            assert!(unportable(&parse(wrong)).is_some(), "{wrong}");
        }
    }
}
