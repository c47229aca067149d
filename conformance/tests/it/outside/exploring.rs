//! Explorations of a program.

use super::settling::COPIED_AT_ONCE;
use super::{in_role, with_copier};
use crate::support::process::{file, output, stdout};

#[test]
fn an_exploration_that_was_interrupted_goes_on() {
    let finished = file("outside-resumed/finished.jsonl", "");
    let explore = |faults: &str, more: &[&str]| {
        let resume = ["--from", "copier", "--resume", finished.to_str().unwrap()];
        let more = [&["--faults", faults], &resume[..], more].concat();
        let (ran, ids) = with_copier("explore", "resumed", &more);
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        (stdout(&ran), told, ids.len())
    };
    let (said, _, starts) = explore("crash-before", &[]);
    assert!(said.ends_with("2 runs, 0 diverged\n"), "{said}");
    // One each in the two runs without faults, and two each in the others.
    assert_eq!(starts, 6, "{said}");
    let noted = std::fs::read_to_string(&finished).unwrap();
    assert_eq!(noted.lines().count(), 2, "{noted}");

    // The last line was cut off.
    std::fs::write(&finished, &noted[..noted.len() - 9]).unwrap();
    let (said, told, starts) = explore("crash-before,crash-after", &[]);
    assert!(said.ends_with("4 runs, 0 diverged\n"), "{said}");
    assert_eq!(starts, 8, "{said}");
    assert!(!told.contains("not reused"), "{told}");
    let noted = std::fs::read_to_string(&finished).unwrap();
    assert_eq!(noted.lines().count(), 4, "{noted}");

    // What else runs is another thing to explore.
    let other = ["--controllers", "garbage-collector"];
    let (said, told, starts) = explore("crash-before", &other);
    assert!(said.ends_with("2 runs, 0 diverged\n"), "{said}");
    assert_eq!(starts, 6, "{said}");
    let why =
        "4 finished runs are not reused: the files or the flags of the program were different";
    assert!(told.contains(why), "{told}");
}

#[test]
fn points_are_chosen_by_situation() {
    let (ran, _) = with_copier(
        "explore",
        "chosen",
        &["--faults", "refuse", "--points", "1"],
    );
    let said = stdout(&ran);
    assert!(said.ends_with("1 runs, 0 diverged\n"), "{said}");
}

#[test]
fn a_run_settles_after_the_clock_was_set() {
    let scenario = file("outside-clock/copy.yaml", COPIED_AT_ONCE);
    let ran = output(&[
        "explore",
        scenario.to_str().unwrap(),
        "--program",
        &in_role("watches"),
        "--faults",
        "clock-skew",
    ]);
    let said = stdout(&ran);
    assert!(said.ends_with(" runs, 0 diverged\n"), "{said}");
    assert!(!said.ends_with("\n0 runs, 0 diverged\n"), "{said}");
}
