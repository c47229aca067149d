//! Simulated containers: a small file system, a shell with the commands that tests use, and the
//! log.

mod arithmetic;
mod changes;
mod commands;
mod device;
mod filesystem;
mod listeners;
mod log;
mod pipe;
mod process;
mod shell;
mod signals;
mod state;
mod stdin;
mod streams;
mod terminal;
mod terminal_signals;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::mpsc;

use kubeproof_machinery::json::SmolStr;
use kubeproof_runtime::clock::Now;
use signals::Signals;
use state::{Shell, Stranger};
use streams::{Output, Streams};
use terminal::Terminal;

use crate::small_map::SmallMap;

pub(super) use commands::is_program;
pub(super) use filesystem::{FileSystem, Volume, absolute};
pub(super) use listeners::{Found, Listeners};
pub(super) use log::{Line, Log};
pub(super) use pipe::Pipe;
pub(super) use signals::{Sender, Sigterm};
pub(super) use stdin::{Stdin, Typing};
pub(super) use streams::Input;
pub use streams::{Channel, ExecOptions};

/// A container's contents and environment.
pub(crate) struct Container {
    /// The command line of its first process.
    pub(crate) command: SmolStr,
    pub(crate) files: FileSystem,
    pub(crate) hostname: SmolStr,
    /// The variables that differ from the default ones.
    pub(crate) variables: SmallMap<String>,
    pub(crate) directory: SmolStr,
    pub(crate) now: Now,
    pub(crate) started: Timestamp,
    /// The ports on which its programs listen, once it has had a process.
    pub(crate) listeners: OnceLock<Listeners>,
}

