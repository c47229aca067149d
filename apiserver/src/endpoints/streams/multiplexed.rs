//! Streams as those of SPDY, which the client opens.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

pub(crate) use super::transport::{Reader, Writer, plain, tunnel};
use super::{INPUT_PIECES_MAX, OUTPUT_PIECES_MAX, Outgoing, Output, Piece, run};
use crate::spdy::{Decoder, Encoder, Fault, Headers, Received, ResetReason};

/// The number of streams that a client may have open.
const STREAMS_MAX: usize = 1000;
/// The approximate number of bytes sent at once.
const WRITE_BYTES: usize = 64 * 1024;

/// A stream that the client has opened, and that has to be accepted or reset.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The number of the stream.
    pub(crate) stream: u32,
    /// The client's headers of the stream.
    pub(crate) headers: Headers,
    /// The bytes that the client writes.
    pub(crate) input: mpsc::Receiver<Bytes>,
    /// The output that the client reads.
    pub(crate) output: Output,
    /// Completes when the client neither reads nor writes any more.
    pub(crate) reset: oneshot::Receiver<()>,
}

/// The streams of a connection.
pub(crate) struct Streams {
    opened: mpsc::Receiver<Opened>,
    /// A sender keeps the connection open as long as any party may write.
    _sender: mpsc::Sender<Outgoing>,
}

impl Streams {
    /// The next stream that the client opens.
    ///
    /// Cancel safety: it is taken only by the poll that returns it.
    pub(crate) async fn next(&mut self) -> Option<Opened> {
        self.opened.recv().await
    }
}

/// Carries streams over `reader` and `writer` while `work` uses them.
pub(crate) async fn serve<S, F>(
    reader: Reader<S>,
    writer: Writer<S>,
    work: impl FnOnce(Streams) -> F,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    let (sender, outgoing) = mpsc::channel(OUTPUT_PIECES_MAX);
    let (opening, opened) = mpsc::channel(1);
    let table = Mutex::new(Table::default());
    let reading = Reading {
        table: &table,
        opening,
        sender: sender.downgrade(),
    };
    let carrier = async {
        tokio::select! {
            biased;
            () = write(writer, outgoing, &table) => {}
            result = reading.run(reader) => {
                if let Err(error) = result {
                    tracing::debug!(%error, "streams ended");
                }
            }
        }
    };
    let streams = Streams {
        opened,
        _sender: sender,
    };
    run(carrier, work(streams)).await;
}

/// The streams that the client has opened.
#[derive(Default)]
struct Table {
    /// The open streams, by number.
    open: BTreeMap<u32, Open>,
    newest: u32,
}

impl Table {
    /// Notes a new stream; false if there are too many.
    fn insert(&mut self, stream: u32, open: Open) -> bool {
        self.newest = stream;
        let has_room = self.open.len() < STREAMS_MAX;
        if has_room {
            self.open.insert(stream, open);
        }
        has_room
    }

    /// Notes that the client writes no more on a stream.
    fn end_input(&mut self, stream: u32) {
        self.end(stream, |open| open.input = None);
    }

    /// Notes that this side writes no more on a stream.
    fn end_output(&mut self, stream: u32) {
        self.end(stream, |open| open.has_ended = true);
    }

    fn end(&mut self, stream: u32, side: impl FnOnce(&mut Open)) {
        if let Some(open) = self.open.get_mut(&stream) {
            side(open);
            if open.input.is_none() && open.has_ended {
                self.open.remove(&stream);
            }
        }
    }
}

/// The state of a stream until both sides have ended it.
struct Open {
    /// Absent once the client writes no more.
    input: Option<mpsc::Sender<Bytes>>,
    /// Whether this side has ended its writes.
    has_ended: bool,
    reset: oneshot::Sender<()>,
}

struct Reading<'a> {
    table: &'a Mutex<Table>,
    opening: mpsc::Sender<Opened>,
    /// Must not keep the connection.
    sender: mpsc::WeakSender<Outgoing>,
}

impl Reading<'_> {
    /// Handles the client's frames until the client is gone.
    async fn run<S>(self, mut reader: Reader<S>) -> Result<(), Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut decoder = Decoder::default();
        while let Some(bytes) = reader.read().await {
            decoder.push(&bytes);
            while let Some(received) = decoder.read()? {
                match received {
                    Received::Opened {
                        stream,
                        headers,
                        last,
                    } => self.open(stream, headers, last).await,
                    Received::Data {
                        stream,
                        bytes,
                        last,
                    } => self.pass_on(stream, bytes, last).await,
                    Received::Reset { stream } => {
                        let open = self.table.lock().open.remove(&stream);
                        if let Some(open) = open {
                            // A handler that is done with the stream does not listen.
                            let _ = open.reset.send(());
                        }
                    }
                    // This side sends no pings. Its own would have even numbers.
                    Received::Ping { id } if id % 2 == 1 => self.send(id, Piece::Pong).await,
                    Received::Ping { .. } => {}
                    Received::GoneAway => return Ok(()),
                }
            }
        }
        Ok(())
    }

    async fn open(&self, stream: u32, headers: Headers, last: bool) {
        let newest = self.table.lock().newest;
        if stream.is_multiple_of(2) || stream <= newest {
            return self.send(stream, Piece::Reset(ResetReason::Protocol)).await;
        }
        let (input, reading) = mpsc::channel(INPUT_PIECES_MAX);
        let (reset, was_reset) = oneshot::channel();
        let open = Open {
            input: (!last).then_some(input),
            has_ended: false,
            reset,
        };
        let is_open = self.table.lock().insert(stream, open);
        if !is_open {
            return self.send(stream, Piece::Reset(ResetReason::Refused)).await;
        }
        let Some(sender) = self.sender.upgrade() else {
            return;
        };
        let output = Output { stream, sender };
        let opened = Opened {
            stream,
            headers,
            input: reading,
            output,
            reset: was_reset,
        };
        // Sending fails once the work is done and accepts no more streams.
        let _ = self.opening.send(opened).await;
    }

    /// Passes bytes on to the reader of a stream; without a reader they are dropped.
    async fn pass_on(&self, stream: u32, bytes: Bytes, last: bool) {
        let input = {
            let table = self.table.lock();
            let open = table.open.get(&stream);
            open.and_then(|open| open.input.clone())
        };
        if let Some(input) = input.filter(|_| !bytes.is_empty()) {
            let _ = input.send(bytes).await;
        }
        if last {
            self.table.lock().end_input(stream);
        }
    }

    async fn send(&self, stream: u32, piece: Piece) {
        if let Some(sender) = self.sender.upgrade() {
            let _ = sender.send(Outgoing { stream, piece }).await;
        }
    }
}

