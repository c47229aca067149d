//! The frames of a connection: read as their bytes come, and written.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Fault;
use super::header_block::{HeaderBlocks, Headers};

/// The size limit of a control frame; except for headers, control frames have a few bytes.
const CONTROL_BYTES_MAX: usize = 64 * 1024;
/// The content of a data frame is passed on in pieces of this size.
const PIECE_BYTES_MAX: usize = 16 * 1024;
/// The size limit of the data frames written.
const DATA_BYTES_MAX: usize = 64 * 1024;

const HEAD_BYTES: usize = 8;
/// The mark of a control frame in the first word; a data frame has its stream there.
const CONTROL: u32 = 0x8000_0000;
const VERSION: u16 = 3;
const FIN: u8 = 1;

pub(super) const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// An event that a client's frames report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A new stream; the client writes nothing on it if `last`.
    Opened {
        stream: u32,
        headers: Headers,
        last: bool,
    },
    /// Data that the client writes on a stream, possibly empty; no data follow the `last`.
    Data {
        stream: u32,
        bytes: Bytes,
        last: bool,
    },
    /// The client neither reads nor writes on the stream any more.
    Reset { stream: u32 },
    /// The client wants the number back.
    Ping { id: u32 },
    /// The client is about to close the connection.
    GoneAway,
}

/// Why this side ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResetReason {
    /// `PROTOCOL_ERROR`
    Protocol,
    /// `REFUSED_STREAM`
    Refused,
    /// `CANCEL`
    Cancel,
}

impl ResetReason {
    fn code(self) -> u32 {
        match self {
            Self::Protocol => 1,
            Self::Refused => 3,
            Self::Cancel => 5,
        }
    }
}

/// Reads frames as bytes arrive; buffers at most a control frame and the latest bytes.
#[derive(Default)]
pub(crate) struct Decoder {
    buffer: BytesMut,
    data: Option<Data>,
    blocks: HeaderBlocks,
}

/// A data frame whose content has not completely arrived.
struct Data {
    stream: u32,
    left: usize,
    last: bool,
}

impl Decoder {
    /// Takes the next bytes of the connection.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next event in the bytes pushed so far; `None` if no event is complete.
    ///
    /// # Errors
    /// The bytes are not SPDY; no later bytes can be read.
    pub(crate) fn read(&mut self) -> Result<Option<Received>, Fault> {
        loop {
            if self.data.is_some() {
                match self.piece() {
                    Some(piece) => return Ok(Some(piece)),
                    None if self.data.is_some() => return Ok(None),
                    None => {}
                }
            }
            let Some(mut head) = self.buffer.get(..HEAD_BYTES) else {
                return Ok(None);
            };
            let (word, sizes) = (head.get_u32(), head.get_u32());
            let flags = sizes.to_be_bytes()[0];
            let length = usize::try_from(sizes & 0x00ff_ffff).expect("24 bits are a size");
            if word & CONTROL == 0 {
                self.buffer.advance(HEAD_BYTES);
                self.data = Some(Data {
                    stream: number(word)?,
                    left: length,
                    last: flags & FIN != 0,
                });
                continue;
            }
            if length > CONTROL_BYTES_MAX {
                return Err(Fault("a control frame is too long"));
            }
            if self.buffer.len() < HEAD_BYTES + length {
                return Ok(None);
            }
            let frame = self.buffer.split_to(HEAD_BYTES + length);
            let kind = u16::from_be_bytes([frame[2], frame[3]]);
            if let Some(received) = self.control(kind, flags, &frame[HEAD_BYTES..])? {
                return Ok(Some(received));
            }
        }
    }

    /// Returns the next piece of the data frame; `None` if none has arrived or the piece is empty
    /// and not the last.
    fn piece(&mut self) -> Option<Received> {
        let data = self.data.as_mut()?;
        let size = data.left.min(self.buffer.len()).min(PIECE_BYTES_MAX);
        data.left -= size;
        let (stream, over) = (data.stream, data.left == 0);
        let last = over && data.last;
        if over {
            self.data = None;
        }
        let bytes = self.buffer.split_to(size).freeze();
        let is_received = last || !bytes.is_empty();
        is_received.then_some(Received::Data {
            stream,
            bytes,
            last,
        })
    }

