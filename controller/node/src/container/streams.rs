//! The streams of a process: input and output.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use kubeproof_runtime::clock::Now;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::device::Endless;
use super::filesystem::{Content, FileError, FileSystem};
use super::log::Log;
use super::pipe::Pipe;
use super::terminal_signals::Signals;

/// The maximum number of input chunks that wait for a process.
const INPUT_CHUNKS_MAX: usize = 16;

/// The maximum number of typed lines that wait for a terminal's reader.
const TERMINAL_LINES_MAX: usize = 64;

/// The bytes after which a reader of an endless file stops.
const ENDLESS_BYTES_MAX: usize = 1024 * 1024;

/// The largest input that a program reads as a whole.
const WHOLE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The options of a process that a client starts in a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// Whether the process reads the client's input.
    pub stdin: bool,
    /// Whether the process has a terminal, which echoes the client's input.
    pub tty: bool,
}

/// One of the two output streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The destination of a process's output.
#[derive(Clone)]
pub(super) enum Output {
    /// A terminal, which converts line ends to CRLF.
    Terminal(Arc<Self>),
    /// A client.
    Pipe(Arc<Pipe>, Channel),
    /// The log of a container.
    Log(Arc<Log>, Channel, Now),
    /// Memory, for `$(…)` and pipes.
    Memory(Arc<Mutex<BytesMut>>),
    /// The end of a file.
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
                // The file exists since it was opened; if its directory is gone, the output is
                // lost.
                let _ = files.write(path, bytes, true);
            }
            Self::Null => {}
        }
    }

    /// Writes a chunk of an endless stream. Returns whether the reader accepts more.
    ///
    /// # Errors
    /// The error of the file that was written to.
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

    /// Waits until there is room for more output.
    pub(super) async fn ready(&self) {
        let inner = match self {
            Self::Terminal(inner) => inner,
            other => other,
        };
        if let Self::Pipe(pipe, _) = inner {
            pipe.ready().await;
        }
    }

    /// Wraps the output in a terminal, which converts line ends.
    pub(super) fn at_terminal(self) -> Self {
        Self::Terminal(Arc::new(self))
    }

    pub(super) fn line(&self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }
}

/// Converts line ends to CRLF, as ONLCR of a terminal does.
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

/// The input that arrives while a process runs, and its unread part.
#[derive(Debug)]
pub(crate) struct Live {
    pub(super) arriving: mpsc::Receiver<Bytes>,
    pub(super) pending: BytesMut,
}

impl Live {
    /// Waits for the next chunk. Returns `None` at the end, which a terminal signals by an empty
    /// chunk each time it is typed.
    async fn next(&mut self) -> Option<Bytes> {
        let bytes = self.arriving.recv().await;
        bytes.filter(|bytes| !bytes.is_empty())
    }
}

/// The source of a process's input.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// Complete input in memory.
    Memory(Arc<Mutex<Bytes>>),
    /// Endless input.
    Endless(Endless),
    /// Input from a client.
    Live(Arc<tokio::sync::Mutex<Live>>),
    /// Input typed by a client at a terminal.
    Terminal(Arc<tokio::sync::Mutex<Live>>, Arc<Signals>),
}

impl Input {
    pub(super) fn of(bytes: impl Into<Bytes>) -> Self {
        Self::Memory(Arc::new(Mutex::new(bytes.into())))
    }

    pub(super) fn empty() -> Self {
        Self::of(Bytes::new())
    }

    /// Returns an input that ends when its sender is dropped.
    pub(super) fn live() -> (mpsc::Sender<Bytes>, Self) {
        let (sender, live) = arriving(INPUT_CHUNKS_MAX);
        (sender, Self::Live(live))
    }

    /// Returns an input fed by a terminal; an empty chunk is an end of input.
    pub(super) fn of_terminal(signals: Arc<Signals>) -> (mpsc::Sender<Bytes>, Self) {
        let (sender, live) = arriving(TERMINAL_LINES_MAX);
        (sender, Self::Terminal(live, signals))
    }

    /// Returns the signals of the input's terminal; `None` if it is not a terminal.
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

    /// Reads the whole input. Returns `None` if it is endless or too large.
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

    /// Waits for the next chunk. Returns `None` at the end.
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

    /// Returns the next line without its line end; `None` at the end of the input.
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
            // Endless input has no lines.
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

/// The three standard streams of a process.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}
