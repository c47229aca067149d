//! `kubeproof explore` branches its runs off one run: each comes to what a run of its own comes to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Output;

use kubeproof::explore::{self, Kind, Options, Reference};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;
use serde_json::{Value, json};

use crate::support::process::{file, output, stdout};

/// Two writes after another that differ when they fail, and a pair of whose faults both strike.
const KINDS: [&str; 3] = ["crash-after", "stale-restart", "refuse"];
const PAIRS: usize = 6;
const FROM: &str = "statefulset-controller";
/// A scenario in which a webhook of OpenKruise is asked about a pod.
const KRUISE: &str = "
title: a pod is created
source: none
given:
  kruise: true
  objects:
  - apiVersion: apps.kruise.io/v1alpha1
    kind: CloneSet
    metadata: {name: sample}
    spec:
      replicas: 0
      selector: {matchLabels: {app: a}}
      template:
        metadata: {labels: {app: a}, annotations: {apps.kruise.io/container-launch-priority: Ordered}}
        spec: {containers: [{name: a, image: nginx}]}
steps:
- scale: {target: cloneset/sample, replicas: 1}
";

/// A scenario that differs with some faults and does not say why.
pub(crate) fn unexplained(directory: &str) -> PathBuf {
    let original = suite::scenarios_dir().join("statefulset/sts-revision-collision.yaml");
    let text = std::fs::read_to_string(original).unwrap();
    let (before, entries) = text.split_once("\ndiffers:").unwrap();
    let lines = entries.split_inclusive('\n').skip(1);
    let after: String = lines
        .skip_while(|line| line.starts_with([' ', '-']))
        .collect();
    let scenario = format!("{before}\n{after}");
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/");
    let scenario = scenario.replace("../../../fixtures/", fixtures);
    file(&format!("{directory}/unexplained.yaml"), &scenario)
}

/// A rollout in the middle of which the scenario ends.
const ROLLOUT: &str = "
title: the first two pods are there
source: none
given: {nodes: 1}
steps:
- create:
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: web}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: nginx}]}
  settle: false
- advance: 3s
- table: pods
";

#[test]
fn a_delay_in_the_middle_of_a_rollout_is_no_difference() {
    let file = ScenarioFile::parse("rollout/middle".to_owned(), ROLLOUT.to_owned(), |file| {
        unreachable!("{file}")
    });
    let scenario = file.unwrap().scenario;
    let reference = Reference::of(&scenario).unwrap();
    let missed = "miss ADDED statefulsets.apps web from statefulset-controller";
    let options = RunOptions {
        plan: missed.parse().unwrap(),
        ..RunOptions::default()
    };
    let carried = explore::carry_out(&scenario, &reference, &options);
    assert_eq!(carried.unmet, []);
    assert_eq!(carried.divergence, None);
}

#[test]
fn a_provisioner_that_crashes_makes_the_volume_when_it_is_back() {
    let path = suite::scenarios_dir().join("statefulset/default-storage-class.yaml");
    let scenario = ScenarioFile::read(&path).unwrap().scenario;
    let reference = Reference::of(&scenario).unwrap();
    let options = Options {
        kinds: [Kind::CrashBefore].into(),
        from: ["local-path-provisioner".to_owned()].into(),
        pairs_max: 0,
    };
    let plans = reference.plans(&options);
    let creates = plans.iter().map(ToString::to_string);
    assert!(
        creates
            .into_iter()
            .any(|plan| plan.contains("create persistentvolumes "))
    );
    for plan in plans {
        assert_eq!(
            explore::explore(&scenario, &reference, &plan),
            None,
            "{plan}"
        );
    }
}

