//! When a run with a program goes on.

use std::time::{Duration, Instant};

use super::{GOLDEN, in_role};
use crate::support::process::{file, output, stdout};

/// A copy is made of each of two ConfigMaps, and has to be there when its step is over.
pub(super) const COPIED_AT_ONCE: &str = "
title: A ConfigMap is copied at once
source: none
given: {nodes: 0}
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {copy: \"yes\"}}, data: {k: v}}
- show: {target: configmap/a-copy, fields: [.data.k]}
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: b, labels: {copy: \"yes\"}}, data: {k: v}}
- show: {target: configmap/b-copy, fields: [.data.k]}
";

#[test]
fn a_run_goes_on_when_a_program_that_watches_waits_for_events() {
    let scenario = file("outside-watches/copy.yaml", COPIED_AT_ONCE);
    file(
        "outside-watches/snapshots/outside-watches__copy.snap",
        GOLDEN,
    );
    let scenario = scenario.to_str().unwrap();
    let run = |more: &[&str]| {
        let began = Instant::now();
        let ran = output(&[&["run", scenario, "--program", &in_role("watches")], more].concat());
        let said = stdout(&ran);
        assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
        began.elapsed()
    };
    let (by_activity, fixed) = (run(&[]), run(&["--settle-after", "3s"]));
    // The pauses of the given state and of four steps.
    assert!(
        by_activity + Duration::from_secs(5) < fixed,
        "{by_activity:?} {fixed:?}"
    );
}

#[test]
fn a_run_waits_for_a_program_that_computes() {
    let scenario = file("outside-ponders/copy.yaml", COPIED_AT_ONCE);
    file(
        "outside-ponders/snapshots/outside-ponders__copy.snap",
        GOLDEN,
    );
    let scenario = scenario.to_str().unwrap();
    let ran = output(&["run", scenario, "--program", &in_role("ponders")]);
    let said = stdout(&ran);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
}

#[test]
fn a_run_waits_for_events_that_a_fault_withholds_and_watches_that_it_ends() {
    let scenario = file("outside-withheld/copy.yaml", COPIED_AT_ONCE);
    let ran = output(&[
        "explore",
        scenario.to_str().unwrap(),
        "--program",
        &in_role("watches"),
        "--faults",
        "miss,late,expire,restart",
    ]);
    let said = stdout(&ran);
    assert!(said.ends_with(" runs, 0 diverged\n"), "{said}");
    assert!(!said.ends_with("\n0 runs, 0 diverged\n"), "{said}");
}
