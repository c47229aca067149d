//! The process of a program.

use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::environment::{Variables, filled};
use super::output::Output;

/// Runs the program until it ends; returns how. Dropped, it kills the program with all that it has started.
pub(super) async fn live(command: &str, variables: &Variables, output: &Output) -> String {
    let started = Process::start(command, variables, output);
    let how = match started {
        Err(error) => return format!("it cannot be started: {error}"),
        Ok(mut process) => process.child.wait().await,
    };
    let how = how.map_or_else(|error| error.to_string(), |status| status.to_string());
    format!("it has exited: {how}")
}

/// A process with its group.
struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    fn start(command: &str, variables: &Variables, output: &Output) -> io::Result<Self> {
        let output = output.open()?;
        let child = Command::new("sh")
            .arg("-c")
            .arg(filled(command, variables))
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            child,
            group: id.and_then(Pid::from_raw),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // As a crash would: without a word. Who has ended already has no group any more.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
