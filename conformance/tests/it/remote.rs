//! Controllers and scenarios against the server of a kubeconfig: `kubeproof controllers` and `kubeproof run`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::process::{
    file, get, kubeproof, output, post, send, serve, start, stdout, terminate,
};

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/");
const NAMESPACES: &str = "/api/v1/namespaces";

/// An empty file for a kubeconfig, and its path.
fn kubeconfig(test: &str) -> String {
    let path = file(&format!("{test}/kubeconfig"), "");
    path.to_str()
        .expect("cargo's directories are UTF-8")
        .to_owned()
}

/// Reads the watch at `path` until an event that `is_awaited`.
fn await_event(url: &str, path: &str, is_awaited: impl Fn(&Value) -> bool) {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    let request = format!("GET {path}?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    for line in BufReader::new(stream).lines() {
        let line = line.expect("the watch goes on");
        let event: Option<Value> = serde_json::from_str(&line).ok();
        if event.is_some_and(|event| is_awaited(&event)) {
            return;
        }
    }
    panic!("the watch has ended");
}

fn name(event: &Value) -> &str {
    event["object"]["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
}

/// The names of the namespaces that runs have made and that are still there.
fn left(url: &str) -> usize {
    get(url, NAMESPACES, "")
        .matches(r#""name":"kubeproof-"#)
        .count()
}

#[test]
fn scenarios_run_with_the_controllers_of_the_cluster() {
    let path = kubeconfig("remote-own");
    let alone = [
        "--nodes",
        "1",
        "--controllers",
        "none",
        "--kubeconfig-out",
        &path,
    ];
    let (server, url) = serve(&alone);
    let names = "statefulset,serviceaccount,garbage-collector,namespace";
    let controllers = ["controllers", "--kubeconfig", &path, "--controllers", names];
    let (controllers, line) = start(&mut kubeproof(&controllers));
    assert!(line.starts_with("running statefulset, "), "{line}");
    let ordered = format!("{SCENARIOS}statefulset/sts-create-ordered.yaml");
    let silent = format!("{SCENARIOS}node/node-notready.yaml");
    let run = output(&["run", "--kubeconfig", &path, &ordered, &silent]);
    let said = stdout(&run);
    assert!(
        said.contains("ok   statefulset/sts-create-ordered"),
        "{said}"
    );
    assert!(said.contains("skip node/node-notready"), "{said}");
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    assert_eq!(left(&url), 0, "no namespace is left");
    terminate(controllers);
    terminate(server);
}

#[test]
fn controllers_say_what_runs_and_end_with_their_server_if_asked_to() {
    let path = kubeconfig("remote-ends");
    let alone = ["--controllers", "none", "--kubeconfig-out", &path];
    let (server, url) = serve(&alone);
    let run = |more: &[&str]| {
        let controllers = ["controllers", "--kubeconfig", &path];
        let mut command = kubeproof(&[&controllers[..], more].concat());
        start(command.stderr(Stdio::piped()))
    };
    for (flags, running) in [
        (&["--controllers", "deployment"][..], "deployment"),
        (
            &["--controllers", "deployment,replicaset,job"],
            "deployment, replicaset and job",
        ),
        (
            &["--controllers", "job", "--nodes", "1", "--pace", "real"],
            "job and 1 node",
        ),
        (&["--controllers", "none", "--nodes", "2"], "2 nodes"),
    ] {
        let (child, line) = run(flags);
        let wanted = format!("running {running} against {url}/ (v1.36.2)\n");
        assert_eq!(line, wanted);
        terminate(child);
    }
    let nothing = output(&[
        "controllers",
        "--kubeconfig",
        &path,
        "--controllers",
        "none",
    ]);
    assert_eq!(nothing.status.code(), Some(2));
    let said = String::from_utf8(nothing.stderr).unwrap();
    assert!(said.contains("there is nothing to run"), "{said}");

    let (forever, _) = run(&["--controllers", "job"]);
    let (bound, _) = run(&["--controllers", "job", "--exit-on-disconnect=1s"]);
    terminate(server);
    let ended = bound.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8(ended.stderr).unwrap();
    let wanted = format!("error: the API server at {url}/ could not be reached for 1s\n");
    assert!(said.ends_with(&wanted), "{said}");
    let mut forever = forever;
    let mut stderr = forever.stderr.take().unwrap();
    terminate(forever);
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    let cap = "failed watches are retried within 30s";
    assert!(said.starts_with(cap), "{said}");
}

#[test]
fn refusals_are_reported_in_words() {
    let path = kubeconfig("remote-words");
    let flags = ["--tls", "--token", "secret", "--kubeconfig-out", &path];
    let (server, _) = serve(&flags);
    let webhooks = ["webhooks", "--kubeconfig", &path];
    let undefined = output(&webhooks);
    let said = String::from_utf8(undefined.stderr).unwrap();
    assert!(
        said.starts_with(
            "error: OpenKruise's definitions are not installed in the API server at https://"
        ),
        "{said}"
    );
    assert!(
        said.ends_with("\"clonesets.apps.kruise.io\" not found\n"),
        "{said}"
    );
    // A user that the server knows and permits nothing.
    let config = std::fs::read_to_string(&path).unwrap();
    let mut config: Value = serde_saphyr::from_str(&config).unwrap();
    config["users"][0]["user"] = serde_json::json!({"token": "secret", "as": "nobody"});
    std::fs::write(&path, config.to_string()).unwrap();
    for command in [
        &webhooks[..],
        &["export", "--kubeconfig", &path],
        &[
            "run",
            "--kubeconfig",
            &path,
            &format!("{SCENARIOS}gc/gc-policy-switch.yaml"),
        ],
    ] {
        let refused = output(command);
        let said = [refused.stdout, refused.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_ne!(refused.status.code(), Some(0), "{said}");
        assert!(said.contains("403 "), "{command:?}: {said}");
        assert!(
            said.contains("User \"nobody\" cannot"),
            "{command:?}: {said}"
        );
        assert!(!said.contains("Status {"), "{command:?}: {said}");
    }
    terminate(server);
}

#[test]
fn scenarios_run_with_controllers_of_ones_own_choice_over_tls_with_a_token() {
    let path = kubeconfig("remote-tls");
    let secured = [
        "--nodes",
        "3",
        "--controllers",
        "none",
        "--kubeconfig-out",
        &path,
    ];
    let (server, url) = serve(&[&secured[..], &["--tls", "--token", "secret"]].concat());
    assert!(url.starts_with("https://"), "{url}");
    let held = format!("{SCENARIOS}gc/gc-policy-switch.yaml");
    let deployed = format!("{SCENARIOS}deployment/deployment-recreate.yaml");
    let chosen = ["run", "--kubeconfig", &path, "--controllers", "all"];
    let run = output(&[&chosen[..], &[&held, &deployed]].concat());
    let said = stdout(&run);
    assert!(said.ends_with("2 passed, 0 failed\n"), "{said}");
    terminate(server);
}

#[test]
fn a_run_that_fails_or_is_interrupted_leaves_no_namespace() {
    let path = kubeconfig("remote-clean");
    let (server, url) = serve(&["--nodes", "1", "--kubeconfig-out", &path]);
    let held = "title: t\nsource: s\nsteps:\n\
        - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, finalizers: [example.io/hold]}}\n\
        - delete: {target: configmap/absent}\n";
    let failing = file("remote-clean/scenarios/own/fails.yaml", held);
    let failing = failing.to_str().expect("cargo's directories are UTF-8");
    let run = output(&["run", "--kubeconfig", &path, failing]);
    assert!(stdout(&run).contains("FAIL own/fails"), "{run:?}");
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(left(&url), 0, "after a failure");

    let endless = held.replace(
        "delete: {target: configmap/absent}",
        "wait: {for: pod/absent, gone: false, field: .spec}",
    );
    let endless = file("remote-clean/scenarios/own/waits.yaml", &endless);
    let endless = endless.to_str().expect("cargo's directories are UTF-8");
    let run = kubeproof(&["run", "--kubeconfig", &path, endless])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let maps = format!("{NAMESPACES}/kubeproof-waits/configmaps");
    await_event(&url, &maps, |event| name(event) == "a");
    send(Signal::INT, run.id());
    let run = run.wait_with_output().expect("it ends");
    assert_eq!(run.status.code(), Some(2));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.ends_with("error: interrupted\n"), "{said}");
    assert_eq!(left(&url), 0, "after an interruption");
    terminate(server);
}

#[test]
fn a_namespace_that_a_killed_run_has_left_is_taken_over_and_a_foreign_one_is_not() {
    let path = kubeconfig("remote-left");
    let (server, url) = serve(&["--nodes", "1", "--kubeconfig-out", &path]);
    let scenario = "title: t\nsource: s\nsteps: [{table: configmaps}]\n";
    let scenario = file("remote-left/scenarios/own/mine.yaml", scenario);
    let golden = "outcome\n";
    let _ = file("remote-left/snapshots/own__mine.snap", golden);
    let scenario = scenario.to_str().expect("cargo's directories are UTF-8");
    let run = ["run", "--kubeconfig", &path, scenario];
    for (labels, expected) in [
        (
            r#"{"app.kubernetes.io/managed-by":"kubeproof"}"#,
            "ok   own/mine",
        ),
        ("{}", "namespace kubeproof-mine: it exists already"),
    ] {
        let namespace = format!(r#"{{"metadata":{{"name":"kubeproof-mine","labels":{labels}}}}}"#);
        assert!(post(&url, NAMESPACES, &namespace).starts_with("HTTP/1.1 201"));
        let said = stdout(&output(&run));
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(left(&url), 1, "the foreign one is left alone");
    terminate(server);
}

#[test]
fn a_server_that_refuses_or_is_not_there_is_named() {
    let path = kubeconfig("remote-refused");
    let (server, url) = serve(&["--token", "secret", "--kubeconfig-out", &path]);
    let config = std::fs::read_to_string(&path).expect("it was written");
    let wrong = file("remote-refused/wrong", &config.replace("secret", "wrong"));
    let wrong = wrong.to_str().expect("cargo's directories are UTF-8");
    let unauthorized = format!("error: cannot use the API server at {url}/: 401 Unauthorized\n");
    let scenario = format!("{SCENARIOS}statefulset/sts-create-ordered.yaml");
    for command in [
        vec!["controllers", "--kubeconfig", wrong],
        vec!["run", "--kubeconfig", wrong, &scenario],
    ] {
        let refused = output(&command);
        assert_eq!(refused.status.code(), Some(2));
        assert_eq!(String::from_utf8_lossy(&refused.stderr), unauthorized);
    }
    let anonymous = file(
        "remote-refused/anonymous",
        &config.replace("token: secret", "username: x"),
    );
    let anonymous = anonymous.to_str().expect("cargo's directories are UTF-8");
    let names = ["--controllers", "statefulset"];
    let (mut forbidden, _) = start(
        kubeproof(&[&["controllers", "--kubeconfig", anonymous][..], &names].concat())
            .stderr(Stdio::piped()),
    );
    let mut stderr = BufReader::new(forbidden.stderr.take().expect("it is piped"));
    let mut greeting = String::new();
    stderr
        .read_line(&mut greeting)
        .expect("it says how to end it");
    let mut line = String::new();
    stderr
        .read_line(&mut line)
        .expect("it reports the first refusal");
    let is_reported = line.contains(r#"error="403 "#) && line.contains("system:anonymous");
    assert!(is_reported, "{line}");
    terminate(forbidden);
    terminate(server);
    let gone = output(&["controllers", "--kubeconfig", &path]);
    let said = String::from_utf8_lossy(&gone.stderr);
    assert!(said.contains(&format!("API server at {url}/: ")), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
    assert_eq!(gone.status.code(), Some(2));
}

#[test]
fn controllers_go_on_with_a_server_that_has_begun_anew() {
    let path = kubeconfig("remote-anew");
    let alone = [
        "--nodes",
        "1",
        "--controllers",
        "none",
        "--kubeconfig-out",
        &path,
    ];
    let (server, url) = serve(&alone);
    let names = "statefulset,serviceaccount";
    let (mut controllers, _) = start(
        kubeproof(&["controllers", "--kubeconfig", &path, "--controllers", names])
            .stderr(Stdio::piped()),
    );
    let pods = "/api/v1/namespaces/default/pods";
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let web = r#"{"metadata":{"name":"web"},"spec":{"replicas":1,"serviceName":"web",
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    assert!(post(&url, sets, web).starts_with("HTTP/1.1 201"));
    await_event(&url, pods, |event| {
        event["object"]["status"]["phase"] == "Running"
    });
    terminate(server);
    // The controllers log the lost connection.
    let mut lines = BufReader::new(controllers.stderr.take().expect("it is piped")).lines();
    let noticed =
        lines.find_map(|line| line.ok().filter(|line| line.contains("Connection refused")));
    assert!(noticed.expect("it is reported").contains("watch failed"));
    let address = url.trim_start_matches("http://");
    let (server, _) = serve(&[&alone[..], &["--listen", address]].concat());
    assert!(post(&url, sets, web).starts_with("HTTP/1.1 201"));
    await_event(&url, pods, |event| {
        event["object"]["status"]["phase"] == "Running"
    });
    terminate(controllers);
    terminate(server);
}
