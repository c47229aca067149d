//! What a process reads and writes.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::filesystem::FileSystem;
use super::log::Log;
use super::pipe::Pipe;
use crate::clock::Now;

/// One of the two streams that a process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where a process writes to.
#[derive(Clone)]
pub(super) enum Output {
    /// To a client.
    Pipe(Arc<Pipe>, Channel),
    /// Into the log of a container.
    Log(Arc<Log>, Channel, Now),
    /// Into memory: `$(…)` and pipes.
    Memory(Arc<Mutex<BytesMut>>),
    /// To the end of a file.
    File(FileSystem, String),
    /// Nowhere.
    Null,
}

impl Output {
    pub(super) fn write(&self, bytes: &[u8]) {
        match self {
            Self::Pipe(pipe, channel) => pipe.write(*channel, bytes),
            Self::Log(log, channel, now) => log.append(*channel, bytes, now()),
            Self::Memory(memory) => memory.lock().extend_from_slice(bytes),
            Self::File(files, path) => {
                // The file was opened; if its directory is gone since, so is what is written.
                let _ = files.write(path, bytes, true);
            }
            Self::Null => {}
        }
    }

    /// Waits until more can be written.
    pub(super) async fn ready(&self) {
        if let Self::Pipe(pipe, _) = self {
            pipe.ready().await;
        }
    }

    pub(super) fn line(&self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }
}

/// What arrives while a process runs, and what of it has been read by nobody yet.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) arriving: mpsc::Receiver<Bytes>,
    pub(super) pending: BytesMut,
}

/// Where a process reads from.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// All of it is there.
    Memory(Arc<Mutex<Bytes>>),
    /// It comes from a client.
    Live(Arc<tokio::sync::Mutex<Live>>),
}

impl Input {
    pub(super) fn of(bytes: impl Into<Bytes>) -> Self {
        Self::Memory(Arc::new(Mutex::new(bytes.into())))
    }

    pub(super) fn empty() -> Self {
        Self::of(Bytes::new())
    }

    /// What comes next, as soon as there is something; `None` at the end.
    pub(super) async fn chunk(&self) -> Option<Bytes> {
        match self {
            Self::Memory(bytes) => {
                let mut bytes = bytes.lock();
                let rest = std::mem::take(&mut *bytes);
                (!rest.is_empty()).then_some(rest)
            }
            Self::Live(live) => {
                let mut live = live.lock().await;
                if !live.pending.is_empty() {
                    return Some(live.pending.split().freeze());
                }
                live.arriving.recv().await
            }
        }
    }

    /// The next line without its end; `None` at the end of the input.
    pub(super) async fn line(&self) -> Option<String> {
        match self {
            Self::Memory(bytes) => {
                let mut bytes = bytes.lock();
                if bytes.is_empty() {
                    return None;
                }
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let length = end.unwrap_or(bytes.len());
                let line = bytes.split_to(length);
                if end.is_some() {
                    bytes.advance(1);
                }
                Some(String::from_utf8_lossy(&line).into_owned())
            }
            Self::Live(live) => {
                let mut live = live.lock().await;
                loop {
                    if let Some(end) = live.pending.iter().position(|byte| *byte == b'\n') {
                        let line = live.pending.split_to(end + 1);
                        return Some(String::from_utf8_lossy(&line[..end]).into_owned());
                    }
                    match live.arriving.recv().await {
                        Some(more) => live.pending.extend_from_slice(&more),
                        None if live.pending.is_empty() => return None,
                        None => {
                            let rest = live.pending.split();
                            return Some(String::from_utf8_lossy(&rest).into_owned());
                        }
                    }
                }
            }
        }
    }
}

/// The three streams of a process.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}
