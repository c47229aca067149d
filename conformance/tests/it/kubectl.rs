//! The real `kubectl` against `serve`: what reads, writes and looks into containers. Without a `kubectl` on the path the
//! tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::process::{file, get, serve, start, terminate};

/// A server with nodes, and a `kubectl` that knows it.
struct Cluster {
    /// The server; `None` once it was sent a signal.
    child: Option<Child>,
    kubeconfig: PathBuf,
    /// A variable of kubectl that is false.
    variable: &'static str,
}

/// The output of a command on both streams, and its exit code.
type Ended = (String, Option<i32>);

impl Cluster {
    /// `None`, and words about it, where there is no `kubectl`.
    fn start(name: &str) -> Option<Self> {
        Self::start_with(name, &[])
    }

    /// Starts a cluster with more arguments for the server.
    fn start_with(name: &str, arguments: &[&str]) -> Option<Self> {
        let version = Command::new("kubectl")
            .args(["version", "--client"])
            .output();
        if version.is_err() {
            eprintln!("skipped: there is no kubectl on the path");
            return None;
        }
        let kubeconfig = file(&format!("kubectl/{name}"), "");
        let path = kubeconfig.to_str().unwrap();
        let mut all = vec!["--tls", "--token", "secret", "--nodes", "1"];
        all.extend(["--kubeconfig-out", path]);
        all.extend(arguments);
        let (child, _) = serve(&all);
        let child = Some(child);
        Some(Self {
            child,
            kubeconfig,
            variable: "UNUSED",
        })
    }

    /// Forwards a port of a pod while `use_it` uses the local one; what was written on standard error.
    fn forward(&self, arguments: &str, variable: &str, use_it: impl FnOnce(u16)) -> String {
        let mut command = Command::new("kubectl");
        command
            .args(words(arguments))
            .env("KUBECONFIG", &self.kubeconfig);
        command.env(variable, "false").stderr(Stdio::piped());
        let (mut child, line) = start(&mut command);
        let address = line.strip_prefix("Forwarding from ").unwrap_or_else(|| {
            let mut why = String::new();
            child
                .stderr
                .as_mut()
                .unwrap()
                .read_to_string(&mut why)
                .unwrap();
            panic!("{arguments}: {line}{why}")
        });
        let (address, _) = address.split_once(" -> ").unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        use_it(port.parse().unwrap());
        drop(child.kill());
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    }

    fn kubectl(&self, arguments: &str) -> Ended {
        let mut ended = self.typed(arguments, "");
        // A kubectl without kubernetes/kubernetes#131203 discards what comes before it has made its streams, which happens on a busy
        // machine. What can be done again is done again.
        for _ in 0..2 {
            let is_repeatable = arguments.starts_with("cp ") || arguments.starts_with("exec ");
            if !is_repeatable || !ended.0.contains("Unknown stream id") {
                break;
            }
            ended = self.typed(arguments, "");
        }
        ended
    }

    /// Runs kubectl with `input` on standard input.
    fn typed(&self, arguments: &str, input: &str) -> Ended {
        let mut child = Command::new("kubectl")
            .args(words(arguments))
            .env("KUBECONFIG", &self.kubeconfig)
            .env(self.variable, "false")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8(text).unwrap(), output.status.code())
    }

    /// Fails the test unless the command succeeds.
    fn done(&self, arguments: &str) -> String {
        let (text, code) = self.kubectl(arguments);
        assert_eq!(code, Some(0), "{arguments}: {text}");
        text
    }

    fn end(mut self) {
        terminate(self.child.take().unwrap());
    }
}

impl Drop for Cluster {
    /// Ends the server of a failed test.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Words between spaces, where single quotes keep them together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("kubectl")
        .join(name);
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn cp_carries_files_and_directories_both_ways() {
    let Some(cluster) = Cluster::start("cp") else {
        return;
    };
    cluster.done("run p --image=busybox --command -- tail -f /dev/null");
    cluster.done("wait --for=condition=Ready pod/p --timeout=60s");
    let here = scratch("cp-files");
    std::fs::create_dir_all(here.join("dir/sub")).unwrap();
    let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(here.join("dir/bytes"), &bytes).unwrap();
    std::fs::write(here.join("dir/sub/text"), "hello\n").unwrap();
    let path = |name: &str| here.join(name).to_str().unwrap().to_owned();
    cluster.done(&format!("cp {} p:/tmp/text", path("dir/sub/text")));
    assert_eq!(cluster.done("exec p -- cat /tmp/text"), "hello\n");
    cluster.done(&format!("cp {} p:/tmp/", path("dir")));
    cluster.done(&format!("cp p:/tmp/dir {}", path("back")));
    assert_eq!(std::fs::read(here.join("back/bytes")).unwrap(), bytes);
    cluster.done(&format!("cp p:/tmp/dir/sub/text {}", path("text")));
    assert_eq!(std::fs::read(here.join("text")).unwrap(), b"hello\n");
    // kubectl reads an empty archive, and may end before it hears why. So the program is asked itself.
    cluster.kubectl(&format!("cp p:/tmp/none {}", path("none")));
    assert!(!here.join("none").exists());
    let (text, code) = cluster.kubectl("exec p -- tar cf /tmp/archive /tmp/none");
    assert!(text.contains("No such file or directory"), "{text}");
    assert_eq!(code, Some(1), "{text}");
    cluster.end();
}

#[test]
fn run_gives_its_input_to_the_shell_and_its_code_to_the_caller() {
    let Some(cluster) = Cluster::start("run") else {
        return;
    };
    let run = "run x -i --rm --restart=Never --image=busybox --command -- sh";
    let (text, code) = cluster.typed(run, "echo hi\nexit 4\n");
    assert_eq!(code, Some(4), "{text}");
    assert!(text.lines().any(|line| line == "hi"), "{text}");
    let run =
        "run y --restart=Never --image=docker.io/library/busybox:1.36 -- sh -c 'echo args; exit 3'";
    cluster.done(run);
    let phase = "wait --for=jsonpath={.status.phase}=Failed pod/y --timeout=60s";
    cluster.done(phase);
    assert_eq!(cluster.done("logs y"), "args\n");
    let ended = "get pod y -o jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(cluster.done(ended), "3");
    cluster.end();
}

#[test]
fn debug_adds_a_container_and_shows_what_it_writes() {
    let Some(cluster) = Cluster::start("debug") else {
        return;
    };
    cluster.done("run p --image=nginx");
    cluster.done("wait --for=condition=Ready pod/p --timeout=60s");
    // kubectl attaches once the container runs, and an attach shows no earlier output, so the output waits for the input.
    let debug = "debug p -it --image=busybox -c look -- sh -c 'read word; echo hi'";
    let (text, code) = cluster.typed(debug, "go\n");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.lines().any(|line| line == "hi"), "{text}");
    // A terminal echoes its input.
    assert_eq!(cluster.done("logs p -c look"), "go\r\nhi\r\n");
    cluster.done("debug p --image=busybox -c idle -- sleep infinity");
    let idle = "wait --for=jsonpath={.status.ephemeralContainerStatuses[1].state.running} pod/p --timeout=60s";
    cluster.done(idle);
    assert_eq!(cluster.done("exec p -c idle -- hostname"), "p\n");
    cluster.end();
}

