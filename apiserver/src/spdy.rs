//! SPDY/3.1 as a server of `exec`, `attach` and `portforward` meets it: frames, and no sockets.
//!
//! - `frame`: what a client sends, piece by piece, and what it is sent
//! - `header_block`: the compressed headers of a stream
//!
//! Like `spdystream`, which every Go client has, this side neither keeps nor grants windows: a
//! connection as a whole is read as fast as its streams are taken.
//! Source: SPDY Protocol, draft 3.1; `github.com/moby/spdystream`.

#[cfg(test)]
pub(crate) mod client;
mod frame;
mod header_block;

pub(crate) use frame::{Decoder, Encoder, Received, ResetReason};
pub(crate) use header_block::Headers;

/// A client that does not speak the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SPDY: {0}")]
pub(crate) struct Fault(&'static str);