#[test]
fn an_exploration_ends_with_the_first_difference_if_asked_to() {
    let path = unexplained("fail-fast");
    let path = path.to_str().unwrap();
    let kinds = KINDS.join(",");
    let explore = ["explore", path, "--from", FROM, "--faults", &kinds];
    let all = stdout(&output(&explore));
    let first = all.lines().next().unwrap();
    let ran = output(&[&explore[..], &["--fail-fast"]].concat());
    assert_eq!(ran.status.code(), Some(1));
    let out = stdout(&ran);
    assert_eq!(out.lines().next(), Some(first));
    assert_eq!(out.matches("DIFF ").count(), 1, "{out}");
    let runs = |out: &str| -> u32 {
        let last = out.lines().last().unwrap();
        last.split(' ').next().unwrap().parse().unwrap()
    };
    assert!(out.ends_with(" runs, 1 diverged\n"), "{out}");
    assert!(runs(&out) < runs(&all), "{out}");
}

#[test]
fn an_exploration_is_written_for_junit() {
    let path = unexplained("explored-junit");
    let xml = path.with_extension("xml");
    let (path, xml) = (path.to_str().unwrap(), xml.to_str().unwrap());
    let faults = ["--faults", "conflict,refuse,stale-restart"];
    let explore = ["explore", path, "--from", FROM, "--junit", xml];
    let ran = output(&[&explore[..], &faults].concat());
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let xml = std::fs::read_to_string(xml).unwrap();
    let cases: Vec<(&str, bool)> = xml
        .lines()
        .filter_map(|line| {
            let case = r#"<testcase classname="explored-junit/unexplained" name=""#;
            let (name, _) = line.strip_prefix(case)?.split_once('"')?;
            Some((name, line.contains("<failure message=\"")))
        })
        .collect();
    // The difference was found with another kind first.
    let wanted = [
        ("conflict", false),
        ("refuse", true),
        ("stale-restart", true),
    ];
    assert_eq!(cases, wanted, "{xml}");
    assert!(xml.contains("as with faults of another kind"), "{xml}");
    assert!(xml.contains("replay: kubeproof explore "), "{xml}");
    assert!(xml.starts_with("<?xml"), "{xml}");
}

#[test]
fn a_branch_comes_to_what_a_run_of_its_own_comes_to() {
    let path = unexplained("branches");
    let options = Options {
        kinds: KINDS.iter().map(|kind| kind.parse().unwrap()).collect(),
        from: [FROM.to_owned()].into(),
        pairs_max: PAIRS,
    };
    let alone = each_alone(&ScenarioFile::read(&path).unwrap(), &options);
    assert!(
        alone
            .iter()
            .any(|divergence| divergence["plan"].as_str().unwrap().contains("; "))
    );
    let (kinds, pairs) = (KINDS.join(","), PAIRS.to_string());
    let path = path.to_str().unwrap();
    let mut ran = vec!["explore", path, "--json", "--seeds", "1", "--from", FROM];
    ran.extend(["--faults", &kinds, "--pairs", &pairs]);
    let ran = output(&ran);
    let lines = stdout(&ran);
    let (lines, numbers) = lines.trim_end().rsplit_once('\n').unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, alone);
    let numbers: Value = serde_json::from_str(numbers).unwrap();
    assert_eq!(numbers["summary"]["diverged"], alone.len());
}

/// Explores conflicts in a scenario with this entry of `differs`.
fn with_entry(directory: &str, with: &str, flags: &[&str]) -> Output {
    let path = unexplained(directory);
    let text = std::fs::read_to_string(&path).unwrap();
    let entry = format!("{text}\ndiffers: [{{with: {with}, because: it is tried here}}]\n");
    std::fs::write(&path, entry).unwrap();
    let path = path.to_str().unwrap();
    let explore = ["explore", path, "--from", FROM, "--faults", "conflict"];
    output(&[&explore[..], flags].concat())
}

#[test]
fn an_entry_that_explains_nothing_fails() {
    let unneeded = format!("{{fault: conflict, verb: update, from: {FROM}}}");
    let ran = with_entry("unneeded", &unneeded, &[]);
    let out = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1), "{out}");
    let stale = format!(
        "STALE unneeded/unexplained: differs with `conflict update from {FROM}`: this explains no run"
    );
    assert!(out.contains(&stale), "{out}");
    assert!(
        out.ends_with("0 diverged, 1 unneeded in `differs`\n"),
        "{out}"
    );
}