/// The value of `PATH`, unless a container sets another.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the environment variables that every container has, unless it sets others.
pub(crate) fn default_variables(hostname: &str) -> BTreeMap<String, String> {
    let variables = [("PATH", PATH), ("HOME", "/root"), ("HOSTNAME", hostname)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    BTreeMap::from(variables)
}

/// The client's side of a process in a container.
#[derive(Debug)]
pub(super) struct Process {
    /// The output of the process.
    pub(super) output: Arc<Pipe>,
    /// The input of the process; dropping the sender ends the input. `None` if it reads nothing.
    pub(super) input: Option<mpsc::Sender<Bytes>>,
}

/// Closes the output of a process when the process ends.
struct Writer(Arc<Pipe>);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Container {
    /// Returns the environment variables of its processes.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let mut variables = default_variables(&self.hostname);
        let own = self.variables.iter();
        variables.extend(own.map(|(name, value)| (name.to_string(), value.clone())));
        variables
    }

    /// Connects to a port.
    pub(crate) fn connect(&self, port: u16) -> Found {
        let listeners = self.listeners.get();
        listeners.map_or(Found::Nothing, |listeners| listeners.connect(port))
    }

    fn shell(&self, stranger: Stranger) -> Shell {
        Shell {
            stranger,
            ends_unknown: false,
            signals: None,
            hands_on: false,
            command: self.command.to_string(),
            files: self.files.clone(),
            directory: self.directory.to_string(),
            variables: self.environment(),
            hostname: self.hostname.to_string(),
            now: Arc::clone(&self.now),
            started: self.started,
            listeners: self.listeners.get_or_init(Listeners::default).clone(),
            last: 0,
            arguments: Vec::new(),
            functions: BTreeMap::new(),
            calls: 0,
        }
    }

    /// Returns a process that runs `argv` for a client, and the future that runs it. The future
    /// returns the exit code, or `None` at once if the image has no such program.
    pub(crate) fn process(
        &self,
        argv: Vec<String>,
        options: ExecOptions,
    ) -> (Process, impl Future<Output = Option<i32>> + Send + use<>) {
        self.process_with(argv, options, Stranger::Missing)
    }

    fn process_with(
        &self,
        argv: Vec<String>,
        options: ExecOptions,
        stranger: Stranger,
    ) -> (Process, impl Future<Output = Option<i32>> + Send + use<>) {
        let output = Arc::new(Pipe::default());
        let mut silent = None;
        let (sender, stdin, terminal) = match options {
            ExecOptions { stdin, tty: true } => {
                let (sender, input, terminal) = Terminal::open();
                // A terminal without a client stays open: its input never ends.
                silent = (!stdin).then(|| sender.clone());
                (Some(sender).filter(|_| stdin), input, Some(terminal))
            }
            ExecOptions { stdin: true, .. } => {
                let (sender, stdin) = Input::live();
                (Some(sender), stdin, None)
            }
            ExecOptions { stdin: false, .. } => (None, Input::empty(), None),
        };
        // A terminal merges both output streams.
        let out = |channel| match options.tty {
            true => Output::Pipe(Arc::clone(&output), Channel::Stdout).at_terminal(),
            false => Output::Pipe(Arc::clone(&output), channel),
        };
        let io = Streams {
            stdin,
            stdout: out(Channel::Stdout),
            stderr: out(Channel::Stderr),
        };
        let mut shell = self.shell(stranger);
        let writer = Writer(Arc::clone(&output));
        let process = Process {
            output,
            input: sender,
        };
        let running = async move {
            let echo = io.stdout.clone();
            let code = match terminal {
                None => shell.program(&argv, &io).await,
                Some(terminal) => {
                    let signals = terminal.signals();
                    let typing = terminal.run(echo);
                    let mut typing = std::pin::pin!(typing.then(|()| std::future::pending::<()>()));
                    tokio::select! {
                        biased;
                        () = &mut typing => None,
                        code = shell.program(&argv, &io) => code,
                        signal = signals.next() => Some(signal.code()),
                    }
                }
            };
            drop((writer, silent));
            code
        };
        (process, running)
    }

    /// Runs `argv`, which the pod names, to its end. Returns its exit code and its output. A
    /// program that only the image knows succeeds.
    pub(crate) async fn collect(&self, argv: Vec<String>) -> (i32, Vec<u8>) {
        let options = ExecOptions::default();
        let (process, running) = self.process_with(argv, options, Stranger::Trusted);
        let reading = async {
            let mut written = Vec::new();
            while let Some((_, bytes)) = process.output.read().await {
                written.extend_from_slice(&bytes);
            }
            written
        };
        let (code, written) = tokio::join!(running, reading);
        (code.unwrap_or(0), written)
    }

    /// Runs `argv` with `stdin` to its end, which also ends the log; its output goes to the log.
    /// Returns `None` if it ends with a program that only the image knows. `sigterm` delivers SIGTERM
    /// to its shell.
    pub(super) async fn run(
        &self,
        argv: Vec<String>,
        typing: Typing,
        log: &Arc<Log>,
        sigterm: Sigterm,
    ) -> Option<i32> {
        let Typing { input, terminal } = typing;
        let log_of = |channel| Output::Log(Arc::clone(log), channel, Arc::clone(&self.now));
        let output = |channel| match terminal {
            Some(_) => log_of(Channel::Stdout).at_terminal(),
            None => log_of(channel),
        };
        let io = Streams {
            stdin: input,
            stdout: output(Channel::Stdout),
            stderr: output(Channel::Stderr),
        };
        let mut shell = self.shell(Stranger::Trusted);
        shell.signals = Some(Signals::new(sigterm));
        let code = match terminal {
            None => shell.program(&argv, &io).await,
            Some(terminal) => {
                let signals = terminal.signals();
                let typing = terminal.run(io.stdout.clone());
                let mut typing = std::pin::pin!(typing.then(|()| std::future::pending::<()>()));
                // Signals without a handler are lost on the first process of a container.
                let ignoring = async {
                    loop {
                        signals.next().await;
                    }
                };
                tokio::select! {
                    biased;
                    () = &mut typing => None,
                    code = shell.program(&argv, &io) => code,
                    () = ignoring => None,
                }
            }
        };
        let code = code?;
        if shell.ends_unknown {
            return None;
        }
        log.close((self.now)());
        Some(code)
    }
}

#[cfg(test)]
mod tests;
