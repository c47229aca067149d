//! The process of a program.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, Command};

use super::environment::{Variables, filled};
use super::output::Output;
use super::processes::{Groups, Listed};

/// The time that a program has to end after it was asked to: the grace period of a pod, cut short.
const GRACE: Duration = Duration::from_secs(10);

/// Lets a shell kill its process group when its standard input ends, which happens when this process ends, in whatever way.
/// The program itself has no input.
const WATCH: &str =
    "exec 3<&0 </dev/null; { cat <&3; kill -KILL 0; } >/dev/null 2>&1 & exec 3<&-; ";

/// Runs the program until it ends; returns how. `None` when `stop` has completed first: the program was then asked to
/// end, and killed if it did not. Dropped, it kills the program with all that it has started.
pub(super) async fn live(
    command: &str,
    variables: &Variables,
    (output, groups): (&Output, &Groups),
    stop: impl Future<Output = ()>,
) -> Option<String> {
    let mut process = match Process::start(command, variables, output) {
        Err(error) => return Some(format!("it cannot be started: {error}")),
        Ok(process) => process,
    };
    let _listed: Option<Listed> = process
        .group
        .map(|group| groups.list(group.as_raw_nonzero().get()));
    let how = tokio::select! {
        how = process.child.wait() => how,
        () = stop => {
            process.signal(Signal::TERM);
            // Remaining processes of the group are killed.
            let _ = tokio::time::timeout(GRACE, process.child.wait()).await;
            return None;
        }
    };
    let how = how.map_or_else(|error| error.to_string(), |status| status.to_string());
    Some(format!("it has exited: {how}"))
}

/// A process with its group.
struct Process {
    /// The other end of the input that the shell watches.
    _lifeline: Option<ChildStdin>,
    child: Child,
    group: Option<Pid>,
}

impl Process {
    fn start(command: &str, variables: &Variables, output: &Output) -> io::Result<Self> {
        let output = output.open()?;
        let mut command_line = OsString::from(WATCH);
        command_line.push(filled(command, variables));
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(command_line)
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            _lifeline: child.stdin.take(),
            child,
            group: id.and_then(Pid::from_raw),
        })
    }
}

impl Process {
    fn signal(&self, signal: Signal) {
        // A program that has ended has no group any more.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // As a crash would: without a word.
        self.signal(Signal::KILL);
    }
}
