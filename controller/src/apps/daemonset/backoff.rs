//! How long failed pods are left alone, by set, generation and node.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The delay after the first deletion; it doubles with each further one.
const FIRST: SignedDuration = SignedDuration::from_secs(1);
/// No delay is longer.
const LONGEST: SignedDuration = SignedDuration::from_mins(15);
/// A node without a deletion for longer than this begins with the first delay again.
const EXPIRES: SignedDuration = SignedDuration::from_mins(30);

/// A set, by its uid, at a generation that its status has observed, and a node's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) set: String,
    pub(super) generation: i64,
    pub(super) node: String,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The last deletion.
    since: Timestamp,
    delay: SignedDuration,
}

/// The delays of all places where a failed pod was deleted.
///
/// Source: `Backoff` of `k8s.io/client-go/util/flowcontrol`, and `podsShouldBeOnNode` of the DaemonSet controller.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    entries: Mutex<BTreeMap<Place, Entry>>,
}

impl Backoffs {
    /// Returns the delay after which to look at the place again; with none, its failed pod is to be
    /// deleted now, and the next delay is longer. The delay counts from now, not from the last deletion.
    pub(super) fn next(&self, place: Place, now: Timestamp) -> Option<Duration> {
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| now.duration_since(entry.since) <= EXPIRES);
        let known = entries.get(&place).copied();
        if let Some(known) = known
            && now.duration_since(known.since) < known.delay
        {
            return Some(known.delay.unsigned_abs());
        }
        let delay = known.map_or(FIRST, |known| (known.delay * 2).min(LONGEST));
        entries.insert(place, Entry { since: now, delay });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(generation: i64, node: &str) -> Place {
        Place {
            set: "uid".to_owned(),
            generation,
            node: node.to_owned(),
        }
    }

    /// The answers at these seconds, for one place.
    fn answers(backoffs: &Backoffs, place: &Place, seconds: &[i64]) -> Vec<Option<u64>> {
        let at = |second: &i64| Timestamp::from_second(*second).unwrap();
        let next = |second| backoffs.next(place.clone(), at(second));
        let delays = seconds.iter().map(next);
        delays.map(|delay| Some(delay?.as_secs())).collect()
    }

    #[test]
    fn delays_double_and_count_from_each_look() {
        let backoffs = Backoffs::default();
        let first = answers(&backoffs, &place(1, "a"), &[0, 0, 1, 2, 3, 6]);
        assert_eq!(first, [None, Some(1), None, Some(2), None, Some(4)]);
        let many: Vec<i64> = (0..12).map(|power| 1000 * power).collect();
        let longest = answers(&backoffs, &place(1, "b"), &many);
        assert!(longest.iter().all(Option::is_none));
        let last = answers(&backoffs, &place(1, "b"), &[11_001]);
        assert_eq!(last, [Some(15 * 60)]);
    }

    #[test]
    fn another_node_or_generation_begins_anew() {
        let backoffs = Backoffs::default();
        for place in [place(1, "a"), place(1, "b"), place(2, "a")] {
            assert_eq!(answers(&backoffs, &place, &[0, 0]), [None, Some(1)]);
        }
    }

    #[test]
    fn half_an_hour_without_a_deletion_is_forgotten() {
        for (pause, expected) in [(1800, 4), (1801, 1)] {
            let backoffs = Backoffs::default();
            answers(&backoffs, &place(1, "a"), &[0, 1]);
            let after = answers(&backoffs, &place(1, "a"), &[1 + pause, 1 + pause]);
            assert_eq!(after, [None, Some(expected)], "{pause} s");
        }
    }
}