    fn control(
        &mut self,
        kind: u16,
        flags: u8,
        mut content: &[u8],
    ) -> Result<Option<Received>, Fault> {
        let mut word = || {
            content
                .try_get_u32()
                .map_err(|_| Fault("a truncated frame"))
        };
        Ok(match kind {
            SYN_STREAM => {
                let stream = number(word()?)?;
                // The stream it is associated to, its priority and its slot.
                word()?;
                let block = content.get(2..).ok_or(Fault("a truncated frame"))?;
                let headers = self.blocks.read(block)?;
                let last = flags & FIN != 0;
                Some(Received::Opened {
                    stream,
                    headers,
                    last,
                })
            }
            // The block is read because one compression stream covers all blocks.
            SYN_REPLY | HEADERS => {
                let stream = number(word()?)?;
                self.blocks.read(content)?;
                let last = flags & FIN != 0;
                last.then(|| Received::Data {
                    stream,
                    bytes: Bytes::new(),
                    last,
                })
            }
            RST_STREAM => Some(Received::Reset {
                stream: number(word()?)?,
            }),
            PING => Some(Received::Ping { id: word()? }),
            GOAWAY => Some(Received::GoneAway),
            SETTINGS | WINDOW_UPDATE => None,
            _ => return Err(Fault("an unknown frame")),
        })
    }
}

/// The number of a stream, which has 31 bits and is not 0.
fn number(word: u32) -> Result<u32, Fault> {
    match word & !CONTROL {
        0 => Err(Fault("stream 0")),
        stream => Ok(stream),
    }
}

/// Writes frames.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    has_replied: bool,
}

impl Encoder {
    /// Accepts a stream, without headers.
    pub(crate) fn reply(&mut self, stream: u32, to: &mut BytesMut) {
        // zlib's header with Adler-32 of the dictionary, then in each block uncompressed the number of
        // headers, 0, and the empty block by which a stream is flushed.
        const BEGINNING: &[u8] = b"\x78\x20\xe3\xc6\xa7\xc2";
        const NO_HEADERS: &[u8] = b"\x00\x04\x00\xfb\xff\x00\x00\x00\x00\x00\x00\x00\xff\xff";
        let beginning = match std::mem::replace(&mut self.has_replied, true) {
            true => &[],
            false => BEGINNING,
        };
        let length = 4 + beginning.len() + NO_HEADERS.len();
        head(SYN_REPLY, length, to);
        to.put_u32(stream);
        to.put_slice(beginning);
        to.put_slice(NO_HEADERS);
    }

    /// Writes `bytes` on a stream; empty `bytes` end the stream.
    pub(crate) fn data(&self, stream: u32, mut bytes: Bytes, to: &mut BytesMut) {
        let flags = if bytes.is_empty() { FIN } else { 0 };
        loop {
            let part = bytes.split_to(bytes.len().min(DATA_BYTES_MAX));
            to.put_u32(stream);
            to.put_u32(u32::from(flags) << 24 | size(part.len()));
            to.put_slice(&part);
            if bytes.is_empty() {
                return;
            }
        }
    }

    /// Ends a stream both ways.
    pub(crate) fn reset(&self, stream: u32, reason: ResetReason, to: &mut BytesMut) {
        head(RST_STREAM, 8, to);
        to.put_u32(stream);
        to.put_u32(reason.code());
    }

    /// Answers a ping.
    pub(crate) fn ping(&self, id: u32, to: &mut BytesMut) {
        head(PING, 4, to);
        to.put_u32(id);
    }

    /// Says that the connection is going to be closed, and nothing is wrong.
    pub(crate) fn go_away(&self, newest_stream: u32, to: &mut BytesMut) {
        head(GOAWAY, 8, to);
        to.put_u32(newest_stream);
        to.put_u32(0);
    }
}

fn head(kind: u16, length: usize, to: &mut BytesMut) {
    to.put_u16(0x8000 | VERSION);
    to.put_u16(kind);
    to.put_u32(size(length));
}

fn size(length: usize) -> u32 {
    u32::try_from(length).expect("frames have some kilobytes")
}

#[cfg(test)]
mod tests {
    use super::super::client::{Client, frame};
    use super::*;

    /// A data frame with its content.
    fn data(stream: u32, flags: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        bytes.put_u32(stream);
        bytes.put_u32(u32::from(flags) << 24 | size(content.len()));
        bytes.put_slice(content);
        bytes.to_vec()
    }