#[test]
fn an_entry_about_faults_that_are_not_tried_is_not_judged() {
    let of = |fault: &str| format!("{{fault: {fault}, verb: update, from: {FROM}}}");
    let few = ["--points", "1"];
    for (directory, with, flags) in [
        ("other-fault", of("refuse"), &[][..]),
        (
            "other-client",
            "{fault: conflict, verb: update}".to_owned(),
            &[],
        ),
        ("few-points", of("conflict"), &few),
    ] {
        let ran = with_entry(directory, &with, flags);
        assert!(ran.status.success(), "{}", stdout(&ran));
    }
}

/// The divergences of all plans in the orders of the seeds 0 and 1, with a run from the beginning for each.
fn each_alone(file: &ScenarioFile, options: &Options) -> Vec<Value> {
    let reference = Reference::of(&file.scenario).unwrap();
    let singles = reference.plans(options);
    let pairs = explore::pairs(&singles, options.pairs_max);
    let mut diverged = Vec::new();
    for plans in [singles, pairs] {
        for schedule_seed in 0..=1 {
            for plan in &plans {
                let options = RunOptions {
                    plan: plan.clone(),
                    schedule_seed,
                    ..RunOptions::default()
                };
                let path = file.path.display();
                let again = match plan.faults() {
                    [] => format!("kubeproof run {path}"),
                    _ => format!("kubeproof explore {path} --plan '{plan}'"),
                };
                let again = match schedule_seed {
                    0 => again,
                    seed => format!("{again} --seed {seed}"),
                };
                let divergence = explore::explore_with(&file.scenario, &reference, &options);
                diverged.extend(divergence.map(|divergence| {
                    json!({
                        "scenario": file.name,
                        "plan": plan.to_string(),
                        "seed": schedule_seed,
                        "outcome": divergence.outcome,
                        "timelines": divergence.timelines,
                        "replay": again,
                    })
                }));
            }
        }
    }
    assert!(diverged.len() > 1);
    diverged
}

#[test]
fn an_order_that_comes_to_the_same_later_is_no_difference() {
    let path = suite::scenarios_dir().join("statefulset/sts-create-error-stops-batches.yaml");
    let ran = output(&[
        "explore",
        path.to_str().unwrap(),
        "--from",
        "nobody",
        "--seeds",
        "3",
    ]);
    assert_eq!(stdout(&ran), "3 runs, 0 diverged\n");
}

#[test]
fn webhooks_are_down_for_writes_that_call_them_and_watches_expire_at_any_write() {
    let scale = suite::scenarios_dir().join("rc/rc-scale.yaml");
    let kruise = file("webhook-down/pod.yaml", KRUISE);
    let explore = |path: &Path, kind: &str| {
        let ran = output(&["explore", path.to_str().unwrap(), "--faults", kind]);
        (
            ran.status.code(),
            stdout(&ran),
            String::from_utf8(ran.stderr).unwrap(),
        )
    };
    let runs = |(code, out, _): (Option<i32>, String, String)| -> u32 {
        assert_eq!(code, Some(0), "{out}");
        let last = out.lines().last().unwrap();
        assert!(last.ends_with(" runs, 0 diverged"), "{out}");
        last.split(' ').next().unwrap().parse().unwrap()
    };
    // OpenKruise has a webhook for pods.
    assert!(runs(explore(&kruise, "webhook-down")) > 0);
    let (code, _, why) = explore(&scale, "webhook-down");
    assert!(
        code == Some(2) && why.contains("nothing was explored"),
        "{why}"
    );
    let relists = runs(explore(&scale, "relist"));
    assert_eq!(relists, runs(explore(&scale, "throttle")));
}
