//! Messages of fixed length between the tracer and the program that embeds it.

use crate::{Threads, Time, Waiting};

/// A message to the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// It is this time now. The first one starts the program, and has no answer. Others are answered once the program sees the
    /// time.
    Advance(Time),
    /// Asks for [`Threads`], after a short wait if one runs.
    Settle,
    /// Asks for [`Threads`] at once.
    Look,
}

impl Request {
    pub(super) const LENGTH: usize = 17;

    pub(super) fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = match self {
            Self::Advance(time) => {
                bytes[1..9].copy_from_slice(&time.realtime.to_le_bytes());
                bytes[9..].copy_from_slice(&time.monotonic.to_le_bytes());
                b'a'
            }
            Self::Settle => b's',
            Self::Look => b'l',
        };
        bytes
    }

    /// Reads a message; `None` for other bytes.
    pub(super) fn decode(bytes: [u8; Self::LENGTH]) -> Option<Self> {
        let (first, second) = halves(&bytes);
        match bytes[0] {
            b'a' => Some(Self::Advance(Time {
                realtime: i64::from_le_bytes(first),
                monotonic: u64::from_le_bytes(second),
            })),
            b's' => Some(Self::Settle),
            b'l' => Some(Self::Look),
            _ => None,
        }
    }
}

impl Threads {
    pub(super) const LENGTH: usize = 17;

    pub(super) fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = b'r';
        if let Self::Wait(Waiting { until, ran }) = self {
            bytes[0] = b'w';
            bytes[1..9].copy_from_slice(&until.unwrap_or(u64::MAX).to_le_bytes());
            bytes[9..].copy_from_slice(&ran.to_le_bytes());
        }
        bytes
    }

    /// Reads a message; `None` for other bytes.
    pub(super) fn decode(bytes: [u8; Self::LENGTH]) -> Option<Self> {
        let (first, second) = halves(&bytes);
        match bytes[0] {
            b'r' => Some(Self::Run),
            b'w' => Some(Self::Wait(Waiting {
                until: Some(u64::from_le_bytes(first)).filter(|until| *until < u64::MAX),
                ran: u64::from_le_bytes(second),
            })),
            _ => None,
        }
    }
}

/// The two numbers of a message, after its first byte.
fn halves(bytes: &[u8; 17]) -> ([u8; 8], [u8; 8]) {
    let (mut first, mut second) = ([0; 8], [0; 8]);
    first.copy_from_slice(&bytes[1..9]);
    second.copy_from_slice(&bytes[9..]);
    (first, second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let time = Time {
            realtime: -7,
            monotonic: 9,
        };
        for request in [Request::Advance(time), Request::Settle, Request::Look] {
            assert_eq!(Request::decode(request.encode()), Some(request));
        }
        for until in [None, Some(3)] {
            let waiting = Threads::Wait(Waiting { until, ran: 8 });
            assert_eq!(Threads::decode(waiting.encode()), Some(waiting));
        }
        assert_eq!(Threads::decode(Threads::Run.encode()), Some(Threads::Run));
        assert_eq!(Threads::decode([0; 17]), None);
        assert_eq!(Request::decode([0; 17]), None);
    }
}
