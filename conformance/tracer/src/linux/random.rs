//! Random numbers of a program, which follow from a seed.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// The most bytes that one call returns. A program that wants more calls again.
pub(super) const AT_ONCE: usize = 65_536;

/// A source of random bytes for each process, in the order in which processes first ask.
#[derive(Debug)]
pub(super) struct Random {
    seed: u64,
    sources: BTreeMap<i32, ChaCha8Rng>,
    begun: u64,
}

impl Random {
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            seed,
            sources: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Fills `bytes` for the process.
    pub(super) fn fill(&mut self, process: i32, bytes: &mut [u8]) {
        let source = self.sources.entry(process).or_insert_with(|| {
            let mut source = ChaCha8Rng::seed_from_u64(self.seed);
            source.set_stream(self.begun);
            self.begun += 1;
            source
        });
        source.fill_bytes(bytes);
    }

    /// Forgets a process that has ended.
    pub(super) fn forget(&mut self, process: i32) {
        self.sources.remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_from_the_seed_and_the_order_of_processes() {
        let draw = |seed, processes: [i32; 2]| {
            let mut random = Random::seeded(seed);
            processes.map(|process| {
                let mut bytes = [0; 16];
                random.fill(process, &mut bytes);
                random.fill(process, &mut bytes);
                bytes
            })
        };
        let [first, second] = draw(7, [10, 11]);
        assert_ne!(first, second);
        assert_eq!(draw(7, [3, 9]), [first, second]);
        assert_ne!(draw(8, [10, 11])[0], first);
    }
}
