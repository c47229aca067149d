//! The process of a program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, Command};

use super::environment::{Variables, filled};
use super::output::Output;
use super::processes::{Groups, Listed};
use super::virtual_time::{Added, VirtualTime};

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
    time: Option<&VirtualTime>,
    stop: impl Future<Output = ()>,
) -> Option<String> {
    let started = match time {
        None => Process::start(command, variables, output),
        Some(time) => Process::start_in(time, command, variables, output),
    };
    let mut process = match started {
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
    /// The place of the program among those whose time is virtual.
    _time: Option<Added>,
    child: Child,
    group: Option<Pid>,
}

impl Process {
    fn start(command: &str, variables: &Variables, output: &Output) -> io::Result<Self> {
        let mut command_line = OsString::from(WATCH);
        command_line.push(filled(command, variables));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command_line).stdin(Stdio::piped());
        let child = spawn(shell, variables, output)?;
        Ok(Self::of(child, None))
    }

    /// Starts it under virtual time. Its tracer ends when this process ends, and it ends with its tracer.
    ///
    /// # Errors
    /// When the tracer cannot be started.
    fn start_in(
        time: &VirtualTime,
        command: &str,
        variables: &Variables,
        output: &Output,
    ) -> io::Result<Self> {
        let command_line = filled(command, variables);
        let shell = [OsStr::new("sh"), OsStr::new("-c"), &command_line];
        let (tracee, tracer) = time.next(&shell)?;
        let child = spawn(tracer.into(), variables, output)?;
        Ok(Self::of(child, Some(time.add(tracee)?)))
    }

    fn of(mut child: Child, time: Option<Added>) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            _lifeline: child.stdin.take(),
            _time: time,
            child,
            group: id.and_then(Pid::from_raw),
        }
    }
}

/// Starts a process in a group of its own.
fn spawn(mut command: Command, variables: &Variables, output: &Output) -> io::Result<Child> {
    let output = output.open()?;
    command
        .envs(variables)
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
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
