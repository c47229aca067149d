//! Concurrent events may be ordered differently: outcomes are the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use kubeproof::replay;
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite::{self, Verdict};

fn file(scenario: &str) -> ScenarioFile {
    let path = suite::scenarios_dir().join(format!("{scenario}.yaml"));
    ScenarioFile::read(&path).unwrap()
}

fn in_order(schedule_seed: u64) -> RunOptions {
    RunOptions {
        schedule_seed,
        ..RunOptions::default()
    }
}

#[test]
fn every_order_comes_to_the_outcome_of_the_golden() {
    for scenario in [
        "statefulset/sts-ondelete-to-rolling",
        // One order comes to it an hour later.
        "statefulset/sts-create-error-stops-batches",
        "deployment/deployment-rolling-update",
    ] {
        for schedule_seed in 0..3 {
            let checked = suite::check_file(file(scenario), &in_order(schedule_seed));
            assert_eq!(
                checked.verdict,
                Verdict::Passed,
                "{scenario} {schedule_seed}"
            );
        }
    }
}

#[test]
fn an_order_is_that_of_its_seed() {
    let log = |schedule_seed| {
        let (run, log) = replay::record(
            &file("statefulset/sts-create-parallel"),
            &in_order(schedule_seed),
        );
        run.unwrap().transcript.unwrap();
        log
    };
    let (first, second) = (log(1), log(2));
    assert_eq!(first, log(1));
    assert_ne!(first, second);
    // The order of the requests differs, not only the seed in the first line.
    let events = |log: &str| -> Vec<String> {
        let lines = log
            .lines()
            .skip(1)
            .filter(|line| line.starts_with("{\"request\""));
        lines.map(str::to_owned).collect()
    };
    assert_ne!(events(&first), events(&second));
    let parallel = events(&first);
    let creates = |events: &[String]| {
        let posts = |line: &&String| line.contains("\"POST\"") && line.contains("/default/pods");
        events.iter().filter(posts).count()
    };
    assert_eq!(creates(&parallel), creates(&events(&second)));
}

/// A scenario whose pods are alike, with another `differs`.
fn with_differs(differs: &str) -> ScenarioFile {
    let own = file("cloneset/cloneset-delete-refused");
    let (before, rest) = own.text.split_once("\ndiffers:\n").unwrap();
    let (_, steps) = rest.split_once("\nsteps:\n").unwrap();
    let text = format!("{before}\ndiffers:\n{differs}\nsteps:\n{steps}");
    let read = |name: &str| Ok(own.files[name].clone());
    let other = ScenarioFile::parse(own.name.clone(), text, read).unwrap();
    ScenarioFile {
        path: own.path.clone(),
        ..other
    }
}

#[test]
fn another_order_may_change_what_the_scenario_names_and_nothing_else() {
    let may = |object: &str| {
        format!(
            "- {{with: order, in: [{{object: {object}, exchanged: true}}], because: they are alike}}"
        )
    };
    let passes = |seed: &u64| {
        let named = suite::check_file(with_differs(&may("pod/sample-*")), &in_order(*seed));
        named.verdict == Verdict::Passed && !named.used.is_empty()
    };
    let seed = (1..=8).find(passes).expect("an order leaves another pod");
    let other = suite::check_file(with_differs(&may("pod/sample-00003")), &in_order(seed));
    let Verdict::Failed(why) = other.verdict else {
        panic!("another pod is left than the golden has");
    };
    assert!(why.contains("+sample-00002@"), "{why}");
    let faults = "- {with: {fault: refuse, anywhere: true}, because: it is no order}";
    let faults = suite::check_file(with_differs(faults), &in_order(seed));
    assert_ne!(faults.verdict, Verdict::Passed);
}

#[test]
fn what_no_order_changes_is_an_error() {
    let differs = "
- with: order
  in:
  - {object: pod/sample-*, exchanged: true}
  - {object: cloneset/sample, fields: [READY]}
  because: they are alike";
    let file = with_differs(differs);
    // The last eight of the orders that are tried.
    let stale = suite::stale_orders(&file, &RunOptions::default(), BTreeSet::new(), 57);
    assert_eq!(stale, ["differs with order in: READY of cloneset/sample"]);
}
