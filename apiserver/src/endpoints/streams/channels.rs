//! Streams as the channels of a WebSocket: each message is a byte that says which channel it is of,
//! and a part of that.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::transport::close;
use super::{INPUT_PIECES_MAX, OUTPUT_PIECES_MAX, Outgoing, Output, Piece, run};

/// A message of this channel names one that the client has no more of.
const CLOSE: u8 = 255;
/// The digit by which the first channel is named among text.
const FIRST_DIGIT: u8 = b'0';

/// How messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coding {
    /// As text: a digit for the channel, and Base64.
    pub(crate) base64: bool,
    /// The client can close channels.
    pub(crate) closes: bool,
}

/// The channels of a socket, before it is served.
pub(crate) struct Channels {
    coding: Coding,
    inputs: BTreeMap<u8, mpsc::Sender<Bytes>>,
    sender: mpsc::Sender<Outgoing>,
    outgoing: mpsc::Receiver<Outgoing>,
}

impl Channels {
    pub(crate) fn new(coding: Coding) -> Self {
        let (sender, outgoing) = mpsc::channel(OUTPUT_PIECES_MAX);
        Self {
            coding,
            inputs: BTreeMap::new(),
            sender,
            outgoing,
        }
    }

    /// The bytes that the client writes to `channel`.
    pub(crate) fn input(&mut self, channel: u8) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(INPUT_PIECES_MAX);
        self.inputs.insert(channel, sender);
        receiver
    }

    /// The output that the client reads from `channel`.
    pub(crate) fn output(&self, channel: u8) -> Output {
        Output {
            stream: channel.into(),
            sender: self.sender.clone(),
        }
    }

    /// Carries the channels over `connection` while `work` uses them.
    pub(crate) async fn serve<S>(self, connection: S, work: impl Future<Output = ()>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Self {
            coding,
            inputs,
            sender,
            outgoing,
        } = self;
        // Only the work holds outputs now.
        drop(sender);
        let socket = WebSocketStream::from_raw_socket(connection, Role::Server, None);
        let (writer, reader) = socket.await.split();
        let carrier = async {
            tokio::select! {
                biased;
                _ = write(writer, coding, outgoing) => {}
                () = read(reader, coding, inputs) => {}
            }
        };
        run(carrier, work).await;
    }
}

/// Passes on the client's bytes until the client is gone. A reader that has stopped is skipped.
async fn read<S>(
    mut reader: SplitStream<WebSocketStream<S>>,
    coding: Coding,
    mut inputs: BTreeMap<u8, mpsc::Sender<Bytes>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = reader.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            // The next read answers a ping, and a closing.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) | Message::Close(_) => continue,
        };
        match &*bytes {
            [] => {}
            [CLOSE, channel] if coding.closes => {
                inputs.remove(channel);
            }
            [channel, ..] => {
                let (channel, bytes) = (*channel, bytes.slice(1..));
                let (channel, bytes) = match coding.base64 {
                    false => (channel, Some(bytes)),
                    true => {
                        let decoded = STANDARD.decode(bytes).ok();
                        (channel.wrapping_sub(FIRST_DIGIT), decoded.map(Bytes::from))
                    }
                };
                if let (Some(input), Some(bytes)) = (inputs.get(&channel), bytes) {
                    let _ = input.send(bytes).await;
                }
            }
        }
    }
}

/// Sends the pieces until all outputs are dropped, and closes the socket.
async fn write<S>(
    mut writer: SplitSink<WebSocketStream<S>, Message>,
    coding: Coding,
    mut outgoing: mpsc::Receiver<Outgoing>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Outgoing { stream, piece }) = outgoing.recv().await {
        let Piece::Bytes(bytes) = piece else {
            continue;
        };
        let channel = u8::try_from(stream).expect("a channel has a byte");
        let message = if coding.base64 {
            let digit = char::from(FIRST_DIGIT.wrapping_add(channel));
            Message::Text(format!("{digit}{}", STANDARD.encode(bytes)).into())
        } else {
            let mut message = BytesMut::with_capacity(bytes.len() + 1);
            message.put_u8(channel);
            message.put_slice(&bytes);
            Message::Binary(message.freeze())
        };
        writer.send(message).await?;
    }
    close(&mut writer).await;
    Ok(())
}
