//! The `Retry-After` of refused requests, which grows while many are refused.
//!
//! Source: apiserver `pkg/util/flowcontrol/dropped_requests_tracker.go`.

use std::collections::VecDeque;

/// The maximum `Retry-After` of a refused client, in seconds.
const RETRY_AFTER_MAX: i64 = 32;

/// The refused requests of one level.
#[derive(Debug)]
pub(super) struct Dropped {
    /// Past seconds with their counts, for as long as these matter.
    history: VecDeque<(i64, i64)>,
    second: i64,
    count: i64,
    retry_after: i64,
    /// The second of the last increase.
    increased: i64,
}

impl Default for Dropped {
    fn default() -> Self {
        Self {
            history: VecDeque::new(),
            second: 0,
            count: 0,
            retry_after: 1,
            increased: 0,
        }
    }
}

impl Dropped {
    /// Notes a request that was refused at `second`; returns the seconds after which its client may
    /// retry.
    pub(super) fn note(&mut self, second: i64) -> u64 {
        if self.second == second {
            self.count += 1;
        } else {
            self.history.push_back((self.second, self.count));
            let kept = (2 * self.retry_after).min(RETRY_AFTER_MAX);
            let last = self.second;
            self.history.retain(|(then, _)| last - then <= kept);
            (self.second, self.count) = (second, 1);
            self.adjust(second);
        }
        self.retry_after.unsigned_abs()
    }

    fn adjust(&mut self, now: i64) {
        let recent = self.history.iter();
        let recent = recent.filter(|(then, _)| now - then <= self.retry_after && *then < now);
        let dropped: i64 = recent.map(|(_, count)| count).sum();
        if now - self.increased >= self.retry_after && dropped >= 3 * self.retry_after {
            self.retry_after = (2 * self.retry_after).min(RETRY_AFTER_MAX);
            self.increased = now;
        } else if dropped < self.retry_after && self.retry_after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_double_the_wait_and_few_shorten_it() {
        let mut dropped = Dropped::default();
        assert_eq!((0..5).map(|_| dropped.note(100)).last(), Some(1));
        assert_eq!((0..8).map(|_| dropped.note(101)).last(), Some(2));
        assert_eq!(dropped.note(102), 2);
        assert_eq!(dropped.note(103), 4);
        assert_eq!(dropped.note(120), 3);
        assert_eq!(dropped.note(140), 2);
    }
}
