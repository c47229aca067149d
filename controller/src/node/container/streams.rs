//! What a process reads and writes.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use k8s_openapi::api::core::v1::Container as Spec;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::device::Endless;
use super::filesystem::{Content, FileError, FileSystem};
use super::log::Log;
use super::pipe::Pipe;
use super::terminal::{Signals, Terminal};
use crate::clock::Now;

/// How many chunks of input wait for a process at most.
const INPUT_CHUNKS_MAX: usize = 16;

/// How many lines wait at a terminal for who reads them at most.
const TERMINAL_LINES_MAX: usize = 64;

/// Who reads what never ends has had enough of it after so many bytes.
const ENDLESS_BYTES_MAX: usize = 1024 * 1024;

/// No program reads more as a whole.
const WHOLE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// What a process that somebody starts in a container is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// It reads what the client writes.
    pub stdin: bool,
    /// It has a terminal: the client types, and sees what it types.
    pub tty: bool,
}

/// One of the two streams that a process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The clients' side of the input of a main process.
#[derive(Clone, Debug, Default)]
pub(in crate::node) struct Stdin {
    sender: Arc<Mutex<Option<mpsc::Sender<Bytes>>>>,
    /// Only a container with `stdin` listens to clients; a terminal alone keeps silent.
    is_open: bool,
    /// The first client's end is the input's.
    is_once: bool,
}

impl Stdin {
    /// What the container of `spec` reads, and who may write that.
    pub(in crate::node) fn of(spec: &Spec) -> (Self, Typing) {
        let is_open = spec.stdin == Some(true);
        let (sender, typing) = match spec.tty == Some(true) {
            true => {
                let (sender, input, terminal) = Terminal::open();
                (sender, Typing::at(input, terminal))
            }
            false if is_open => {
                let (sender, input) = Input::live();
                (sender, Typing::of(input))
            }
            false => return (Self::default(), Typing::of(Input::empty())),
        };
        let stdin = Self {
            sender: Arc::new(Mutex::new(Some(sender))),
            is_open,
            is_once: spec.stdin_once == Some(true),
        };
        (stdin, typing)
    }

    /// What a client writes to.
    pub(in crate::node) fn attach(&self) -> Option<mpsc::Sender<Bytes>> {
        let mut sender = self.sender.lock();
        match (self.is_open, self.is_once) {
            (false, _) => None,
            (true, true) => sender.take(),
            (true, false) => sender.clone(),
        }
    }
}

/// What a main process reads, and the terminal that it reads from, if it has one.
#[derive(Debug)]
pub(in crate::node) struct Typing {
    pub(super) input: Input,
    pub(super) terminal: Option<Terminal>,
}

impl Typing {
    pub(super) fn of(input: Input) -> Self {
        Self {
            input,
            terminal: None,
        }
    }

    fn at(input: Input, terminal: Terminal) -> Self {
        Self {
            input,
            terminal: Some(terminal),
        }
    }
}

/// Where a process writes to.
#[derive(Clone)]
pub(super) enum Output {
    /// To a terminal, which begins each line at the left.
    Terminal(Arc<Self>),
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
            Self::Terminal(inner) => inner.write(&returned(bytes)),
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

    /// Writes a part of what never ends; whether anybody wants more of it.
    ///
    /// # Errors
    /// Why a file does not take it.
    pub(super) fn write_on(&self, bytes: &[u8]) -> Result<bool, FileError> {
        if let Self::File(files, path) = self {
            files.write(path, bytes, true)?;
            return Ok(true);
        }
        self.write(bytes);
        match self {
            Self::Memory(memory) => Ok(memory.lock().len() < ENDLESS_BYTES_MAX),
            _ => Ok(true),
        }
    }

    /// Waits until more can be written.
    pub(super) async fn ready(&self) {
        let inner = match self {
            Self::Terminal(inner) => inner,
            other => other,
        };
        if let Self::Pipe(pipe, _) = inner {
            pipe.ready().await;
        }
    }

    /// The same, seen through a terminal.
    pub(super) fn at_terminal(self) -> Self {
        Self::Terminal(Arc::new(self))
    }

    pub(super) fn line(&self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }
}

/// Lines that begin at the left, as ONLCR of a terminal has it.
fn returned(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    for byte in bytes {
        if *byte == b'\n' {
            out.push(b'\r');
        }
        out.push(*byte);
    }
    out
}

