//! `serve` as people use it: what it says, what it writes down, and servers that begin with that.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ready;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{
    file, get, kubeproof, output, post, send, serve, start, stdout, terminate,
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A file of this test run that does not exist.
fn fresh(name: &str) -> PathBuf {
    let path = file(name, "");
    std::fs::remove_file(&path).unwrap();
    path
}

/// A directory of this test run that does not exist.
fn fresh_directory(name: &str) -> PathBuf {
    let path = file(&format!("{name}/file"), "");
    let path = path.parent().unwrap();
    std::fs::remove_dir_all(path).unwrap();
    path.to_owned()
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// Names, uids and versions of all pods.
fn pods(url: &str) -> Vec<(Value, Value, Value)> {
    let list = body(&get(url, PODS, ""));
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|pod| &pod["metadata"])
        .map(|own| {
            (
                own["name"].clone(),
                own["uid"].clone(),
                own["resourceVersion"].clone(),
            )
        })
        .collect()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
    }
}

fn ready_replicas(url: &str) -> Value {
    let deployment = body(&get(url, &format!("{DEPLOYMENTS}/web"), ""));
    deployment["status"]["readyReplicas"].clone()
}

/// A server whose standard error is kept; the line that it prints.
fn heard(arguments: &[&str]) -> (Child, String) {
    start(kubeproof(&["serve"]).args(arguments).stderr(Stdio::piped()))
}

