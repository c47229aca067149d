//! Bytes of upgraded connections.

use crate::spdy::{Decoder, Received};

/// The bytes of a SPDY connection, whole and in pieces: both are decoded to the same.
pub(super) fn spdy(data: &[u8]) {
    let size = data.first().map_or(1, |byte| usize::from(*byte) + 1);
    assert_eq!(decoded(data, data.len().max(1)), decoded(data, size));
}

/// Decodes the bytes in pieces of `size`: the frames, the length of all data, and whether a fault
/// ended the decoding.
fn decoded(data: &[u8], size: usize) -> (Vec<Received>, usize, bool) {
    let (mut decoder, mut all, mut written) = (Decoder::default(), Vec::new(), 0);
    for piece in data.chunks(size) {
        decoder.push(piece);
        loop {
            match decoder.read() {
                Ok(Some(Received::Data { bytes, .. })) => written += bytes.len(),
                Ok(Some(received)) => all.push(received),
                Ok(None) => break,
                Err(_) => return (all, written, true),
            }
        }
    }
    (all, written, false)
}
