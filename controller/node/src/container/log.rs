//! The log of a container's run, line by line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::changes::Changes;
use super::{Channel, Pipe};

/// The size at which a kubelet rotates a container's log.
const LOG_BYTES_MAX: usize = 10 * 1024 * 1024;

/// The lines of one run of a container with their times; readers can wait for more.
#[derive(Debug, Default)]
pub(crate) struct Log {
    state: Mutex<State>,
    changed: Changes,
}

/// One line, with its line end unless the container ended before writing it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) time: Timestamp,
    pub(crate) bytes: Bytes,
}

#[derive(Debug, Default)]
struct State {
    /// The output, made once a process writes or a client attaches. Many containers are simulated without a process.
    output: Option<Box<Output>>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Output {
    lines: VecDeque<Line>,
    /// The total size of `lines` in bytes.
    size: usize,
    /// The number of lines dropped before the first of `lines`.
    dropped: usize,
    /// The unfinished line of each channel.
    open: BTreeMap<Channel, BytesMut>,
    /// The attached clients, which receive output as it is written.
    listeners: Vec<Weak<Pipe>>,
}

impl Output {
    fn push(&mut self, time: Timestamp, bytes: Bytes) {
        self.size += bytes.len();
        self.lines.push_back(Line { time, bytes });
        while self.size > LOG_BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.size -= oldest.bytes.len();
            self.dropped += 1;
        }
    }
}

impl Log {
    pub(crate) fn append(&self, channel: Channel, bytes: &[u8], now: Timestamp) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let output = state.output.get_or_insert_default();
        output.listeners.retain(|listener| {
            let listener = listener.upgrade();
            listener.is_some_and(|pipe| {
                pipe.send(channel, bytes);
                true
            })
        });
        let mut open = output.open.remove(&channel).unwrap_or_default();
        open.extend_from_slice(bytes);
        while let Some(end) = open.iter().position(|byte| *byte == b'\n') {
            output.push(now, open.split_to(end + 1).freeze());
        }
        output.open.insert(channel, open);
        drop(state);
        self.changed.notify();
    }

    /// Ends the log; later output is discarded.
    pub(crate) fn close(&self, now: Timestamp) {
        let mut state = self.state.lock();
        state.closed = true;
        if let Some(output) = &mut state.output {
            for rest in std::mem::take(&mut output.open).into_values() {
                if !rest.is_empty() {
                    output.push(now, rest.freeze());
                }
            }
            for listener in output.listeners.drain(..).filter_map(|own| own.upgrade()) {
                listener.close();
            }
        }
        drop(state);
        self.changed.notify();
    }

    /// Returns a pipe with all later output as it is written, until the container ends.
    pub(crate) fn listen(&self) -> Arc<Pipe> {
        let pipe = Arc::new(Pipe::default());
        let mut state = self.state.lock();
        if state.closed {
            pipe.close();
        } else {
            let output = state.output.get_or_insert_default();
            output.listeners.push(Arc::downgrade(&pipe));
        }
        pipe
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Waits for the end of the container.
    pub(crate) async fn closed(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notifier().notified());
            changed.as_mut().enable();
            if self.is_closed() {
                return;
            }
            changed.await;
        }
    }

    /// Returns the index after the last line.
    pub(crate) fn end(&self) -> usize {
        let state = self.state.lock();
        let output = state.output.as_ref();
        output.map_or(0, |output| output.dropped + output.lines.len())
    }

    /// Returns the line at `index`, or the first kept one after it; `None` if it is not written
    /// yet. Moves `index` past the line.
    pub(crate) fn written(&self, index: &mut usize) -> Option<Line> {
        let state = self.state.lock();
        let output = state.output.as_ref()?;
        *index = (*index).max(output.dropped);
        let line = output.lines.get(*index - output.dropped)?.clone();
        *index += 1;
        Some(line)
    }

    /// Waits for the line at `index`. Returns `None` if the container ends before writing it.
    pub(crate) async fn line(&self, index: &mut usize) -> Option<Line> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notifier().notified());
            // Before the look, or a line written between the two would be missed.
            changed.as_mut().enable();
            if let Some(line) = self.written(index) {
                return Some(line);
            }
            if self.is_closed() {
                return self.written(index);
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_lines_are_kept() {
        let log = Log::default();
        let line = vec![b'x'; 1024 * 1024 - 1];
        for _ in 0..12 {
            log.append(Channel::Stdout, &line, Timestamp::UNIX_EPOCH);
            log.append(Channel::Stdout, b"\n", Timestamp::UNIX_EPOCH);
        }
        let mut index = 0;
        assert!(log.written(&mut index).is_some());
        assert_eq!((index, log.end()), (3, 12));
    }

    #[tokio::test]
    async fn a_reader_waits_for_lines_and_for_the_end() {
        let log = Log::default();
        let mut index = 0;
        log.append(Channel::Stdout, b"one\ntw", Timestamp::UNIX_EPOCH);
        assert_eq!(log.line(&mut index).await.unwrap().bytes, "one\n");
        let waiting = async { log.line(&mut index).await };
        let writing = async { log.close(Timestamp::UNIX_EPOCH) };
        let (line, ()) = tokio::join!(waiting, writing);
        assert_eq!(line.unwrap().bytes, "tw");
        assert!(log.line(&mut index).await.is_none());
    }

    #[tokio::test]
    async fn an_empty_log_is_small_and_can_be_followed() {
        let size = size_of::<Log>();
        assert!(size <= 40, "{size}");
        let log = Log::default();
        assert_eq!((log.end(), log.written(&mut 0).is_none()), (0, true));
        let mut index = 0;
        let (line, ()) = tokio::join!(log.line(&mut index), async {
            log.append(Channel::Stdout, b"one\n", Timestamp::UNIX_EPOCH);
        });
        assert_eq!(line.unwrap().bytes, "one\n");
        let silent = Log::default();
        let (ended, ()) = tokio::join!(silent.closed(), async {
            silent.close(Timestamp::UNIX_EPOCH);
        });
        assert_eq!((ended, silent.end(), silent.is_closed()), ((), 0, true));
    }
}