/// Ends a server; what it has written to standard error.
fn stderr_of(mut child: Child) -> String {
    let mut stderr = child.stderr.take().unwrap();
    terminate(child);
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn no_server_outlives_a_harness_that_is_killed_if_it_says_so() {
    let program = env!("CARGO_BIN_EXE_kubeproof");
    // The shell is the harness.
    let script = format!("{program} serve --controllers none --exit-with-parent & wait");
    let (mut harness, line) = start(Command::new("sh").args(["-c", &script]));
    let address = line.trim().strip_prefix("listening on http://").unwrap();
    assert!(TcpStream::connect(address).is_ok());
    send(Signal::KILL, harness.id());
    harness.wait().unwrap();
    wait_until("the server ends", || TcpStream::connect(address).is_err());
}

#[test]
fn what_is_set_up_once_is_where_many_servers_begin() {
    let log = fresh("seed/server.jsonl");
    let log = log.to_str().unwrap();
    let simulated = ["--nodes", "1", "--controllers", "deployment,replicaset"];
    let (child, url) = serve(&[&simulated[..], &["--record", log]].concat());
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    let created = post(&url, DEPLOYMENTS, &deployment.to_string());
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    wait_until("two pods are ready", || ready_replicas(&url) == 2);
    terminate(child);
    let mode = std::fs::metadata(log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let seeded = std::fs::read_to_string(log).unwrap();

    // Several at a time, each its own, alone unless asked otherwise.
    let (one, other) = (serve(&["--from-log", log]), serve(&["--from-log", log]));
    let there = pods(&one.1);
    assert_eq!(there.len(), 2);
    assert_eq!(there, pods(&other.1));
    let made = post(&one.1, CONFIGMAPS, r#"{"metadata":{"name":"own"}}"#);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    assert!(get(&other.1, &format!("{CONFIGMAPS}/own"), "").starts_with("HTTP/1.1 404"));
    terminate(one.0);
    terminate(other.0);
    assert_eq!(std::fs::read_to_string(log).unwrap(), seeded);

    // With nodes and controllers the log continues, in the same file.
    let (child, url) = serve(&[&simulated[..], &["--from-log", log, "--record", log]].concat());
    let scaled = deployment
        .to_string()
        .replace("\"replicas\":2", "\"replicas\":3");
    let path = format!("{DEPLOYMENTS}/web");
    let answer = put(&url, &path, &scaled);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    wait_until("three pods are ready", || ready_replicas(&url) == 3);
    let uids = |pods: &[(Value, Value, Value)]| -> Vec<Value> {
        pods.iter().map(|(_, uid, _)| uid.clone()).collect()
    };
    let scaled = pods(&url);
    let kept = uids(&there);
    assert!(
        kept.iter().all(|uid| uids(&scaled).contains(uid)),
        "{scaled:?}"
    );
    terminate(child);

    let (child, url) = serve(&["--from-log", log]);
    assert_eq!(uids(&pods(&url)), uids(&scaled));
    terminate(child);
    let (_, _, before) = &there[1];
    let (child, url) = serve(&["--from-log", log, "--at", &first_revision(log)]);
    assert_eq!(pods(&url).len(), 2, "before the third, {before}");
    terminate(child);
    let refused = output(&["replay", log]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("the log of a server"), "{said}");
}

/// The version that the log of a server begins with.
fn first_revision(log: &str) -> String {
    let text = std::fs::read_to_string(log).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    first["state"]["revision"].to_string()
}

fn put(url: &str, path: &str, body: &str) -> String {
    asked(url, ("PUT", path), body)
}

fn asked(url: &str, (method, path): (&str, &str), body: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_that_is_killed_has_written_what_was_seen() {
    let log = fresh("killed/server.jsonl");
    let log = log.to_str().unwrap();
    let alone = ["--controllers", "none", "--record", log];
    let (mut child, url) = serve(&alone);
    post(&url, CONFIGMAPS, r#"{"metadata":{"name":"seen"}}"#);
    let is_written = || std::fs::read_to_string(log).unwrap().contains("\"seen\"");
    wait_until("it is written", is_written);
    child.kill().unwrap();
    child.wait().unwrap();
    // A partly written line does not count.
    let mut text = std::fs::read_to_string(log).unwrap();
    text.push_str("{\"commit\":{\"rv\":");
    std::fs::write(log, text).unwrap();
    let (child, url) = serve(&["--from-log", log]);
    assert!(get(&url, &format!("{CONFIGMAPS}/seen"), "").starts_with("HTTP/1.1 200"));
    terminate(child);
}

#[test]
fn the_state_of_a_server_is_exported_over_tls() {
    let kubeconfig = fresh("exported/kubeconfig");
    let path = kubeconfig.to_str().unwrap();
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}";
    let map = file("exported/settings.yaml", map);
    let map = map.to_str().unwrap();
    let tls = ["--tls", "--token", "secret", "--kubeconfig-out", path];
    let (child, _) = serve(&[&tls[..], &["--load", map, "--nodes", "1"]].concat());
    let exported = output(&["export", "--kubeconfig", path]);
    assert!(exported.status.success(), "{exported:?}");
    terminate(child);
    let state = file("exported/state.jsonl", &stdout(&exported));
    let (child, url) = serve(&["--from-log", state.to_str().unwrap()]);
    let settings = body(&get(&url, &format!("{CONFIGMAPS}/settings"), ""));
    assert_eq!(settings["data"], json!({"a": "b"}));
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let of_another = get(&url, path, "");
    assert!(of_another.starts_with("HTTP/1.1 404"), "{of_another}");
    terminate(child);
    let unreachable = output(&["export", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_eq!(unreachable.status.code(), Some(2));
}

#[test]
fn files_that_are_no_log_are_refused_with_the_line() {
    for (text, wanted) in [
        ("", "a log begins with"),
        ("{\"state\":{}}\n", "line 1: missing field"),
        (
            "{\"state\":{\"form\":\"kubeproof/v1\",\"program\":\"0\",\"revision\":1,\
             \"time\":\"2026-01-01T00:00:00Z\"}}\n{\"commit\":1}\n",
            "line 2: ",
        ),
    ] {
        let path = file("no-log/a.jsonl", text);
        let refused = output(&["serve", "--from-log", path.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("a.jsonl: "), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
    let nowhere = output(&["serve", "--record", "/nope/a.jsonl"]);
    let said = String::from_utf8(nowhere.stderr).unwrap();
    assert!(
        said.starts_with("error: cannot write /nope/a.jsonl: "),
        "{said}"
    );
}

#[test]
fn a_log_is_opened_some_time_after_a_step() {
    let scenario = file(
        "step/scenarios/own/one.yaml",
        "title: Two maps\nsource: none\ngiven: {nodes: 0}\nsteps:\n\
         - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n\
         - advance: 1h\n\
         - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
    );
    let log = fresh("step/one.jsonl");
    let log = log.to_str().unwrap();
    output(&["run", scenario.to_str().unwrap(), "--record", log]);
    for (at, are_there) in [
        ("1+0s", [true, false]),
        ("1+5s", [true, false]),
        ("3+0s", [true, true]),
        ("1+2h", [true, true]),
    ] {
        // Scripts call the flag so.
        let (child, url) = serve(&["--log", log, "--at", at]);
        let is_there = |name: &str| {
            let answer = get(&url, &format!("{CONFIGMAPS}/{name}"), "");
            answer.starts_with("HTTP/1.1 200")
        };
        assert_eq!([is_there("a"), is_there("b")], are_there, "{at}");
        terminate(child);
    }
    for (at, wanted) in [
        (
            "9+5s",
            "the log has no step 9; it has\n1. create configmap a",
        ),
        ("+", "is not a duration"),
        ("1+", "is not a duration"),
        ("soon", "or a time since a step (1+5s)"),
    ] {
        let refused = output(&["serve", "--from-log", log, "--at", at]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(wanted), "{at}: {said}");
    }
}

#[test]
fn a_server_says_what_runs_and_how_to_end_it_beside_the_line_for_scripts() {
    let kubeconfig = fresh("greeting/kubeconfig");
    let path = kubeconfig.to_str().unwrap();
    let (child, line) = heard(&["--nodes", "1", "--kubeconfig-out", path]);
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
    // A script that has read that line may have closed the pipe.
    let mut child = child;
    drop(child.stdout.take());
    let wanted = format!(
        "1 node, all controllers\nkubeconfig written to {path}\nCtrl-C or SIGTERM ends the server\n"
    );
    assert_eq!(stderr_of(child), wanted);
    let log = fresh("greeting/log.jsonl");
    let log = log.to_str().unwrap();
    let (child, _) = heard(&["--controllers", "deployment", "--record", log]);
    let wanted = format!(
        "no nodes, controllers deployment\nrecording into {log}\nCtrl-C or SIGTERM ends the server\n"
    );
    assert_eq!(stderr_of(child), wanted);
}

#[test]
fn requests_are_logged_on_demand() {
    let request = |url: &str| {
        let agent = "User-Agent: kubectl/v1.36.2\r\n";
        get(url, "/api/v1/namespaces?limit=1", agent);
        get(url, "/api/v1/namespaces/nope", agent);
        get(url, "/readyz", "");
        let brief = "/api/v1/namespaces?watch=1&timeoutSeconds=1";
        get(url, brief, agent);
    };
    let url = |line: &str| line.trim().trim_start_matches("listening on ").to_owned();
    let (child, line) = heard(&["--nodes", "1", "-v"]);
    request(&url(&line));
    let log = stderr_of(child);
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" HTTP ")).collect();
    assert_eq!(lines.len(), 4, "controllers use no network: {log}");
    for (line, wanted) in lines.iter().zip([
        [
            "verb=LIST",
            "uri=\"/api/v1/namespaces?limit=1\"",
            "resp=200",
        ],
        ["verb=GET", "uri=\"/api/v1/namespaces/nope\"", "resp=404"],
        ["verb=GET", "uri=\"/readyz\"", "resp=200"],
        ["verb=WATCH", "timeoutSeconds=1\"", "resp=200"],
    ]) {
        for part in wanted {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(line.contains(" latency="), "{line}");
    }
    assert!(lines[0].contains("user_agent=\"kubectl/v1.36.2\""), "{log}");
    assert!(lines[3].contains(" latency=1."), "to its end: {log}");

    let (child, line) = heard(&["--nodes", "1"]);
    request(&url(&line));
    assert!(!stderr_of(child).contains("HTTP"), "not unless asked to");
}

#[test]
fn plain_http_on_the_port_of_tls_is_answered_in_words() {
    let (child, url) = serve(&["--tls"]);
    let plain = url.replace("https://", "http://");
    let answer = get(&plain, "/version", "");
    let wanted =
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    assert_eq!(answer, wanted);
    terminate(child);
}

#[test]
fn every_error_of_a_file_that_is_loaded_names_the_file() {
    let directory = "misloaded/manifests";
    file(
        &format!("{directory}/a.yaml"),
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
    );
    for (text, wanted) in [
        (
            "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}",
            "z.yaml: cannot create Widget.v1.example.com w: nothing serves this kind",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
            "z.yaml: cannot create ConfigMap.v1 a: configmaps \"a\" already exists",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: nope}}",
            "z.yaml: cannot create ConfigMap.v1 b: namespaces \"nope\" not found",
        ),
        (
            "[1, 2]",
            "z.yaml: document 1 is not an object: it is a list",
        ),
        ("a: [", "z.yaml: "),
        (
            "{apiVersion: v1, kind: ''}",
            "z.yaml: document 1 is not an object: kind not set",
        ),
    ] {
        let path = file(&format!("{directory}/z.yaml"), text);
        let directory = path.parent().unwrap().to_str().unwrap();
        let refused = output(&["serve", "--load", directory]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let broken = file("misloaded/stages/stage.yaml", "a: [");
    for flag in ["--stages", "--load"] {
        let refused = output(&["serve", flag, broken.to_str().unwrap()]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("stage.yaml"), "{flag}: {said}");
    }
}

#[test]
fn requests_are_audited_into_a_file() {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  verbs: [create]\n  omitStages: [RequestReceived]\n";
    let policy = file("audit/policy.yaml", policy);
    let log = fresh("audit/audit.log");
    let flags = |log: &str| {
        let policy = policy.to_str().unwrap();
        [
            "--controllers",
            "none",
            "--audit-policy-file",
            policy,
            "--audit-log-path",
            log,
        ]
        .map(str::to_owned)
    };
    let own = flags(log.to_str().unwrap());
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let (child, url) = serve(&own);
    post(&url, CONFIGMAPS, r#"{"metadata":{"name":"own"}}"#);
    get(&url, CONFIGMAPS, "");
    terminate(child);
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1, "{text}");
    let event: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(event["objectRef"]["name"], "own");
    assert_eq!(event["sourceIPs"], json!(["127.0.0.1"]));

    let ran = kubeproof(&["serve"])
        .args(flags("-"))
        .args(["--audit-log-format", "xml"])
        .output();
    let ran = ran.unwrap();
    assert!(!ran.status.success());
    let error = String::from_utf8(ran.stderr).unwrap();
    let want = "invalid audit log format xml, allowed formats are \"legacy,json\"";
    assert!(error.contains(want), "{error}");
}

/// A token of the service account `default`, by TokenRequest.
fn service_account_token(url: &str) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let answer = post(url, path, r#"{"spec":{}}"#);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let token = &body(&answer)["status"]["token"];
    token.as_str().expect("a token").to_owned()
}

#[test]
fn a_state_directory_keeps_what_a_server_held_across_restarts() {
    let directory = fresh_directory("kept/state");
    let load = "{apiVersion: v1, kind: ConfigMap, metadata: {name: loaded}}";
    let load = file("kept/loaded.yaml", load);
    let controllers = "deployment,replicaset,serviceaccount";
    let kept = [
        "--state",
        directory.to_str().unwrap(),
        "--load",
        load.to_str().unwrap(),
        "--nodes",
        "1",
        "--controllers",
        controllers,
    ];
    let (child, url) = serve(&kept);
    let deployment = r#"{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}}"#;
    assert!(post(&url, DEPLOYMENTS, deployment).starts_with("HTTP/1.1 201"));
    wait_until("two pods are ready", || ready_replicas(&url) == 2);
    let there = pods(&url);
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    wait_until("there is an account", || {
        get(&url, account, "").starts_with("HTTP/1.1 200")
    });
    let token = service_account_token(&url);
    let other = output(&["serve", "--state", directory.to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(2));
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(
        said.contains("is the state of a server that runs"),
        "{said}"
    );
    terminate(child);
    let mode = |name: &str| {
        let file = std::fs::metadata(directory.join(name)).unwrap();
        file.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("state.jsonl"), mode("service-account.key")),
        (0o600, 0o600)
    );

    // An object that was deleted is not loaded again, and controllers go on.
    let (child, url) = serve(&kept);
    let uids = |pods: &[(Value, Value, Value)]| -> Vec<Value> {
        pods.iter().map(|(_, uid, _)| uid.clone()).collect()
    };
    assert_eq!(uids(&pods(&url)), uids(&there));
    let headers = format!("Authorization: Bearer {token}\r\n");
    let seen = get(&url, account, &headers);
    assert!(seen.starts_with("HTTP/1.1 403"), "{seen}");
    let loaded = format!("{CONFIGMAPS}/loaded");
    assert!(asked(&url, ("DELETE", &loaded), "{}").starts_with("HTTP/1.1 200"));
    let scaled = deployment.replace("\"replicas\":2", "\"replicas\":3");
    assert!(put(&url, &format!("{DEPLOYMENTS}/web"), &scaled).starts_with("HTTP/1.1 200"));
    wait_until("three pods are ready", || ready_replicas(&url) == 3);
    terminate(child);
    let (child, url) = serve(&kept);
    assert_eq!(pods(&url).len(), 3);
    assert!(get(&url, &loaded, "").starts_with("HTTP/1.1 404"));
    terminate(child);
}

#[test]
fn a_server_that_is_killed_loses_the_last_seconds_of_its_state() {
    let directory = fresh_directory("killed-state/state");
    let kept = [
        "--state",
        directory.to_str().unwrap(),
        "--controllers",
        "none",
    ];
    let (mut child, url) = serve(&kept);
    post(&url, CONFIGMAPS, r#"{"metadata":{"name":"seen"}}"#);
    let state = directory.join("state.jsonl");
    wait_until("a snapshot has it", || {
        std::fs::read_to_string(&state).is_ok_and(|text| text.contains("\"seen\""))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (child, url) = serve(&kept);
    assert!(get(&url, &format!("{CONFIGMAPS}/seen"), "").starts_with("HTTP/1.1 200"));
    terminate(child);
    std::fs::write(&state, "{\"state\":{}}\n").unwrap();
    let refused = output(&["serve", "--state", directory.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("state.jsonl"), "{said}");
}

/// Whether a process may have huge pages; `None` from kernels before 5.0, which do not say.
#[cfg(target_os = "linux")]
fn may_have_huge_pages(process: &str) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut lines = status.lines();
    let setting = lines.find(|line| line.starts_with("THP_enabled:"))?;
    Some(setting.ends_with('1'))
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_server_has_no_huge_pages() {
    let (child, url) = serve(&[]);
    get(&url, "/readyz", "");
    let it_may = may_have_huge_pages(&child.id().to_string());
    assert!(it_may.is_none_or(|may| !may), "{it_may:?}");
    terminate(child);
}

#[cfg(target_os = "linux")]
#[test]
fn the_programs_of_a_server_may_have_huge_pages() {
    let (child, url) = serve(&["--program", "sleep 1000"]);
    get(&url, "/readyz", "");
    let it_may = may_have_huge_pages(&child.id().to_string());
    assert_eq!(it_may, may_have_huge_pages("self"), "programs inherit it");
    terminate(child);
}
