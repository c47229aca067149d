//! The real `kubectl` against `serve`: what reads, writes and looks into containers. Without a `kubectl` on the path the
//! tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/process.rs"]
mod process;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use process::{file, serve, terminate};

/// A server with nodes, and a `kubectl` that knows it.
struct Cluster {
    /// `None` once it has been told to end.
    child: Option<Child>,
    kubeconfig: PathBuf,
}

/// What a command has written to both streams, and its exit code.
type Ended = (String, Option<i32>);

impl Cluster {
    /// `None`, and words about it, where there is no `kubectl`.
    fn start(name: &str) -> Option<Self> {
        let version = Command::new("kubectl")
            .args(["version", "--client"])
            .output();
        if version.is_err() {
            eprintln!("skipped: there is no kubectl on the path");
            return None;
        }
        let kubeconfig = file(&format!("kubectl/{name}"), "");
        let path = kubeconfig.to_str().unwrap();
        let (child, _) = serve(&[
            "--tls",
            "--token",
            "secret",
            "--nodes",
            "1",
            "--kubeconfig-out",
            path,
        ]);
        let child = Some(child);
        Some(Self { child, kubeconfig })
    }

    fn kubectl(&self, arguments: &str) -> Ended {
        self.typed(arguments, "")
    }

    /// The same with something on standard input.
    fn typed(&self, arguments: &str, input: &str) -> Ended {
        let mut child = Command::new("kubectl")
            .args(words(arguments))
            .env("KUBECONFIG", &self.kubeconfig)
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
    /// A failed test leaves no server behind.
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
    let debug = "debug p -it --image=busybox -c look -- sh -c 'echo hi'";
    let (text, code) = cluster.kubectl(debug);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.lines().any(|line| line == "hi"), "{text}");
    assert_eq!(cluster.done("logs p -c look"), "hi\n");
    cluster.done("debug p --image=busybox -c idle -- sleep infinity");
    let idle = "wait --for=jsonpath={.status.ephemeralContainerStatuses[1].state.running} pod/p --timeout=60s";
    cluster.done(idle);
    assert_eq!(cluster.done("exec p -c idle -- hostname"), "p\n");
    cluster.end();
}
