//! Draws from a seed.

use kubeproof_machinery::clock::{Entropy, Seed};

/// A source of choices that all follow from one seed.
pub(super) struct Draw(Entropy);

impl Draw {
    pub(super) fn of(seed: u64) -> Self {
        Self(Entropy::seeded(Seed::number(seed)))
    }

    /// Returns a number from 0 to `limit - 1`.
    pub(super) fn below(&self, limit: usize) -> usize {
        let limit_as_float = u32::try_from(limit).map_or(f64::MAX, f64::from);
        (self.0.jitter() * limit_as_float) as usize
    }

    /// Returns a number from `least` to `most`.
    pub(super) fn between(&self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// Returns true in `percent` of 100 draws.
    pub(super) fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the choices.
    pub(super) fn pick<'a, T: ?Sized>(&self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_from_the_seed_and_stay_in_range() {
        let draws = |seed| -> Vec<usize> {
            let draw = Draw::of(seed);
            (0..200).map(|_| draw.between(3, 7)).collect()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        let drawn: std::collections::BTreeSet<usize> = draws(1).into_iter().collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
    }
}
