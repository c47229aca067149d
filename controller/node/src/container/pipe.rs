//! The pipe between a process and its client.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Channel;

/// The size above which a writer waits for the client, as with a full pipe.
const PIPE_BYTES_MAX: usize = 64 * 1024;

/// The unread bytes above which a client attached to a log is disconnected.
const UNHEARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A pipe with one reader. It holds [`PIPE_BYTES_MAX`] and the output of one command.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<(Channel, Bytes)>,
    /// The total size of `chunks` in bytes.
    size: usize,
    closed: bool,
}

impl Pipe {
    pub(super) fn write(&self, channel: Channel, bytes: &[u8]) {
        let mut state = self.state.lock();
        if bytes.is_empty() {
            return;
        }
        state.size += bytes.len();
        let chunk = Bytes::copy_from_slice(bytes);
        state.chunks.push_back((channel, chunk));
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until the pipe has room.
    pub(super) async fn ready(&self) {
        self.when(|state| (state.size <= PIPE_BYTES_MAX).then_some(()))
            .await;
    }

    /// Writes to an attached client without waiting. Closes the pipe of a client that has fallen
    /// too far behind.
    pub(super) fn send(&self, channel: Channel, bytes: &[u8]) {
        let is_behind = {
            let state = self.state.lock();
            state.closed || state.size > UNHEARD_BYTES_MAX
        };
        if is_behind {
            self.close();
            return;
        }
        self.write(channel, bytes);
    }

    /// Ends the output.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_waiters();
    }

    /// Returns the next output; `None` at the end.
    pub(crate) async fn read(&self) -> Option<(Channel, Bytes)> {
        let chunk = self.when(|state| match state.chunks.pop_front() {
            Some(chunk) => {
                state.size -= chunk.1.len();
                Some(Some(chunk))
            }
            None => state.closed.then_some(None),
        });
        let chunk = chunk.await;
        self.changed.notify_waiters();
        chunk
    }

    async fn when<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Before the look, or a change between the two would be missed.
            changed.as_mut().enable();
            if let Some(taken) = take(&mut self.state.lock()) {
                return taken;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_full_pipe_waits_for_its_reader() {
        let pipe = Pipe::default();
        assert!(pipe.ready().now_or_never().is_some());
        pipe.write(Channel::Stdout, &[0; PIPE_BYTES_MAX + 1]);
        assert!(pipe.ready().now_or_never().is_none());
        let (chunk, ()) = tokio::join!(pipe.read(), pipe.ready());
        assert_eq!(chunk.unwrap().1.len(), PIPE_BYTES_MAX + 1);
        pipe.write(Channel::Stderr, b"last");
        pipe.close();
        let last = (Channel::Stderr, Bytes::from("last"));
        assert_eq!(pipe.read().await, Some(last));
        assert_eq!(pipe.read().await, None);
    }
}
