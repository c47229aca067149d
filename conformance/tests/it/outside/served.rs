//! Programs that `serve` starts, in real and in virtual time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use super::in_role;
use crate::support::process::{file, get, kubeproof, output, post, serve, start, terminate};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const ASKS_FOR_COPY: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {copy: \"yes\"}}}";
/// How often a second passes until a program has started.
const STARTING: usize = 100;

/// Lets virtual time pass.
fn advance(url: &str, time: &str) {
    let answer = post(url, &format!("/kubeproof/v1/clock?advance={time}"), "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Reads a watch with these headers until `text` comes.
fn watch_until(url: &str, headers: &str, text: &str) {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let request = format!(
        "GET {CONFIGMAPS}?watch=1&timeoutSeconds=60 HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&read).contains(text) {
        let length = stream.read(&mut piece).unwrap();
        let so_far = String::from_utf8_lossy(&read);
        assert!(length > 0, "no {text} in {so_far}");
        read.extend_from_slice(&piece[..length]);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_served_program_lives_a_day_in_one_request() {
    let given = file("served-day/given.yaml", ASKS_FOR_COPY);
    let (given, program) = (given.to_str().unwrap(), in_role("virtual-resyncs"));
    // Other controllers look around every few seconds, 20,000 times a day.
    let controllers = ["--controllers", "statefulset"];
    let arguments = ["--virtual-time", "--program", &program, "--load", given];
    let (child, url) = serve(&[controllers.as_slice(), &arguments].concat());
    let count = || get(&url, &format!("{CONFIGMAPS}/resyncs"), "");
    let started = (0..STARTING).any(|_| {
        advance(&url, "1s");
        count().contains(r#""count":"1""#)
    });
    assert!(started, "{}", count());
    advance(&url, "9h");
    assert!(count().contains(r#""count":"1""#), "{}", count());
    advance(&url, "15h");
    assert!(count().contains(r#""count":"3""#), "{}", count());
    terminate(child);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_served_program_that_ends_is_started_again_ever_later() {
    let lives = file("served-lives/lives", "");
    let program = format!("echo life >> {}; exit 3", lives.display());
    let arguments = ["serve", "--virtual-time", "--program", &program];
    let (child, line) = start(kubeproof(&arguments).stderr(Stdio::piped()));
    let url = line.trim().strip_prefix("listening on ").unwrap();
    let count = || std::fs::read_to_string(&lives).unwrap().lines().count();
    let started = (0..STARTING).any(|_| {
        advance(url, "1s");
        count() == 1
    });
    assert!(started);
    // After 10 s, 30 s, 70 s and 150 s.
    advance(url, "25s");
    assert_eq!(count(), 2);
    advance(url, "15s");
    assert_eq!(count(), 3);
    advance(url, "2m");
    assert_eq!(count(), 5);
    let said = ended(child);
    let first = "program 1: it has exited: exit status: 3; it is started again in 10s\n";
    assert!(said.contains(first), "{said}");
    assert!(said.contains("it is started again in 2m40s\n"), "{said}");
}

/// Ends a server; returns what it has written to standard error.
fn ended(mut child: Child) -> String {
    let mut stderr = child.stderr.take().unwrap();
    terminate(child);
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn a_served_program_in_real_time_has_credentials_where_they_are_asked_for() {
    let given = file("served-copy/given.yaml", ASKS_FOR_COPY);
    let kept = given.with_file_name("kept");
    let program = format!("echo at {{url}}; {}", in_role("watches"));
    let arguments = [
        "--program",
        &program,
        "--load",
        given.to_str().unwrap(),
        "--token",
        "secret",
        "--program-output",
        kept.to_str().unwrap(),
    ];
    let (child, url) = serve(&arguments);
    let refused = get(&url, CONFIGMAPS, "");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    watch_until(&url, "Authorization: Bearer secret\r\n", "a-copy");
    terminate(child);
    let printed = std::fs::read_to_string(kept.join("serve.program-1.log")).unwrap();
    assert!(printed.starts_with("at https://127.0.0.1:"), "{printed}");
}

#[test]
fn virtual_time_without_programs_passes_as_real_time_does_until_it_is_advanced() {
    let (child, url) = serve(&["--virtual-time", "--nodes", "1"]);
    let pod = r#"{"metadata":{"name":"p"},"spec":{"restartPolicy":"Never",
        "containers":[{"name":"a","image":"busybox","command":["sleep","7200"]}]}}"#;
    let pods = "/api/v1/namespaces/default/pods";
    let created = post(&url, pods, pod);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let phase = |phase: &str| get(&url, &format!("{pods}/p"), "").contains(phase);
    advance(&url, "1h");
    assert!(phase(r#""phase":"Running""#));
    advance(&url, "90m");
    assert!(phase(r#""phase":"Succeeded""#));
    terminate(child);
}

#[test]
fn time_that_is_real_and_services_without_programs_are_refused() {
    let (child, url) = serve(&["--controllers", "none"]);
    let refused = post(&url, "/kubeproof/v1/clock?advance=1h", "");
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    let why = "the time of this server passes by itself; kubeproof serve --virtual-time has time that advances";
    assert!(refused.contains(why), "{refused}");
    terminate(child);
    let refused = output(&["serve", "--service", "infra/hook"]);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    let why = "--service: an address is expected where there is no --program";
    assert!(said.contains(why), "{said}");
}
