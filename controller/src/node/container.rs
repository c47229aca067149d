//! Containers that answer: a small file system, a shell with the commands that tests use, and
//! what it has written.

mod arithmetic;
mod commands;
mod filesystem;
mod process;
mod shell;
mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::clock::Now;
use process::Shell;
use streams::{Input, Live, Output, Streams};

pub(crate) use filesystem::{FileSystem, Volume};
pub use streams::Channel;

/// What a container writes, whole chunks with their times; readers may wait for more.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: Mutex<LogState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct LogState {
    lines: Vec<(Timestamp, Bytes)>,
    /// What has been written after the last line end, by channel.
    open: BTreeMap<bool, BytesMut>,
    closed: bool,
}

impl Log {
    fn append(&self, channel: Channel, bytes: &[u8], now: Timestamp) {
        let mut state = self.lines.lock();
        let LogState { lines, open, .. } = &mut *state;
        let open = open.entry(channel == Channel::Stderr).or_default();
        open.extend_from_slice(bytes);
        while let Some(end) = open.iter().position(|byte| *byte == b'\n') {
            lines.push((now, open.split_to(end + 1).freeze()));
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn close(&self, now: Timestamp) {
        let mut state = self.lines.lock();
        let rest: Vec<_> = state.open.values_mut().map(BytesMut::split).collect();
        let rest = rest.into_iter().filter(|line| !line.is_empty());
        let rest: Vec<_> = rest.map(|line| (now, line.freeze())).collect();
        state.lines.extend(rest);
        state.closed = true;
        drop(state);
        self.changed.notify_waiters();
    }

    /// The lines so far.
    pub(crate) fn lines(&self) -> Vec<(Timestamp, Bytes)> {
        self.lines.lock().lines.clone()
    }

    /// The line at `index`, once it has been written; `None` when the container ended before.
    pub(crate) async fn line(&self, index: usize) -> Option<(Timestamp, Bytes)> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.lines.lock();
                if let Some(line) = state.lines.get(index) {
                    return Some(line.clone());
                }
                if state.closed {
                    return None;
                }
            }
            changed.await;
        }
    }
}

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
pub struct Process {
    /// What it writes.
    pub output: mpsc::UnboundedReceiver<(Channel, Bytes)>,
    /// What it reads; dropping this ends its input. Absent when it reads nothing.
    pub input: Option<mpsc::UnboundedSender<Bytes>>,
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

    /// Runs `argv` to its end with everything it writes going to `log`.
    pub(crate) async fn run(&self, argv: Vec<String>, log: &Log) -> Option<i32> {
        let (mut process, running) = self.process(argv, false);
        let written = async {
            while let Some((channel, bytes)) = process.output.recv().await {
                log.append(channel, &bytes, (self.now)());
            }
        };
        let (code, ()) = tokio::join!(running, written);
        log.close((self.now)());
        code
    }
}

#[cfg(test)]
mod tests;
