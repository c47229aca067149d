//! Logs of runs: their replay, and the server that opens one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use kubeproof::log::{Moment, State};
use kubeproof::replay::{self, Replay};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::testbed::Testbed;
use kubeproof_apiserver::ApiServer;

use crate::support::process::{file, get, output, serve, stdout, terminate};

const SCENARIO: &str = "
title: A pod comes and goes
source: none
given:
  nodes: 1
  controllers: [serviceaccount]
steps:
- create:
    apiVersion: v1
    kind: Pod
    metadata: {name: a}
    spec: {containers: [{name: main, image: busybox, command: [sleep, infinity]}], terminationGracePeriodSeconds: 0}
- fault: {name: busy, on: {verb: delete, from: kubelet}, times: 1, refuse: {code: 500}}
- delete: {target: pod/a, gracePeriodSeconds: 30}
";

fn scenario(text: &str) -> ScenarioFile {
    ScenarioFile::parse("test/pod".to_owned(), text.to_owned(), |name| {
        Err(format!("no file {name}"))
    })
    .unwrap()
}

fn recorded(options: &RunOptions) -> String {
    let (run, log) = replay::record(&scenario(SCENARIO), options);
    run.unwrap().transcript.unwrap();
    log
}

#[test]
fn a_replay_has_the_same_bytes_in_any_order_and_with_any_plan() {
    for options in [
        RunOptions::default(),
        RunOptions {
            schedule_seed: 7,
            ..RunOptions::default()
        },
        RunOptions {
            plan: "lose-answer patch pods/status default/a from kubelet"
                .parse()
                .unwrap(),
            ..RunOptions::default()
        },
    ] {
        let log = recorded(&options);
        let lines = log.lines().count();
        assert_eq!(replay::replay(&log).unwrap(), Replay::Equal { lines });
    }
    let other = recorded(&RunOptions {
        schedule_seed: 7,
        ..RunOptions::default()
    });
    assert_ne!(recorded(&RunOptions::default()), other);
}

#[test]
fn a_log_has_steps_requests_faults_and_commits_in_order() {
    let log = recorded(&RunOptions::default());
    let place = |wanted: &[&str]| {
        let found = log
            .lines()
            .position(|line| wanted.iter().all(|part| line.contains(part)));
        found.unwrap_or_else(|| panic!("{wanted:?} is not in the log"))
    };
    let step = place(&["{\"step\":", "1. create pod a"]);
    let request = place(&[
        "{\"request\":",
        "\"POST\"",
        "/namespaces/default/pods",
        "201",
    ]);
    let commit = place(&[
        "{\"commit\":",
        "\"ADDED\"",
        "\"v1/pods\"",
        "kubeproof-scenario",
    ]);
    let fault = place(&["{\"fault\":", "busy", "delete pods a from kubelet"]);
    let refused = place(&["{\"request\":", "\"DELETE\"", "/pods/a", "500"]);
    let gone = place(&["{\"commit\":", "\"DELETED\"", "\"v1/pods\""]);
    let end = place(&["{\"transcript\":"]);
    assert!(step < request && request < commit && commit < refused);
    assert!(refused < fault && fault < gone && gone < end);
}

#[test]
fn the_first_line_that_differs_is_reported() {
    let log = recorded(&RunOptions::default());
    let changed = log.replacen("\"image\":\"busybox\"", "\"image\":\"other\"", 1);
    let Replay::Differs {
        number,
        recorded,
        replayed,
        program,
    } = replay::replay(&changed).unwrap()
    else {
        panic!("a changed log is not equal");
    };
    let (recorded, replayed) = (recorded.unwrap(), replayed.unwrap());
    assert!(number > 1 && recorded.contains("other"), "{recorded}");
    assert!(replayed.contains("busybox") && program.is_none());
}

#[test]
fn a_run_that_fails_has_a_log_too() {
    let wrong = format!("{SCENARIO}- delete: {{target: pod/b}}\n");
    let (run, log) = replay::record(&scenario(&wrong), &RunOptions::default());
    assert!(run.unwrap().transcript.is_err());
    let last = log.lines().last().unwrap();
    assert!(
        last.starts_with("{\"error\":\"step 4") && last.contains("not found"),
        "{last}"
    );
    assert!(matches!(
        replay::replay(&log).unwrap(),
        Replay::Equal { .. }
    ));
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    let error = |text: &str| replay::replay(text).unwrap_err().to_string();
    assert!(error("{\"commit\": 1}").starts_with("not a log of kubeproof: line 1: "));
    assert!(error("").contains("a log begins with"));
    let other = recorded(&RunOptions::default()).replacen("kubeproof/v1", "kubeproof/v9", 1);
    assert!(error(&other).contains("kubeproof/v9"));
}

