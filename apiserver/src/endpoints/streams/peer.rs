//! The client of streams over SPDY, for tests.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::multiplexed::{Reader, Writer, plain};
use crate::spdy::client::Client;
use crate::spdy::{Decoder, Encoder, Received, ResetReason};

/// The client's side of a connection in memory.
pub(crate) struct Peer {
    io: DuplexStream,
    client: Client,
    decoder: Decoder,
    received: VecDeque<Received>,
}

impl Peer {
    /// A client, and the reader and writer of the server's side.
    pub(crate) fn connect() -> (Self, Reader<DuplexStream>, Writer<DuplexStream>) {
        let (io, served) = tokio::io::duplex(1 << 16);
        let (reader, writer) = plain(served);
        let peer = Self {
            io,
            client: Client::default(),
            decoder: Decoder::default(),
            received: VecDeque::new(),
        };
        (peer, reader, writer)
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn open(&mut self, stream: u32, headers: &[(&str, &str)]) {
        let frame = self.client.open(stream, headers, false);
        self.send(&frame).await;
    }

    /// Writes to a stream; empty bytes end it.
    pub(crate) async fn write(&mut self, stream: u32, bytes: &'static str) {
        let mut frame = BytesMut::new();
        Encoder::default().data(stream, bytes.into(), &mut frame);
        self.send(&frame).await;
    }

    pub(crate) async fn reset(&mut self, stream: u32) {
        let mut frame = BytesMut::new();
        Encoder::default().reset(stream, ResetReason::Cancel, &mut frame);
        self.send(&frame).await;
    }

    pub(crate) async fn ping(&mut self, id: u32) {
        let mut frame = BytesMut::new();
        Encoder::default().ping(id, &mut frame);
        self.send(&frame).await;
    }

    pub(crate) async fn go_away(&mut self) {
        let mut frame = BytesMut::new();
        Encoder::default().go_away(0, &mut frame);
        self.send(&frame).await;
    }

    /// The next frame of the server, without replies to opened streams; `None` when it is gone.
    pub(crate) async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(received) = self.received.pop_front() {
                return Some(received);
            }
            let mut buffer = BytesMut::with_capacity(1 << 16);
            if self.io.read_buf(&mut buffer).await.unwrap() == 0 {
                return None;
            }
            self.decoder.push(&buffer);
            while let Some(received) = self.decoder.read().unwrap() {
                self.received.push_back(received);
            }
        }
    }

    /// Everything that comes on a stream until its end, and whether that is a reset.
    pub(crate) async fn read(&mut self, wanted: u32) -> (String, bool) {
        let mut text = String::new();
        let mut others = VecDeque::new();
        let was_reset = loop {
            match self.next().await.unwrap() {
                Received::Data {
                    stream,
                    bytes,
                    last,
                } if stream == wanted => {
                    text.push_str(std::str::from_utf8(&bytes).unwrap());
                    if last {
                        break false;
                    }
                }
                Received::Reset { stream } if stream == wanted => break true,
                other => others.push_back(other),
            }
        };
        others.append(&mut self.received);
        self.received = others;
        (text, was_reset)
    }
}

/// Bytes on a stream.
pub(crate) fn data(stream: u32, text: &'static str) -> Received {
    Received::Data {
        stream,
        bytes: Bytes::from(text),
        last: false,
    }
}
