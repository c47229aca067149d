//! Completion indexes as they are printed in a job's status: ascending intervals.

use std::fmt;

/// A set of indexes. Intervals neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Intervals(Vec<Interval>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    first: usize,
    last: usize,
}

impl Intervals {
    /// Reads `0,2-4`. What can't be read is left out, as is every index from `completions` on.
    pub(super) fn parse(text: &str, completions: usize) -> Self {
        let mut all = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let mut ends = part.split('-');
            let first = ends.next().and_then(|end| end.parse::<usize>().ok());
            let last = ends.next().map(str::parse::<usize>);
            let (Some(first), Ok(last)) = (first, last.transpose()) else {
                tracing::info!(interval = part, "an interval of indexes can't be read");
                continue;
            };
            if first >= completions {
                break;
            }
            let last = last.unwrap_or(first).min(completions - 1);
            all.push(Interval { first, last });
        }
        Self::of(all)
    }

    fn of(mut all: Vec<Interval>) -> Self {
        all.sort_unstable();
        let mut merged: Vec<Interval> = Vec::new();
        for next in all {
            match merged.last_mut() {
                Some(before) if next.first <= before.last + 1 => {
                    before.last = before.last.max(next.last);
                }
                _ => merged.push(next),
            }
        }
        Self(merged)
    }

    /// These indexes and those of `others`.
    pub(super) fn with(&self, others: impl IntoIterator<Item = usize>) -> Self {
        let others = others.into_iter().map(|index| Interval {
            first: index,
            last: index,
        });
        Self::of(self.0.iter().copied().chain(others).collect())
    }

    /// These indexes and those of `other`.
    pub(super) fn merged(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of indexes.
    pub(super) fn total(&self) -> usize {
        self.0.iter().map(|one| one.last - one.first + 1).sum()
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        let at = self.0.partition_point(|one| one.last < index);
        self.0.get(at).is_some_and(|one| one.first <= index)
    }

    /// The number of common indexes.
    pub(super) fn shared(&self, other: &Self) -> usize {
        let (mut at, mut shared) = (0, 0);
        for one in &self.0 {
            while let Some(two) = other.0.get(at) {
                let overlap = (one.last.min(two.last) + 1).saturating_sub(one.first.max(two.first));
                shared += overlap;
                if two.last > one.last {
                    break;
                }
                at += 1;
            }
        }
        shared
    }

    /// The first `count` indexes below `completions` that are not among these.
    pub(super) fn first_missing(&self, count: usize, completions: usize) -> Vec<usize> {
        let mut missing = Vec::new();
        let mut next = 0;
        for one in &self.0 {
            missing.extend((next..one.first.min(completions)).take(count - missing.len()));
            next = one.last + 1;
        }
        missing.extend((next..completions.max(next)).take(count - missing.len()));
        missing
    }
}

impl fmt::Display for Intervals {
    /// A comma separates an interval of two indexes, as upstream prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Interval { first, last }) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_read_as_they_are_written() {
        let table = [
            ("", "", 0),
            ("0", "0", 1),
            ("0,1", "0,1", 2),
            ("0-2", "0-2", 3),
            ("0,1,2,4", "0-2,4", 4),
            ("0-3,8-20", "0-3,8,9", 6),
            ("0,x,2-y,3", "0,3", 2),
            ("10,11", "", 0),
        ];
        for (text, written, total) in table {
            let read = Intervals::parse(text, 10);
            assert_eq!(read.to_string(), written, "{text:?}");
            assert_eq!(read.total(), total, "{text:?}");
        }
    }

    #[test]
    fn indexes_are_added_merged_and_found() {
        let some = Intervals::parse("1-2,5", 10).with([3, 9, 3]);
        assert_eq!(some.to_string(), "1-3,5,9");
        let both = some.merged(&Intervals::parse("0,4", 10));
        assert_eq!(both.to_string(), "0-5,9");
        let found: Vec<usize> = (0..10).filter(|index| both.contains(*index)).collect();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 9]);
    }

    #[test]
    fn missing_indexes_come_in_order_up_to_a_count() {
        let some = Intervals::parse("1-3,5", 10);
        assert_eq!(some.first_missing(3, 10), [0, 4, 6]);
        assert_eq!(some.first_missing(10, 7), [0, 4, 6]);
        assert_eq!(some.first_missing(10, 2), [0]);
        assert_eq!(some.first_missing(0, 10), [0; 0]);
        assert_eq!(Intervals::default().first_missing(2, 10), [0, 1]);
    }

    #[test]
    fn what_two_sets_share_is_counted() {
        let shared =
            |one: &str, two: &str| Intervals::parse(one, 100).shared(&Intervals::parse(two, 100));
        assert_eq!(shared("0-5", "1,3-4,9"), 3);
        assert_eq!(shared("1,3-4,9", "0-5"), 3);
        assert_eq!(shared("0-2,6-8", "2-6"), 2);
        assert_eq!(shared("0", "1"), 0);
    }
}
