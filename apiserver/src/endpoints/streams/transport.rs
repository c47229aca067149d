//! What carries the bytes of SPDY: a connection, or the binary messages of a WebSocket.

use bytes::{Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

const READ_BYTES: usize = 64 * 1024;

/// The half that is read.
pub(crate) enum Reader<S> {
    Plain(ReadHalf<S>, BytesMut),
    Tunnel(SplitStream<WebSocketStream<S>>),
}

/// The half that is written.
pub(crate) enum Writer<S> {
    Plain(WriteHalf<S>),
    Tunnel(SplitSink<WebSocketStream<S>, Message>),
}

/// The halves of a connection whose bytes are SPDY.
pub(crate) fn plain<S: AsyncRead + AsyncWrite>(connection: S) -> (Reader<S>, Writer<S>) {
    let (reader, writer) = tokio::io::split(connection);
    let reader = Reader::Plain(reader, BytesMut::new());
    (reader, Writer::Plain(writer))
}

/// The halves of a WebSocket's connection whose messages are the bytes of SPDY.
pub(crate) async fn tunnel<S>(connection: S) -> (Reader<S>, Writer<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, None);
    let (writer, reader) = socket.await.split();
    (Reader::Tunnel(reader), Writer::Tunnel(writer))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reader<S> {
    /// The next bytes; `None` when there are no more.
    pub(super) async fn read(&mut self) -> Option<Bytes> {
        match self {
            Self::Plain(reader, buffer) => {
                buffer.reserve(READ_BYTES);
                let read = reader.read_buf(buffer).await.ok()?;
                (read > 0).then(|| buffer.split().freeze())
            }
            Self::Tunnel(reader) => loop {
                match reader.next().await?.ok()? {
                    Message::Binary(bytes) => return Some(bytes),
                    // A client's tunnel carries no text.
                    Message::Text(_) => return None,
                    // The next read answers a ping, and a closing.
                    Message::Ping(_) | Message::Pong(_) | Message::Frame(_) | Message::Close(_) => {
                    }
                }
            },
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Writer<S> {
    /// Sends `bytes`; false if that can't be.
    pub(super) async fn write(&mut self, bytes: Bytes) -> bool {
        match self {
            Self::Plain(writer) => {
                let written = writer.write_all(&bytes).await;
                written.is_ok() && writer.flush().await.is_ok()
            }
            Self::Tunnel(writer) => writer.send(Message::Binary(bytes)).await.is_ok(),
        }
    }

    /// Ends the writes of this side.
    pub(super) async fn close(&mut self) {
        match self {
            Self::Plain(writer) => drop(writer.shutdown().await),
            Self::Tunnel(writer) => close(writer).await,
        }
    }
}

/// Closes a WebSocket normally.
pub(super) async fn close<S>(writer: &mut SplitSink<WebSocketStream<S>, Message>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let normal = CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    };
    // A client that is gone needs no close frame.
    drop(writer.send(Message::Close(Some(normal))).await);
    drop(writer.close().await);
}