/// What arrives while a process runs, and what of it has been read by nobody yet.
#[derive(Debug)]
pub(in crate::node) struct Live {
    pub(super) arriving: mpsc::Receiver<Bytes>,
    pub(super) pending: BytesMut,
}

impl Live {
    /// What comes next; None at the end, which a terminal tells by an empty chunk, as often as it is
    /// typed.
    async fn next(&mut self) -> Option<Bytes> {
        let bytes = self.arriving.recv().await;
        bytes.filter(|bytes| !bytes.is_empty())
    }
}

/// Where a process reads from.
#[derive(Clone, Debug)]
pub(in crate::node) enum Input {
    /// All of it is there.
    Memory(Arc<Mutex<Bytes>>),
    /// It never ends.
    Endless(Endless),
    /// It comes from a client.
    Live(Arc<tokio::sync::Mutex<Live>>),
    /// The same, typed at a terminal.
    Terminal(Arc<tokio::sync::Mutex<Live>>, Arc<Signals>),
}

impl Input {
    pub(super) fn of(bytes: impl Into<Bytes>) -> Self {
        Self::Memory(Arc::new(Mutex::new(bytes.into())))
    }

    pub(super) fn empty() -> Self {
        Self::of(Bytes::new())
    }

    /// An input that ends when its sender is dropped.
    pub(super) fn live() -> (mpsc::Sender<Bytes>, Self) {
        let (sender, live) = arriving(INPUT_CHUNKS_MAX);
        (sender, Self::Live(live))
    }

    /// What a terminal hands on; an empty chunk is an end.
    pub(super) fn of_terminal(signals: Arc<Signals>) -> (mpsc::Sender<Bytes>, Self) {
        let (sender, live) = arriving(TERMINAL_LINES_MAX);
        (sender, Self::Terminal(live, signals))
    }

    /// The signals of the terminal that is read from; None where it is none.
    pub(super) fn signals(&self) -> Option<Arc<Signals>> {
        match self {
            Self::Terminal(_, signals) => Some(Arc::clone(signals)),
            Self::Memory(_) | Self::Endless(_) | Self::Live(_) => None,
        }
    }

    pub(super) fn of_content(content: Content) -> Self {
        match content {
            Content::Bytes(bytes) => Self::of(bytes),
            Content::Endless(endless) => Self::Endless(endless),
        }
    }

    /// All of it; `None` if it never ends, or is more than a program could hold.
    pub(super) async fn all(&self) -> Option<Vec<u8>> {
        if matches!(self, Self::Endless(_)) {
            return None;
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await {
            if chunk.len() > WHOLE_BYTES_MAX - bytes.len() {
                return None;
            }
            bytes.extend_from_slice(&chunk);
        }
        Some(bytes)
    }

    /// What comes next, as soon as there is something; `None` at the end.
    pub(super) async fn chunk(&self) -> Option<Bytes> {
        match self {
            Self::Memory(bytes) => {
                let mut bytes = bytes.lock();
                let rest = std::mem::take(&mut *bytes);
                (!rest.is_empty()).then_some(rest)
            }
            Self::Endless(endless) => Some(endless.chunk()),
            Self::Live(live) | Self::Terminal(live, _) => {
                let mut live = live.lock().await;
                if !live.pending.is_empty() {
                    return Some(live.pending.split().freeze());
                }
                match self {
                    Self::Terminal(..) => live.next().await,
                    _ => live.arriving.recv().await,
                }
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
            // None of these has lines.
            Self::Endless(_) => None,
            Self::Live(live) | Self::Terminal(live, _) => {
                let is_terminal = matches!(self, Self::Terminal(..));
                let mut live = live.lock().await;
                loop {
                    if let Some(end) = live.pending.iter().position(|byte| *byte == b'\n') {
                        let line = live.pending.split_to(end + 1);
                        return Some(String::from_utf8_lossy(&line[..end]).into_owned());
                    }
                    let more = match is_terminal {
                        true => live.next().await,
                        false => live.arriving.recv().await,
                    };
                    match more {
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

fn arriving(chunks_max: usize) -> (mpsc::Sender<Bytes>, Arc<tokio::sync::Mutex<Live>>) {
    let (sender, arriving) = mpsc::channel(chunks_max);
    let live = Live {
        arriving,
        pending: BytesMut::new(),
    };
    (sender, Arc::new(tokio::sync::Mutex::new(live)))
}

/// The three streams of a process.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}
