//! A program as the controller under test: this test program itself, started with KUBECONFIG set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Output;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kubeproof_runtime::context::with_user_agent;
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use crate::support::process::{file, output, stdout};

/// Set in a process that is the controller; says which.
const ROLE: &str = "KUBEPROOF_TEST_COPIER";
/// The period of the copier.
const PERIOD: Duration = Duration::from_millis(100);
/// The time after which a killed process must be gone.
const END_MAX: Duration = Duration::from_secs(20);

const SCENARIO: &str = "
title: A ConfigMap is copied
source: none
given: {nodes: 0}
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {copy: \"yes\"}}, data: {k: v}}
- wait: {for: configmap/a-copy, field: .data.k, timeout: 6s}
";
const GOLDEN: &str = "---\nsource: none\n---\n# A ConfigMap is copied\n\noutcome\n";

/// Not a test but the controller, when the environment says so.
#[tokio::test]
async fn controller_program() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let client = with_user_agent(&Client::try_default().await.unwrap(), "copier");
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    if role == "needs-settings" {
        api.get("settings").await.unwrap();
    }
    loop {
        // A failed round is retried.
        let _ = copy_all(&api, role == "notes-first").await;
        tokio::time::sleep(PERIOD).await;
    }
}

/// Copies each ConfigMap that asks for it and then notes the copy; with `notes_first` it notes first, which is a bug.
async fn copy_all(api: &Api<ConfigMap>, notes_first: bool) -> Result<(), kube::Error> {
    let wanted = ListParams::default().labels("copy=yes");
    for original in api.list(&wanted).await? {
        if original.annotations().contains_key("copied") {
            continue;
        }
        if notes_first {
            note(api, &original).await?;
        }
        let mut copy = ConfigMap::default();
        copy.metadata.name = Some(format!("{}-copy", original.name_any()));
        copy.data.clone_from(&original.data);
        match api.create(&PostParams::default(), &copy).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
        if !notes_first {
            note(api, &original).await?;
        }
    }
    Ok(())
}

async fn note(api: &Api<ConfigMap>, original: &ConfigMap) -> Result<(), kube::Error> {
    let note = Patch::Merge(json!({"metadata": {"annotations": {"copied": "true"}}}));
    let (name, params) = (original.name_any(), PatchParams::default());
    api.patch(&name, &params, &note).await.map(drop)
}

/// `kubeproof COMMAND SCENARIO --controller …` with this program in that role, which notes its process ids.
fn with_copier(command: &str, role: &str, more: &[&str]) -> (Output, Vec<String>) {
    let name = format!("outside-{command}-{role}");
    let scenario = file(&format!("{name}/copy.yaml"), SCENARIO);
    let golden = format!("{name}/snapshots/{name}__copy.snap");
    file(&golden, GOLDEN);
    let ids = file(&format!("{name}/ids"), "");
    let program = std::env::current_exe().unwrap();
    let controller = format!(
        "echo $$ >> {}; export {ROLE}={role}; exec {} --exact outside::controller_program",
        ids.display(),
        program.display()
    );
    let fixed = [
        command,
        scenario.to_str().unwrap(),
        "--controller",
        &controller,
    ];
    let quiet = ["--quiet", "1s"];
    let ran = output(&[&fixed[..], &quiet, more].concat());
    let ids = std::fs::read_to_string(ids).unwrap();
    (ran, ids.lines().map(str::to_owned).collect())
}

/// Whether a process still exists after the time that the end of a killed one may take; its parent or init has to
/// reap it first.
#[allow(
    clippy::disallowed_methods,
    reason = "the end of a process that is not ours is no event"
)]
fn stays(id: &str) -> bool {
    let id = id.parse().ok().and_then(Pid::from_raw).unwrap();
    let is_there = || test_kill_process(id).is_ok();
    let began = Instant::now();
    while is_there() {
        if began.elapsed() > END_MAX {
            return true;
        }
        std::thread::sleep(PERIOD);
    }
    false
}

#[test]
fn a_program_is_given_the_server_and_ended() {
    let (ran, ids) = with_copier("run", "notes-last", &[]);
    let said = stdout(&ran);
    assert!(ran.status.success(), "{said}");
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    assert_eq!(ids.len(), 1);
    assert!(!ids.iter().any(|id| stays(id)), "it is left running");
}

const CRASHES: &[&str] = &["--faults", "crash-before,crash-after", "--from", "copier"];

#[test]
fn a_program_that_stands_crashes_is_killed_and_started_again() {
    let (ran, ids) = with_copier("explore", "notes-last", CRASHES);
    let said = stdout(&ran);
    assert!(ran.status.success(), "{said}");
    assert!(said.ends_with("4 runs, 0 diverged\n"), "{said}");
    // One without faults, and two each in the others.
    assert_eq!(ids.len(), 9, "{said}");
    assert!(!ids.iter().any(|id| stays(id)), "one is left running");
}

#[test]
fn a_program_that_does_not_stand_crashes_is_found_out() {
    let (ran, _) = with_copier("explore", "notes-first", CRASHES);
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("crash-after patch configmaps default/a from copier"),
        "{said}"
    );
    assert!(said.contains("timed out after 6s"), "{said}");
}

#[test]
fn programs_start_when_what_is_given_exists_and_know_where_it_is() {
    let scenario = SCENARIO.replace(
        "given: {nodes: 0}",
        "given:
  nodes: 0
  namespace: shop
  objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}",
    );
    assert_ne!(scenario, SCENARIO);
    let scenario = file("outside-given/copy.yaml", &scenario);
    file("outside-given/snapshots/outside-given__copy.snap", GOLDEN);
    let (program, seen) = (
        std::env::current_exe().unwrap(),
        file("outside-given/seen", ""),
    );
    let copier = format!(
        "export {ROLE}=needs-settings; exec {} --exact outside::controller_program",
        program.display()
    );
    let other = format!(
        "echo $KUBEPROOF_URL $KUBEPROOF_NAMESPACE $KUBECONFIG >> {}; exec sleep 600",
        seen.display()
    );
    let ran = output(&[
        "run",
        scenario.to_str().unwrap(),
        "--program",
        &copier,
        "--program",
        &other,
        "--quiet",
        "1s",
    ]);
    let said = stdout(&ran);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    let seen = std::fs::read_to_string(seen).unwrap();
    let words: Vec<&str> = seen.split_whitespace().collect();
    assert!(words[0].starts_with("http://127.0.0.1:"), "{seen}");
    assert_eq!(words[1], "shop");
    assert!(words[2].ends_with("kubeconfig.yaml"), "{seen}");
}

#[test]
fn a_program_that_ends_is_told_of_with_its_last_words() {
    let path = file("outside-ends/copy.yaml", SCENARIO);
    let controller = ["--controller", "echo no manager here; exit 3"];
    let ran = output(&[&["run", path.to_str().unwrap()][..], &controller].concat());
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1));
    assert!(said.contains("exit status: 3"), "{said}");
    assert!(said.contains("no manager here"), "{said}");
}
