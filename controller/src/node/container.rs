//! Containers that answer: a small file system, a shell with the commands that tests use, and
//! what it has written.

mod arithmetic;
mod commands;
mod filesystem;
mod log;
mod process;
mod shell;
mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

use crate::clock::Now;
use process::Shell;
use streams::{Input, Live, Output, Streams};

pub(super) use filesystem::{FileSystem, Volume, absolute};
pub(super) use log::{Line, Log};
pub use streams::Channel;

/// What a container is made of.
#[derive(Clone)]
pub(crate) struct Container {
    pub(crate) files: FileSystem,
    pub(crate) hostname: String,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) directory: String,
    pub(crate) now: Now,
}

/// The client's side of a process in a container.
#[derive(Debug)]
pub(super) struct Process {
    /// What it writes.
    pub(super) output: mpsc::UnboundedReceiver<(Channel, Bytes)>,
    /// What it reads; dropping this ends its input. Absent when it reads nothing.
    pub(super) input: Option<mpsc::UnboundedSender<Bytes>>,
}

impl Container {
    fn shell(&self) -> Shell {
        Shell {
            files: self.files.clone(),
            directory: self.directory.clone(),
            variables: self.variables.clone(),
            hostname: self.hostname.clone(),
            now: Arc::clone(&self.now),
            last: 0,
            arguments: Vec::new(),
        }
    }

    /// A process of `argv` and the future that runs it. That ends with its exit code, or with
    /// `None` at once where the image has no such program.
    pub(crate) fn process(
        &self,
        argv: Vec<String>,
        reads: bool,
    ) -> (Process, impl Future<Output = Option<i32>> + Send + use<>) {
        let (written, output) = mpsc::unbounded_channel();
        let (sender, arriving) = mpsc::unbounded_channel();
        let stdin = if reads {
            let pending = BytesMut::new();
            Input::Live(Arc::new(tokio::sync::Mutex::new(Live {
                arriving,
                pending,
            })))
        } else {
            Input::empty()
        };
        let io = Streams {
            stdin,
            stdout: Output::Listener(written.clone(), Channel::Stdout),
            stderr: Output::Listener(written, Channel::Stderr),
        };
        let mut shell = self.shell();
        let process = Process {
            output,
            input: reads.then_some(sender),
        };
        (process, async move { shell.program(&argv, &io).await })
    }

    /// Runs `argv` to its end, which is the log's too, with everything it writes going there;
    /// `None` at once where the image has no such program.
    pub(crate) async fn run(&self, argv: Vec<String>, log: &Log) -> Option<i32> {
        let (mut process, running) = self.process(argv, false);
        let written = async {
            while let Some((channel, bytes)) = process.output.recv().await {
                log.append(channel, &bytes, (self.now)());
            }
        };
        let (code, ()) = tokio::join!(running, written);
        if code.is_some() {
            log.close((self.now)());
        }
        code
    }
}

#[cfg(test)]
mod tests;