/// Environment variables that make kubectl avoid WebSockets.
const FORWARDS_BY_SPDY: &str = "KUBECTL_PORT_FORWARD_WEBSOCKETS";
const EXECS_BY_SPDY: &str = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS";

/// A program on loopback that repeats the line it is sent, for as long as the test runs; its port.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut line = String::new();
            let mut reader = BufReader::new(stream.unwrap());
            reader.read_line(&mut line).unwrap();
            reader.get_mut().write_all(line.as_bytes()).unwrap();
        }
    });
    port
}

fn says_again(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"again\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "again\n");
}

#[test]
fn port_forward_leads_to_a_small_server_and_to_programs_on_loopback() {
    let echo = echo();
    let flag = format!("default/fl*:9001=127.0.0.1:{echo}");
    let Some(cluster) = Cluster::start_with("forward", &["--port-forward", &flag]) else {
        return;
    };
    cluster.done("run web --image=nginx");
    let annotation = format!("kubeproof.dev/port-forward=9000=127.0.0.1:{echo}");
    let sleep = "--port=8080 --image=busybox --command -- sleep infinity";
    cluster.done(&format!("run own --annotations={annotation} {sleep}"));
    cluster.done(&format!("run flagged {sleep}"));
    let listen = "while true; do echo hello | nc -l -p 8080 || true; done";
    cluster.done(&format!(
        "run listens --port=8080 --image=busybox --command -- sh -c '{listen}'"
    ));
    cluster.done("wait --for=condition=Ready pod --all --timeout=60s");
    for variable in ["UNUSED", FORWARDS_BY_SPDY] {
        cluster.forward("port-forward web :80", variable, |port| {
            let url = format!("http://127.0.0.1:{port}");
            for _ in 0..2 {
                let page = get(&url, "/", "");
                assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
                assert!(page.contains("<h1>Welcome to nginx!</h1>"), "{page}");
            }
            assert!(get(&url, "/none", "").starts_with("HTTP/1.1 404 "));
        });
        cluster.forward("port-forward own :8080", variable, |port| {
            let url = format!("http://127.0.0.1:{port}");
            assert_eq!(
                get(&url, "/any/path", ""),
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\
                 content-length: 27\r\n\r\npod default/own, port 8080\n"
            );
        });
        cluster.forward("port-forward own :9000", variable, says_again);
        cluster.forward("port-forward listens :8080", variable, |port| {
            let mut said = String::new();
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.read_to_string(&mut said).unwrap();
            assert_eq!(said, "hello\n");
        });
        cluster.forward("port-forward flagged :9001", variable, says_again);
        let why = cluster.forward("port-forward web :81", variable, |port| {
            // The client closes what it can't forward.
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        });
        let refused = "dial tcp4 127.0.0.1:81: connect: connection refused IPv6 dial tcp6 [::1]:81";
        assert!(why.contains("error forwarding port 81 to pod "), "{why}");
        assert!(why.contains(refused), "{why}");
    }
    cluster.end();
}

#[test]
fn exec_works_without_websockets() {
    let Some(mut cluster) = Cluster::start("spdy") else {
        return;
    };
    cluster.variable = EXECS_BY_SPDY;
    cluster.done("run p --image=busybox --command -- tail -f /dev/null");
    cluster.done("wait --for=condition=Ready pod/p --timeout=60s");
    let (text, code) = cluster.typed("exec -i p -- sh", "echo hi; echo oh >&2\nexit 4\n");
    assert_eq!(code, Some(4), "{text}");
    assert_eq!(
        text.lines().take(2).collect::<Vec<_>>(),
        ["hi", "oh"],
        "{text}"
    );
    let (text, code) = cluster.kubectl("exec p -- no-such-program");
    assert!(
        text.contains("executable file not found in $PATH"),
        "{text}"
    );
    assert_eq!(code, Some(1), "{text}");
    cluster.end();
}