/// Sends the pieces until all outputs are dropped, and closes the connection.
async fn write<S>(
    mut writer: Writer<S>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    table: &Mutex<Table>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut encoder, mut buffer) = (Encoder::default(), BytesMut::new());
    while let Some(first) = outgoing.recv().await {
        let mut next = Some(first);
        while let Some(piece) = next {
            encode(piece, &mut encoder, &mut buffer, table);
            next = match buffer.len() < WRITE_BYTES {
                true => outgoing.try_recv().ok(),
                false => None,
            };
        }
        if !writer.write(buffer.split().freeze()).await {
            return;
        }
    }
    encoder.go_away(table.lock().newest, &mut buffer);
    if writer.write(buffer.freeze()).await {
        writer.close().await;
    }
}

fn encode(outgoing: Outgoing, encoder: &mut Encoder, buffer: &mut BytesMut, table: &Mutex<Table>) {
    let Outgoing { stream, piece } = outgoing;
    match piece {
        Piece::Accepted => encoder.reply(stream, buffer),
        // An empty frame would be the end.
        Piece::Bytes(bytes) if bytes.is_empty() => {}
        Piece::Bytes(bytes) => encoder.data(stream, bytes, buffer),
        Piece::Ended => {
            table.lock().end_output(stream);
            encoder.data(stream, Bytes::new(), buffer);
        }
        Piece::Reset(reason) => {
            table.lock().open.remove(&stream);
            encoder.reset(stream, reason, buffer);
        }
        Piece::Pong => encoder.ping(stream, buffer),
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::{Peer, data};
    use super::*;

    /// Echoes the bytes of each stream and ends it; resets streams named `refused`.
    async fn echo(mut streams: Streams) {
        while let Some(mut opened) = streams.next().await {
            if opened.headers.get("name") == "refused" {
                opened.output.reset().await;
                continue;
            }
            opened.output.accept().await;
            while let Some(bytes) = opened.input.recv().await {
                opened.output.write(bytes).await;
            }
            opened.output.end().await;
        }
    }

    #[tokio::test]
    async fn streams_are_served_until_the_client_goes_away() {
        let (mut peer, reader, writer) = Peer::connect();
        let client = async {
            peer.open(1, &[]).await;
            peer.write(1, "one").await;
            assert_eq!(peer.next().await, Some(data(1, "one")));
            peer.ping(7).await;
            assert_eq!(peer.next().await, Some(Received::Ping { id: 7 }));
            peer.write(9, "for nobody").await;
            peer.write(1, "").await;
            assert_eq!(peer.read(1).await, (String::new(), false));
            peer.open(3, &[("name", "refused")]).await;
            assert_eq!(peer.read(3).await, (String::new(), true));
            // Numbers are odd and grow.
            for number in [3, 4] {
                peer.open(number, &[]).await;
                assert_eq!(peer.read(number).await, (String::new(), true));
            }
            peer.open(5, &[]).await;
            peer.write(5, "two").await;
            assert_eq!(peer.next().await, Some(data(5, "two")));
            peer.go_away().await;
            assert_eq!(peer.next().await, None);
        };
        tokio::join!(serve(reader, writer, echo), client);
    }

    #[tokio::test]
    async fn the_end_of_the_work_is_sent_after_all_that_was_written() {
        let (mut peer, reader, writer) = Peer::connect();
        let work = async |mut streams: Streams| {
            let opened = streams.next().await.unwrap();
            opened.output.accept().await;
            opened.output.write("all".into()).await;
            opened.output.end().await;
        };
        let client = async {
            peer.open(1, &[]).await;
            assert_eq!(peer.read(1).await, ("all".to_owned(), false));
            assert_eq!(peer.next().await, Some(Received::GoneAway));
            assert_eq!(peer.next().await, None);
        };
        tokio::join!(serve(reader, writer, work), client);
    }

    #[tokio::test]
    async fn a_client_has_a_limited_number_of_streams_open() {
        let (mut peer, reader, writer) = Peer::connect();
        let work = async |mut streams: Streams| {
            let mut held = Vec::new();
            while let Some(opened) = streams.next().await {
                held.push(opened);
            }
        };
        let client = async {
            let last = 2 * u32::try_from(STREAMS_MAX).unwrap() + 1;
            for number in (1..=last).step_by(2) {
                peer.open(number, &[]).await;
            }
            assert_eq!(peer.next().await, Some(Received::Reset { stream: last }));
            // One less makes room for one more.
            peer.reset(1).await;
            peer.open(last + 2, &[]).await;
            peer.ping(1).await;
            assert_eq!(peer.next().await, Some(Received::Ping { id: 1 }));
            peer.go_away().await;
        };
        tokio::join!(serve(reader, writer, work), client);
    }
}