    /// Reads `bytes` in chunks of `step`; consecutive pieces of data are joined.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<Received>, Fault> {
        let mut decoder = Decoder::default();
        let mut all: Vec<Received> = Vec::new();
        for part in bytes.chunks(step) {
            decoder.push(part);
            while let Some(received) = decoder.read()? {
                match (all.last_mut(), received) {
                    (
                        Some(Received::Data {
                            stream,
                            bytes,
                            last,
                        }),
                        Received::Data {
                            stream: same,
                            bytes: more,
                            last: end,
                        },
                    ) if *stream == same && !*last => {
                        *bytes = [bytes.clone(), more].concat().into();
                        *last = end;
                    }
                    (_, received) => all.push(received),
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn frames_are_read_however_their_bytes_come() {
        let mut client = Client::default();
        let first = client.open(1, &[("streamtype", "stdin")], false);
        let second = client.open(3, &[], true);
        let long = vec![b'x'; 3 * PIECE_BYTES_MAX + 1];
        let bytes = [
            frame(SETTINGS, 0, &[0; 4]),
            first,
            second,
            data(1, 0, b""),
            data(1, 0, &long),
            data(1, FIN, b"end"),
            frame(WINDOW_UPDATE, 0, &[0; 8]),
            frame(PING, 0, &[0, 0, 0, 7]),
            frame(RST_STREAM, 0, &[0, 0, 0, 3, 0, 0, 0, 5]),
            frame(GOAWAY, 0, &[0; 8]),
        ]
        .concat();
        let whole = read(&bytes, bytes.len()).unwrap();
        let [opened, closed, rest @ ..] = whole.as_slice() else {
            panic!("{whole:?}");
        };
        let Received::Opened { headers, .. } = opened else {
            panic!("{opened:?}");
        };
        assert_eq!(headers.get("streamtype"), "stdin");
        let fin = Received::Opened {
            stream: 3,
            headers: Headers::default(),
            last: true,
        };
        assert_eq!(*closed, fin);
        let content = Received::Data {
            stream: 1,
            bytes: [&long[..], b"end"].concat().into(),
            last: true,
        };
        let expected = [
            content,
            Received::Ping { id: 7 },
            Received::Reset { stream: 3 },
            Received::GoneAway,
        ];
        assert_eq!(rest, expected);
        for step in [1, 7, 4096] {
            assert_eq!(read(&bytes, step).unwrap(), whole, "{step}");
        }
    }

    #[test]
    fn no_more_is_held_than_is_needed() {
        let mut decoder = Decoder::default();
        // A frame of 16 MiB is passed on as it comes.
        decoder.push(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]);
        for _ in 0..100 {
            decoder.push(&[0; 1000]);
            while let Some(received) = decoder.read().unwrap() {
                assert!(matches!(received, Received::Data { last: false, .. }));
            }
            assert!(decoder.buffer.is_empty());
        }
    }

    #[test]
    fn malformed_frames_are_faults() {
        for (bytes, why) in [
            (data(0, 0, b"a"), "stream 0"),
            (frame(5, 0, b""), "an unknown frame"),
            (frame(PING, 0, b"abc"), "a truncated frame"),
            (frame(SYN_STREAM, 0, &[0, 0, 0, 1, 0]), "a truncated frame"),
            (frame(RST_STREAM, 0, &[0; 8]), "stream 0"),
            (
                frame(SETTINGS, 0, &vec![0; CONTROL_BYTES_MAX + 1]),
                "a control frame is too long",
            ),
        ] {
            assert_eq!(read(&bytes, bytes.len()), Err(Fault(why)), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let mut bytes = BytesMut::new();
        let mut encoder = Encoder::default();
        let long = Bytes::from(vec![b'x'; DATA_BYTES_MAX + 1]);
        encoder.reply(1, &mut bytes);
        encoder.reply(3, &mut bytes);
        encoder.data(1, long.clone(), &mut bytes);
        encoder.data(1, Bytes::new(), &mut bytes);
        encoder.ping(9, &mut bytes);
        encoder.reset(3, ResetReason::Cancel, &mut bytes);
        encoder.go_away(3, &mut bytes);
        let content = Received::Data {
            stream: 1,
            bytes: long,
            last: true,
        };
        let expected = [
            content,
            Received::Ping { id: 9 },
            Received::Reset { stream: 3 },
            Received::GoneAway,
        ];
        assert_eq!(read(&bytes, 100).unwrap(), expected);
    }
}
