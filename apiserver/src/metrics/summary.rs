//! Summaries: quantiles of the durations of the last five hours.

use jiff::Timestamp;
use parking_lot::Mutex;

use super::families::{Family, SECOND, ratio};

/// The quantiles that are shown, as upstream has them.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// The number of windows; the oldest is dropped when the next begins.
const WINDOWS: i64 = 5;
/// Seconds of a window.
const WINDOW: i64 = 60 * 60;
/// The number of leading bits kept of a duration, for a precision of one part in 32.
const KEPT: u32 = 6;
/// Durations in nanoseconds end here: 73 minutes.
const LONGEST: u64 = (1 << 42) - 1;

/// The durations of one kind of work, as a summary.
#[derive(Debug, Default)]
pub(super) struct Summary(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the present window, counted from the epoch.
    window: i64,
    /// The durations of each window by [`place`]; those of window n are at n modulo [`WINDOWS`].
    counts: [Vec<u32>; WINDOWS as usize],
    nanos: u64,
    count: u64,
}

impl Summary {
    /// Observes a duration of `nanos` that ended at `now`.
    pub(super) fn observe(&self, now: Timestamp, nanos: u64) {
        let mut state = self.0.lock();
        let window = state.turn_to(now);
        let counts = &mut state.counts[window];
        let place = place(nanos);
        if counts.len() <= place {
            counts.resize(place + 1, 0);
        }
        counts[place] += 1;
        state.nanos += nanos;
        state.count += 1;
    }

    /// Adds the summary as of `now`.
    pub(super) fn show(&self, family: &mut Family, labels: &[(&str, &str)], now: Timestamp) {
        let mut state = self.0.lock();
        state.turn_to(now);
        let quantiles = QUANTILES.map(|quantile| (quantile, state.quantile(quantile)));
        let sum = ratio(state.nanos, SECOND);
        family.add_summary(labels, &quantiles, (sum, state.count));
    }
}

impl State {
    /// Drops old windows; returns the index of the present window.
    fn turn_to(&mut self, now: Timestamp) -> usize {
        let window = now.as_second().div_euclid(WINDOW);
        // A clock that is set back stays in its window.
        let passed = (window - self.window).clamp(0, WINDOWS);
        self.window = self.window.max(window);
        for before in 0..passed {
            self.counts[index(self.window - before)].clear();
        }
        index(self.window)
    }

    /// The duration in seconds that a part of all does not exceed; not a number without any.
    fn quantile(&self, part: f64) -> f64 {
        let longest = self.counts.iter().map(Vec::len).max().unwrap_or_default();
        let at = |place: usize| -> u64 {
            let own = self.counts.iter().filter_map(|counts| counts.get(place));
            own.map(|count| u64::from(*count)).sum()
        };
        let all: u64 = (0..longest).map(at).sum();
        let wanted = part * ratio(all, 1);
        let mut seen = 0;
        let place = (0..longest).find(|place| {
            seen += at(*place);
            seen > 0 && ratio(seen, 1) >= wanted
        });
        place.map_or(f64::NAN, |place| ratio(middle(place), SECOND))
    }
}

fn index(window: i64) -> usize {
    usize::try_from(window.rem_euclid(WINDOWS)).expect("a remainder is not negative")
}

/// The place of a duration among those that differ in more than their last bits.
fn place(nanos: u64) -> usize {
    let nanos = nanos.min(LONGEST);
    let dropped = (u64::BITS - nanos.leading_zeros()).saturating_sub(KEPT);
    let kept = usize::try_from(nanos >> dropped).expect("few bits are kept");
    kept + ((dropped as usize) << (KEPT - 1))
}

/// A duration in the middle of those of a place.
fn middle(place: usize) -> u64 {
    let half = 1 << (KEPT - 1);
    let dropped = (place / half).saturating_sub(1);
    let kept = (place - dropped * half) as u64;
    (kept << dropped) + ((1 << dropped) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::families::exposition;

    fn text(summary: &Summary, now: i64) -> String {
        let mut family = Family::summary("s", "S.");
        summary.show(&mut family, &[], Timestamp::from_second(now).unwrap());
        exposition([family])
    }

    #[test]
    fn every_duration_is_near_the_middle_of_its_place() {
        let mut last = 0;
        for nanos in (0..2_000).chain((11..42).flat_map(|bit| [(1 << bit) - 1, 1 << bit])) {
            let place = place(nanos);
            assert!(place >= last, "places ascend, at {nanos}");
            last = place;
            assert!(middle(place).abs_diff(nanos) <= nanos / 32, "{nanos}");
        }
        assert_eq!(place(u64::MAX), place(LONGEST));
    }

    #[test]
    fn quantiles_are_of_five_hours_and_sums_of_all_time() {
        let summary = Summary::default();
        let observe = |hour: i64, nanos: u64| {
            let now = Timestamp::from_second(hour * WINDOW).unwrap();
            summary.observe(now, nanos);
        };
        for nanos in 1..=20 {
            observe(10, nanos);
        }
        let quantile = |part: &str, nanos: &str| format!("s{{quantile=\"{part}\"}} {nanos}\n");
        let shown = text(&summary, 10 * WINDOW);
        assert!(shown.contains(&quantile("0.5", "0.00000001")), "{shown}");
        assert!(shown.contains(&quantile("0.9", "0.000000018")), "{shown}");
        assert!(shown.contains(&quantile("0.99", "0.00000002")), "{shown}");
        assert!(shown.ends_with("s_sum 0.00000021\ns_count 20\n"), "{shown}");

        observe(14, 0);
        assert!(text(&summary, 14 * WINDOW).contains(&quantile("0.5", "0.00000001")));
        let shown = text(&summary, 15 * WINDOW);
        assert!(shown.contains(&quantile("0.99", "0")), "{shown}");
        let shown = text(&summary, 30 * WINDOW);
        assert!(shown.contains(&quantile("0.5", "NaN")), "{shown}");
        assert!(shown.ends_with("s_count 21\n"), "{shown}");
    }
}
