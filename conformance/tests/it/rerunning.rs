//! `run --watch` on files that change.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use rustix::process::Signal;

use crate::support::process::{file, kubeproof, send};

/// A scenario of one ConfigMap, whose golden has its data.
fn scenario(data: &str) -> String {
    format!(
        "title: A ConfigMap is created\nsource: none\ngiven: {{nodes: 0}}\nsteps:\n- create: {{apiVersion: v1, kind: ConfigMap, \
         metadata: {{name: a}}, data: {{of: {data}}}}}\n"
    )
}

/// A program that sends a request, and does nothing more.
const PROGRAM: &str = r"address=${KUBEPROOF_URL#http://}
exec 3<>/dev/tcp/${address%:*}/${address#*:}
printf 'GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
exec sleep 99
";

/// A process of `run --watch`.
struct Watching {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Watching {
    fn start(arguments: &[&str]) -> Watching {
        let mut command = kubeproof(&["run", "--watch"]);
        let command = command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        Watching {
            child,
            stdout,
            stderr,
        }
    }

    /// The first words of the lines for scenarios, and the last line, of the next run. Returns when the program waits.
    fn run(&mut self) -> (Vec<String>, String) {
        let mut scenarios = Vec::new();
        let last = loop {
            let line = line_of(&mut self.stdout);
            if line.ends_with(" failed") {
                break line;
            }
            if line.starts_with("ok ") || line.starts_with("FAIL ") {
                let words = line.split_whitespace().take(2);
                scenarios.push(words.collect::<Vec<_>>().join(" "));
            }
        };
        while !line_of(&mut self.stderr).starts_with("waiting for changes") {}
        (scenarios, last)
    }

    fn end(mut self) {
        // Not SIGINT, which a job in the background of a shell ignores, and its children, too.
        send(Signal::TERM, self.child.id());
        let ended = self.child.wait().expect("it is our child");
        assert!(!ended.success(), "a signal ends it: {ended}");
    }
}

fn line_of(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    let bytes = reader.read_line(&mut line).expect("it prints UTF-8");
    assert!(bytes > 0, "it goes on until it is ended");
    line.trim_end().to_owned()
}

/// Changes a file as many editors do: a new one takes its place.
fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).expect("it can be written");
    std::fs::rename(&new, path).expect("it can be replaced");
}

#[test]
fn a_scenario_runs_again_when_its_file_changes() {
    // An earlier run has left its files.
    let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rerunning");
    let _ = std::fs::remove_dir_all(left);
    let one = file("rerunning/scenarios/shop/one.yaml", &scenario("x"));
    file("rerunning/scenarios/shop/two.yaml", &scenario("x"));
    let scenarios = one.parent().expect("below a directory");
    let scenarios = scenarios.to_str().expect("cargo's directories are UTF-8");
    let accepted = kubeproof(&["run", scenarios, "--accept"]).output();
    assert!(accepted.expect("the program runs").status.success());

    let mut watching = Watching::start(&[scenarios]);
    let both = ["ok shop/one", "ok shop/two"].map(str::to_owned).to_vec();
    assert_eq!(watching.run(), (both, "2 passed, 0 failed".to_owned()));
    replace(&one, &scenario("y"));
    let broken = vec!["FAIL shop/one".to_owned()];
    assert_eq!(watching.run(), (broken, "0 passed, 1 failed".to_owned()));
    std::fs::write(&one, scenario("x")).expect("it can be written");
    let mended = vec!["ok shop/one".to_owned()];
    assert_eq!(watching.run(), (mended, "1 passed, 0 failed".to_owned()));
    file("rerunning/scenarios/shop/three.yaml", &scenario("z"));
    let new = vec!["FAIL shop/three".to_owned()];
    assert_eq!(watching.run(), (new, "0 passed, 1 failed".to_owned()));
    watching.end();
}

#[test]
fn every_scenario_runs_again_when_the_program_changes() {
    let program = file("rerunning-program/operator.sh", PROGRAM);
    let one = file("rerunning-program/scenarios/shop/one.yaml", &scenario("x"));
    let command = format!("bash {}", program.display());
    let arguments = [
        one.to_str().expect("cargo's directories are UTF-8"),
        "--program",
        &command,
        "--settle-after",
        "100ms",
    ];
    let accepted = kubeproof(&["run", "--accept"]).args(arguments).output();
    assert!(accepted.expect("the program runs").status.success());

    let mut watching = Watching::start(&arguments);
    let passed = (
        vec!["ok shop/one".to_owned()],
        "1 passed, 0 failed".to_owned(),
    );
    assert_eq!(watching.run(), passed);
    replace(&program, &PROGRAM.replace("99", "98"));
    assert_eq!(watching.run(), passed);
    watching.end();
}
