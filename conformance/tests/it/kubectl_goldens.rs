//! The goldens of scenarios with kubectl, against the real `kubectl` under virtual time. Without a `kubectl` on the path
//! the test says so and passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use kubeproof::runner::{self, RunOptions};
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;

/// Scenarios whose golden the real kubectl does not give, each with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "kubectl/kubectl-create-watch",
        "kubectl comes at once, and controllers go on while it starts",
    ),
    (
        "kubectl/kubectl-rollout-restart",
        "kubectl writes the time of its own clock into the template",
    ),
];
/// The first minor version that names the namespace of what it deletes.
const NAMES_NAMESPACES: u32 = 34;

/// Runs the kubectl steps of a scenario with the real program; returns the first line that differs from the golden.
fn difference(path: &Path, minor: u32) -> Option<String> {
    let file = ScenarioFile::read(path).unwrap();
    let options = RunOptions {
        kubectl: Some("kubectl".into()),
        ..RunOptions::default()
    };
    let real = runner::run(&file.scenario, &options).unwrap();
    let golden = format!("{}.snap", suite::snapshot_name(&file.name));
    let golden = std::fs::read_to_string(suite::snapshots_dir().join(golden)).unwrap();
    let golden = suite::content(&golden);
    let comparable = |text: &str| -> Vec<String> {
        let age = regex::Regex::new(r"\b[0-9]+[smhd][0-9smh]*\b").unwrap();
        let lines = text.trim_end().lines().map(|line| {
            // A mark looks for the words of a newer kubectl.
            let line = line.strip_prefix('►').unwrap_or(line);
            let mut line = line.replace(" kubectl ", " scenario ");
            // Ages are those of kubectl's own clock, or of the server's when it reads the table.
            if !line.trim_start().starts_with(['+', '#', '↳']) {
                line = age.replace_all(&line, "<age>").replace("   AGE", "");
            }
            if minor < NAMES_NAMESPACES {
                line = line.replace(" from default namespace", "");
            }
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        lines.collect()
    };
    let (golden, real) = (comparable(golden), comparable(&real));
    let differs = golden
        .iter()
        .zip(&real)
        .find(|(golden, real)| golden != real);
    match differs {
        Some((golden, real)) => Some(format!(
            "{}:\n  golden: {golden}\n  real:   {real}",
            file.name
        )),
        None if golden.len() != real.len() => Some(format!("{}: other lines", file.name)),
        None => None,
    }
}

#[test]
fn kubectl_prints_what_the_goldens_say() {
    let Some(minor) = kubectl_minor() else {
        eprintln!("skipped: there is no kubectl on the path");
        return;
    };
    let (mut otherwise, mut differences, mut compared) = (Vec::new(), Vec::new(), 0);
    for path in suite::find(&suite::scenarios_dir()).unwrap() {
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("- kubectl: ") {
            continue;
        }
        compared += 1;
        if let Some(difference) = difference(&path, minor) {
            let name = difference.split(':').next().unwrap_or_default();
            match OTHERWISE.iter().find(|(known, _)| *known == name) {
                Some((known, _)) => otherwise.push(*known),
                None => differences.push(difference),
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let listed: Vec<&str> = OTHERWISE.iter().map(|(known, _)| *known).collect();
    assert_eq!(otherwise, listed, "listed scenarios are equal now");
    assert!(compared > OTHERWISE.len());
}

#[test]
fn a_program_that_is_not_there_fails_the_step() {
    let path = suite::scenarios_dir().join("kubectl/kubectl-get-sts.yaml");
    let file = ScenarioFile::read(&path).unwrap();
    let options = RunOptions {
        kubectl: Some("/no/such/kubectl".into()),
        ..RunOptions::default()
    };
    let error = runner::run(&file.scenario, &options)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("step 2 (kubectl get"), "{error}");
    assert!(error.contains("No such file or directory"), "{error}");
}

/// The minor version of the kubectl on the path.
fn kubectl_minor() -> Option<u32> {
    let mut command = Command::new("kubectl");
    let output = command
        .args(["version", "--client", "--output=json"])
        .output();
    let version: serde_json::Value = serde_json::from_slice(&output.ok()?.stdout).unwrap();
    let minor = version["clientVersion"]["minor"].as_str().unwrap();
    minor.trim_end_matches('+').parse().ok()
}
