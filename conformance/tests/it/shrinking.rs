//! Differences are shrunk to reproducers, which fail as long as the difference is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use serde_json::Value;

use crate::support::process::{file, output, stdout};

/// A third pod that begins with the newer image if the controller has missed the scaling; the rest is not needed.
const SCENARIO: &str = r#"
title: A set with OnDelete keeps the pods of its old template
source: none
given:
  nodes: 2
  controllers: [statefulset]
  objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
  - set.yaml
  steps:
  - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: given}}
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
- scale: {target: statefulset/shop, replicas: 3}
  settle: false
- advance: 5s
- patch:
    target: statefulset/shop
    patch: {spec: {template: {spec: {containers: [{name: shop, image: "nginx:1.26"}]}}}}
"#;
const SET: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: shop}
spec:
  replicas: 2
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: "nginx:1.25"}]}
"#;
const MISSED: &str = "miss MODIFIED statefulsets.apps shop from statefulset-controller";
const REFUSED: &str = "refuse create pods default/shop-2 from statefulset-controller";

/// Explores the scenario `text` with one plan; returns the output and the path of the reproducer.
fn explore(name: &str, text: &str, plan: &str, more: &[&str]) -> (String, std::path::PathBuf) {
    file(&format!("{name}/set.yaml"), SET);
    let scenario = file(&format!("{name}/on-delete.yaml"), text);
    let reproducers = scenario.with_file_name("reproducers");
    let fixed = [
        "explore",
        scenario.to_str().unwrap(),
        "--plan",
        plan,
        "--reproducers",
        reproducers.to_str().unwrap(),
    ];
    let ran = output(&[&fixed[..], more].concat());
    assert_eq!(ran.status.code(), Some(1), "{}", stdout(&ran));
    let file = format!("{name}__on-delete.1.yaml");
    (stdout(&ran), reproducers.join(file))
}

fn run(path: &Path) -> (bool, String) {
    let ran = output(&["run", path.to_str().unwrap()]);
    (ran.status.success(), stdout(&ran))
}

#[test]
fn a_difference_is_shrunk_to_what_it_needs_and_its_scenario_fails_until_it_is_mended() {
    let plan = format!("{REFUSED}; {MISSED}");
    let (said, path) = explore("shrinking", SCENARIO, &plan, &[]);
    let shrunk = format!(
        "SHRUNK shrinking/on-delete: {plan}\n     {}: 1 of 2 faults, ",
        path.display()
    );
    assert!(said.contains(&shrunk), "{said}");
    let rest = " of 5 steps, 1 of 2 given objects; 3 of 3 runs differ\n1 runs, 1 diverged\n";
    assert!(said.ends_with(rest), "{said}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.ends_with(&format!("faults: {MISSED}\n")), "{text}");
    assert!(!text.contains("ConfigMap"), "{text}");
    assert!(
        text.contains("- scale:") && text.contains("- patch:"),
        "{text}"
    );
    let (passed, said) = run(&path);
    assert!(!passed, "{said}");
    assert!(said.contains(&format!("with {MISSED}:\n")), "{said}");
    assert!(
        said.contains("+    shop-2@") || said.contains("+shop-2@"),
        "{said}"
    );
    // The scaling is over before the fault could hide it.
    let mended = text.replace("settle: false", "settle: true");
    assert_ne!(mended, text);
    let mended = file("shrinking/reproducers/mended.yaml", &mended);
    let (passed, said) = run(&mended);
    assert!(passed, "{said}");
    // A fault without its point shows nothing.
    let other = file(
        "shrinking/reproducers/other.yaml",
        &text.replace(
            "MODIFIED statefulsets.apps shop",
            "MODIFIED statefulsets.apps other",
        ),
    );
    let (passed, said) = run(&other);
    assert!(!passed && said.contains("does not strike"), "{said}");
}

#[test]
fn the_result_does_not_depend_on_how_many_candidates_are_tried_at_once() {
    let plan = format!("{REFUSED}; {MISSED}");
    let [one, many] = ["1", "5"].map(|jobs| {
        let name = format!("shrinking-{jobs}");
        let (said, path) = explore(&name, SCENARIO, &plan, &["--jobs", jobs]);
        assert!(said.contains(" 3 of 3 runs differ"), "{said}");
        let text = std::fs::read_to_string(path).unwrap();
        text.replace(&name, "shrinking")
    });
    assert_eq!(one, many);
}

#[test]
fn a_reproducer_is_printed_as_json() {
    let short: Vec<&str> = SCENARIO
        .lines()
        .filter(|line| {
            !["ConfigMap", "advance", "  steps:"]
                .iter()
                .any(|own| line.contains(own))
        })
        .collect();
    let (said, path) = explore("shrinking-json", &short.join("\n"), MISSED, &["--json"]);
    let line: Value = serde_json::from_str(said.lines().nth(1).unwrap()).unwrap();
    assert_eq!(line["reproducer"], path.display().to_string());
    let left = ["faults", "steps", "objects", "reproduced", "replays"];
    assert_eq!(
        left.map(|field| line[field].as_u64()),
        [1, 2, 1, 3, 3].map(Some)
    );
}
