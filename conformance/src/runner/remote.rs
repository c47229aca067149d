//! Runs portable scenarios on an existing cluster, and compares the final state.
//!
//! The controllers are the cluster's own and time is real. Times are therefore not compared, nor values that depend
//! on the time or the cluster: ages, how often an event was repeated, the storage class that the cluster chose.

mod namespaces;

use std::collections::BTreeSet;
use std::time::Duration;

use kubeproof_machinery::json::Value;

use super::cluster::Cluster;
use super::fitness::objects_of;
use super::remote_cluster::RemoteCluster;
use super::{RunError, prepare_within, take_steps};
use crate::outcome::portable_outcome;
use crate::recording::{Observed, Recording};
use crate::scenario::{Scenario, ScenarioFile, Verb};

pub use super::fitness::{
    LONGEST, asks_kubelets, changes_nodes, needs_own_nodes, time_of, unfit_for_program, unportable,
};
pub use super::pauses::Pauses;
pub use super::remote_cluster::RemoteError;
pub use super::target::{OwnNodes, Target};
pub use namespaces::{NamespaceError, Namespaces};

/// A cluster counts as settled after this long without a change, in real time; longer where a run in process has longer
/// pauses.
pub const QUIET: Duration = Duration::from_secs(4);

/// The result of a run on a cluster.
#[derive(Debug)]
pub struct RemoteRun {
    /// The transcript.
    pub transcript: String,
    /// The recording of the control plane.
    pub recording: Recording,
}

/// Runs `file` in a namespace of its own, one of `namespaces`. The cluster has settled when it has written nothing for the
/// time of `target` after the longest of `pauses` in the step. The namespace is removed afterwards, whatever has
/// happened; who drops this call calls [`Namespaces::remove_all`].
///
/// # Errors
/// [`RunError`] when a request is refused unexpectedly or the scenario never settles.
pub async fn run(
    file: &ScenarioFile,
    target: &Target,
    namespaces: &Namespaces,
    pauses: &Pauses,
) -> Result<RemoteRun, RunError> {
    let mut scenario = file.scenario.clone();
    let name = file.name.rsplit('/').next().unwrap_or(&file.name);
    let namespace = format!("kubeproof-{name}");
    let stated = std::mem::replace(&mut scenario.given.namespace, namespace.clone());
    rename(&mut scenario, &stated, &namespace);
    let client = &target.client;
    let failed = |source| RunError::Namespace {
        name: namespace.clone(),
        source,
    };
    let finalizers = finalizers(&scenario);
    let made = namespaces.make(client, &namespace, finalizers).await;
    made.map_err(failed)?;
    let ended = observe(&scenario, target, pauses, &file.scenario.given.namespace).await;
    let removed = namespaces.remove(client, &namespace).await;
    let mut run = ended?;
    removed.map_err(failed)?;
    let given = &file.scenario.given.namespace;
    run.transcript = run.transcript.replace(&namespace, given);
    Ok(run)
}

/// Lets steps that delete or patch the namespace `stated` do that to `own` instead.
fn rename(scenario: &mut Scenario, stated: &str, own: &str) {
    for step in scenario.given.steps.iter_mut().chain(&mut scenario.steps) {
        let target = match &mut step.verb {
            Verb::Delete(delete) => &mut delete.target,
            Verb::Patch(patch) => &mut patch.target,
            _ => continue,
        };
        if target.resource == "namespace" && target.name == stated {
            own.clone_into(&mut target.name);
        }
    }
}

async fn observe(
    scenario: &Scenario,
    target: &Target,
    pauses: &Pauses,
    stated: &str,
) -> Result<RemoteRun, RunError> {
    let namespace = &scenario.given.namespace;
    let remote = RemoteCluster::watch(target, namespace, pauses.clone()).await?;
    let cluster = Cluster::Remote(&remote);
    let mut steps = Vec::new();
    let transcript = async {
        prepare_within(cluster, scenario).await?;
        // The first step begins after everything that is given.
        cluster.caught_up().await?;
        take_steps(cluster, scenario, None, &mut steps).await
    };
    let transcript = transcript.await;
    let journal = remote.journal();
    remote.end().await;
    let observed = Observed {
        journal: &journal,
        steps: &steps,
        namespace,
        stated,
    };
    Ok(RemoteRun {
        transcript: transcript?.text,
        recording: Recording::of(&scenario.title, observed),
    })
}

/// The finalizers that the scenario itself puts onto objects: no controller removes them.
fn finalizers(scenario: &Scenario) -> BTreeSet<String> {
    let places = ["/metadata/finalizers", "/spec/template/metadata/finalizers"];
    let written = objects_of(scenario)
        .flat_map(|object| places.map(|place| object.pointer(place)))
        .flatten();
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
    use crate::scenario::Step;

    fn parse(steps: &str) -> Scenario {
        let text = format!("title: t\nsource: s\nsteps: {steps}");
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
        let template = "{kind: ReplicaSet, spec: {template: {metadata: {finalizers: [a.io/b]}}}}";
        let found = finalizers(&parse(&format!("[{{create: {template}}}]")));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a.io/b"]);
    }

    #[test]
    fn a_scenario_that_deletes_its_namespace_deletes_the_one_of_the_run() {
        let mut scenario =
            parse("[{delete: {target: namespace/shop}}, {delete: {target: pod/shop}}]");
        rename(&mut scenario, "shop", "kubeproof-a");
        let words = scenario.steps.iter().map(Step::in_words);
        assert_eq!(
            words.collect::<Vec<_>>(),
            ["delete namespace kubeproof-a", "delete pod shop"]
        );
    }
}
