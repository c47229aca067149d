//! The devices that every container has below `/dev`.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The size of a chunk that is read from a device.
const CHUNK_BYTES: usize = 64 * 1024;

/// A device by what its readers get; all devices discard writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// No bytes.
    Null,
    /// Zeros without end.
    Zero,
    /// Random bytes without end.
    Random,
}

/// All devices by name.
pub(super) const DEVICES: &[(&str, Device)] = &[
    ("null", Device::Null),
    ("random", Device::Random),
    ("urandom", Device::Random),
    ("zero", Device::Zero),
];

/// The random number generator of one container, seeded.
#[derive(Clone, Debug)]
pub(crate) struct Randomness(Arc<Seeded>);

/// A generator that is made on its first use: few containers read random bytes.
#[derive(Debug)]
struct Seeded {
    seed: u64,
    rng: Mutex<Option<Box<ChaCha8Rng>>>,
}

impl Randomness {
    pub(super) fn of(seed: u64) -> Self {
        let rng = Mutex::default();
        Self(Arc::new(Seeded { seed, rng }))
    }

    fn fill(&self, bytes: &mut [u8]) {
        let mut rng = self.0.rng.lock();
        let new = || Box::new(ChaCha8Rng::seed_from_u64(self.0.seed));
        rng.get_or_insert_with(new).fill_bytes(bytes);
    }
}

impl Default for Randomness {
    fn default() -> Self {
        Self::of(0)
    }
}

/// An endless source of bytes.
#[derive(Clone, Debug)]
pub(crate) enum Endless {
    Zeros,
    Random(Randomness),
}

impl Endless {
    pub(super) fn chunk(&self) -> Bytes {
        let mut bytes = vec![0; CHUNK_BYTES];
        if let Self::Random(randomness) = self {
            randomness.fill(&mut bytes);
        }
        bytes.into()
    }
}
