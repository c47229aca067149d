//! `--scheduler-config`: the profiles of the simulated scheduler.

use std::path::PathBuf;

use crate::support::process::{file, output, stdout};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn path(name: &str, profiles: &str) -> String {
    let path: PathBuf = file(
        &format!("scheduler-config/{name}"),
        &format!("{HEAD}{profiles}"),
    );
    path.display().to_string()
}

#[test]
fn a_configuration_is_refused_in_the_words_of_kube_scheduler() {
    let bad = path(
        "bad.yaml",
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
    );
    for command in ["serve", "run"] {
        let refused = output(&[command, "--scheduler-config", &bad]);
        assert_eq!(refused.status.code(), Some(2), "{command}");
        let said = String::from_utf8(refused.stderr).unwrap();
        let message = format!("{bad}: profiles[1].schedulerName: Duplicate value: {{}}");
        assert!(said.contains(&message), "{command}: {said}");
    }
}

#[test]
fn a_run_has_the_given_profiles_and_can_be_replayed() {
    let scenario = "\
title: t
source: s
given: {nodes: 1}
steps:
- create: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {schedulerName: mine, containers: [{name: c, image: nginx}]}}
";
    let scenario = file("scheduler-config/scenario.yaml", scenario);
    let scenario = scenario.display().to_string();
    let log = format!("{scenario}.log");
    let mine = path(
        "mine.yaml",
        "extenders: [{urlPrefix: x}]\nprofiles: [{schedulerName: mine}]",
    );
    let run = |arguments: &[&str]| {
        let ran = output(&[&["run", &scenario], arguments].concat());
        let said = String::from_utf8(ran.stderr.clone()).unwrap();
        (stdout(&ran), said)
    };
    // There is no golden, so the transcript is shown.
    let (without, _) = run(&[]);
    assert!(!without.contains("running"), "{without}");
    let (with, said) = run(&["--scheduler-config", &mine, "--record", &log]);
    assert!(with.contains("pod web created · +1s running"), "{with}");
    let again = format!(" --scheduler-config '{mine}'");
    assert!(with.contains(&again), "{with}");
    let warning = "warning: without effect in the scheduler's configuration: extenders";
    assert!(said.contains(warning), "{said}");
    let replayed = output(&["replay", &log]);
    assert!(replayed.status.success(), "{}", stdout(&replayed));
    let (refused, said) = run(&["--scheduler-config", &mine, "--kubeconfig", "none"]);
    assert!(
        said.contains("--scheduler-config is for the simulated scheduler"),
        "{refused}{said}"
    );
}
