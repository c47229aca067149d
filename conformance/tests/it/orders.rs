//! Concurrent events may be ordered differently: outcomes are the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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

#[test]
fn where_order_rightly_matters_the_scenario_says_so() {
    let file = file("node/node-deployment-replaced");
    assert!(file.scenario.explains_order());
    assert!(!file.scenario.explains("order"), "it is no plan of faults");
    let checked = suite::check_file(file, &in_order(1));
    assert_eq!(checked.verdict, Verdict::Passed);
}
