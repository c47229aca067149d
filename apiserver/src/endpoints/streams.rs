//! Byte streams that share a connection, once it has been upgraded: those of a process, and those of
//! the ports of a pod.
//!
//! - `upgrade`: the handshakes, over WebSocket, SPDY, and SPDY in a WebSocket
//! - `channels`: streams as channels of a WebSocket
//! - `multiplexed`: streams as those of SPDY, on what `transport` carries
//!
//! Whatever carries them, a stream is read from a queue and written by an [`Output`].

pub(crate) mod channels;
pub(crate) mod multiplexed;
#[cfg(test)]
pub(crate) mod peer;
mod transport;
pub(crate) mod upgrade;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::spdy::ResetReason;

/// The number of pieces of a stream that wait for the reader; the connection is not read meanwhile.
const INPUT_PIECES_MAX: usize = 8;
/// The number of pieces of all streams that wait to be sent.
const OUTPUT_PIECES_MAX: usize = 16;

/// The connection under the streams.
pub(crate) type Io = TokioIo<Upgraded>;

/// What takes over a connection, once it has been upgraded.
#[derive(Clone)]
pub(crate) struct Session(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl Session {
    fn new(session: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(session.boxed()))))
    }

    /// Keeps `guard` until the session ends.
    pub(crate) fn hold(&self, guard: impl Send + 'static) {
        let mut session = self.0.lock();
        *session = session.take().map(|session| {
            async move {
                let _guard = guard;
                session.await;
            }
            .boxed()
        });
    }

    /// The session to run on the connection; `None` after the first call.
    pub(crate) fn start(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().take()
    }
}

/// Something to be sent about a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    stream: u32,
    piece: Piece,
}

/// A piece of a stream. Channels of a WebSocket carry only bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Bytes),
    /// The stream that the client has opened is served.
    Accepted,
    /// Nothing more is written.
    Ended,
    /// Nothing more is read or written.
    Reset(ResetReason),
    /// The answer to a ping, in whose place the stream's number is.
    Pong,
}

/// The writing end of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    stream: u32,
    sender: mpsc::Sender<Outgoing>,
}

impl Output {
    /// Writes `bytes`; false if the client is gone.
    pub(crate) async fn write(&self, bytes: Bytes) -> bool {
        self.send(Piece::Bytes(bytes)).await
    }

    /// Accepts a stream that the client has opened.
    pub(crate) async fn accept(&self) -> bool {
        self.send(Piece::Accepted).await
    }

    /// Writes nothing more.
    pub(crate) async fn end(&self) -> bool {
        self.send(Piece::Ended).await
    }

    /// Neither reads nor writes any more.
    pub(crate) async fn reset(&self) -> bool {
        self.send(Piece::Reset(ResetReason::Cancel)).await
    }

    async fn send(&self, piece: Piece) -> bool {
        let stream = self.stream;
        let sent = self.sender.send(Outgoing { stream, piece });
        sent.await.is_ok()
    }
}

/// Runs `work` on the streams that `carrier` carries, until the client is gone or the work is done
/// and everything it has written is sent.
async fn run(carrier: impl Future<Output = ()>, work: impl Future<Output = ()>) {
    // The carrier ends by itself when the last output is dropped.
    let work = async {
        work.await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        () = carrier => {}
        never = work => match never {},
    }
}
