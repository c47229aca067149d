//! The devices that every container has below `/dev`.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How much of a device is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// What a device does with those who read it; all take whatever is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// Nothing is to be read.
    Null,
    /// Zeros are.
    Zero,
    /// Random bytes are.
    Random,
}

/// All of them, by name.
pub(super) const DEVICES: &[(&str, Device)] = &[
    ("null", Device::Null),
    ("random", Device::Random),
    ("urandom", Device::Random),
    ("zero", Device::Zero),
];

/// The randomness of one container, which its seed determines.
#[derive(Clone, Debug)]
pub(in crate::node) struct Randomness(Arc<Mutex<ChaCha8Rng>>);

impl Randomness {
    pub(super) fn of(seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self(Arc::new(Mutex::new(rng)))
    }
}

impl Default for Randomness {
    fn default() -> Self {
        Self::of(0)
    }
}

/// Bytes that never end.
#[derive(Clone, Debug)]
pub(in crate::node) enum Endless {
    Zeros,
    Random(Randomness),
}

impl Endless {
    pub(super) fn chunk(&self) -> Bytes {
        let mut bytes = vec![0; CHUNK_BYTES];
        if let Self::Random(Randomness(rng)) = self {
            rng.lock().fill_bytes(&mut bytes);
        }
        bytes.into()
    }
}