#[test]
fn a_state_is_that_of_the_chosen_moment() {
    let log = recorded(&RunOptions::default());
    let held = |moment: Moment| {
        let state = State::read(&log, moment).unwrap();
        let server = state.open(ApiServer::builder());
        assert_eq!(server.resource_version(), state.rv);
        let journal = server.journal();
        assert!(journal.is_empty(), "the builder asks for none");
        (state.rv, state.time)
    };
    let (end, time) = held(Moment::End);
    assert!(held(Moment::ResourceVersion(end.before(1))).0 == end.before(1));
    assert_eq!(held(Moment::Time(time)).0, end);
    assert!(held("+1s".parse().unwrap()).0 < end);
    let future = State::read(&log, Moment::ResourceVersion(end.after(1))).unwrap_err();
    assert!(
        future
            .to_string()
            .contains(&format!("no resourceVersion {}", end.after(1)))
    );
    assert!("soon".parse::<Moment>().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_testbed_has_a_log_that_can_be_opened() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, \
        spec: {containers: [{name: main, image: busybox, command: [sleep, infinity]}]}}";
    let builder = Testbed::builder()
        .nodes(1)
        .schedule_seed(3)
        .notes_requests();
    let mut logs = Vec::new();
    for _ in 0..2 {
        let testbed = builder.clone().start().await.unwrap();
        testbed.apply(pod).await.unwrap();
        testbed.settle(Duration::from_secs(60)).await.unwrap();
        logs.push(testbed.log());
        testbed.shutdown().await;
    }
    assert_eq!(logs[0], logs[1]);
    assert!(logs[0].contains("{\"request\":"));
    let state = State::read(&logs[0], Moment::End).unwrap();
    assert!(state.open(ApiServer::builder()).resource_version() == state.rv);
    let refused = replay::replay(&logs[0]).unwrap_err().to_string();
    assert!(refused.contains("run the test"), "{refused}");
}

#[test]
fn a_log_is_written_replayed_and_opened_by_the_program() {
    let path = file("logs/area/pod.yaml", SCENARIO);
    let log = path.with_extension("jsonl");
    let (path, log) = (path.to_str().unwrap(), log.to_str().unwrap());
    // No golden is next to it: the run fails, and leaves its log.
    let run = output(&["run", path, "--record", log]);
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    let replayed = output(&["replay", log]);
    assert!(replayed.status.success(), "{replayed:?}");
    assert!(stdout(&replayed).ends_with("1 equal, 0 differ\n"));

    let text = std::fs::read_to_string(log).unwrap();
    let line = |event: &str| {
        let is_wanted = |line: &&str| line.contains(event) && line.contains("\"v1/pods\"");
        let line = text.lines().find(is_wanted).unwrap();
        let rv = line.split("\"rv\":").nth(1).unwrap();
        rv.split(',').next().unwrap().to_owned()
    };
    let (created, gone) = (line("\"ADDED\""), line("\"DELETED\""));
    let (child, url) = opened(log, &created);
    let pod = get(&url, "/api/v1/namespaces/default/pods/a", "");
    assert!(
        pod.contains(&format!("\"resourceVersion\":\"{created}\"")),
        "{pod}"
    );
    let nodes = get(&url, "/api/v1/nodes", "");
    assert!(nodes.contains("node-1"), "{nodes}");
    terminate(child);
    let (child, url) = opened(log, &gone);
    let pod = get(&url, "/api/v1/namespaces/default/pods/a", "");
    assert!(pod.contains("404 Not Found"), "{pod}");
    let before = format!(
        "/api/v1/namespaces/default/pods?resourceVersionMatch=Exact&resourceVersion={created}"
    );
    let then = get(&url, &before, "");
    assert!(then.contains("\"name\":\"a\""), "{then}");
    terminate(child);
}

/// `serve` with a log at a revision.
fn opened(log: &str, rv: &str) -> (std::process::Child, String) {
    serve(&["--from-log", log, "--at", rv])
}
