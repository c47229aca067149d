//! A client's frames, for tests.

use bytes::BufMut;
use flate2::{Compress, Compression, FlushCompress};

use super::frame::SYN_STREAM;
use super::header_block::{adler32, dictionary};

/// The blocks of headers that a client sends.
pub(super) struct Blocks {
    zlib: Compress,
    has_begun: bool,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            zlib: Compress::new(Compression::default(), false),
            has_begun: false,
        }
    }
}

impl Blocks {
    /// The next block; without help of the dictionary.
    pub(super) fn next(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = Vec::new();
        plain.put_u32(u32::try_from(headers.len()).unwrap());
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(u32::try_from(text.len()).unwrap());
            plain.put_slice(text.as_bytes());
        }
        let mut block = Vec::with_capacity(4096);
        if !std::mem::replace(&mut self.has_begun, true) {
            block.put_slice(&[0x78, 0xbb]);
            block.put_u32(adler32(&dictionary()));
        }
        let zlib = &mut self.zlib;
        zlib.compress_vec(&plain, &mut block, FlushCompress::Sync)
            .unwrap();
        block
    }
}

/// The writing half of a client.
#[derive(Default)]
pub(crate) struct Client(Blocks);

impl Client {
    /// Opens a stream; the client writes nothing on it if `last`.
    pub(crate) fn open(&mut self, stream: u32, headers: &[(&str, &str)], last: bool) -> Vec<u8> {
        let mut content = Vec::new();
        content.put_u32(stream);
        content.put_slice(&[0; 6]);
        content.put_slice(&self.0.next(headers));
        frame(SYN_STREAM, u8::from(last), &content)
    }
}

/// A control frame.
pub(super) fn frame(kind: u16, flags: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, 3];
    bytes.put_u16(kind);
    bytes.put_u32(u32::from(flags) << 24 | u32::try_from(content.len()).unwrap());
    bytes.put_slice(content);
    bytes
}
