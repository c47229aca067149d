//! Runs of the program: a few scenarios in one process, with a mutant or without.

use std::ffi::OsString;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Deserialize;

/// The address space of a run in KiB: a mutant must not take the memory of the machine.
const MEMORY_KIB: u64 = 8 << 20;
/// A run that is blocked uses no processor time. On a busy machine any run can take long.
const WAIT: Duration = Duration::from_mins(30);

/// A line of `kubeproof run --json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) scenario: String,
    pub(crate) passed: bool,
    pub(crate) milliseconds: u64,
    pub(crate) failure: Option<String>,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All scenarios passed, or one failed: the last line says it.
    Finished,
    /// It used all its time.
    Hung,
    /// The process did not end by itself.
    Crashed,
}

/// A program, and where it runs.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) root: PathBuf,
}

impl Program {
    /// Runs scenarios one after another until one fails, with at most `limit` of processor time.
    ///
    /// # Errors
    /// The program cannot be started, or fails without having run a scenario.
    pub(crate) fn run(
        &self,
        scenarios: &[&str],
        limit: Duration,
        variable: (&str, OsString),
    ) -> anyhow::Result<(Vec<Line>, End)> {
        // A shell can limit a process without unsafe code.
        let script = "ulimit -t $1; ulimit -v $2 2>/dev/null; shift 2; exec \"$@\"";
        let seconds = limit.as_secs().max(1).to_string();
        let mut command = Command::new("sh");
        command
            .current_dir(&self.root)
            .args(["-c", script, "sh", &seconds, &MEMORY_KIB.to_string()])
            .arg(&self.path)
            .args(["run", "--json", "--jobs", "1", "--fail-fast"])
            .args(scenarios.iter().map(|name| path_of(name)))
            .env("CI", "true")
            .env(variable.0, variable.1)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start a shell")?;
        let output = child.stdout.take().context("a run has an output")?;
        let (send, receive) = channel();
        let reader = std::thread::spawn(move || {
            for line in std::io::BufReader::new(output).lines() {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + limit + WAIT;
        let mut lines = Vec::new();
        let mut waited_too_long = false;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match receive.recv_timeout(left) {
                // The last line, a summary, is no such object.
                Ok(line) => lines.extend(serde_json::from_str::<Line>(&line?)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    waited_too_long = true;
                    child.kill()?;
                    break;
                }
            }
        }
        let status = child.wait()?;
        let _ = reader.join();
        let end = match waited_too_long {
            true => End::Hung,
            false => end(status),
        };
        if end == End::Finished && lines.is_empty() {
            anyhow::bail!("{} ran nothing: {status}", self.path.display());
        }
        Ok((lines, end))
    }
}

/// The file of a scenario, from the root of the workspace.
pub(crate) fn path_of(name: &str) -> PathBuf {
    Path::new(SCENARIOS).join(format!("{name}.yaml"))
}

/// The directory of scenarios, from the root of the workspace.
const SCENARIOS: &str = "conformance/scenarios";

/// The names of all scenarios, sorted.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn all(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = super::tree::files(&root.join(SCENARIOS))?;
    let names = files.iter().filter_map(|file| file.strip_suffix(".yaml"));
    Ok(names.map(ToOwned::to_owned).collect())
}

fn end(status: ExitStatus) -> End {
    match status.code() {
        // Everything passed, or something failed.
        Some(0 | 1) => End::Finished,
        None if is_over_time(status) => End::Hung,
        // A panic has another code.
        _ => End::Crashed,
    }
}

/// Whether the system ended a process because it was over its limit of processor time.
#[cfg(unix)]
fn is_over_time(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;

    const SIGKILL: i32 = 9;
    const SIGXCPU: i32 = 24;

    matches!(status.signal(), Some(SIGKILL | SIGXCPU))
}

#[cfg(not(unix))]
fn is_over_time(_: ExitStatus) -> bool {
    false
}
