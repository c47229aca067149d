//! Time that a process takes to compute.
//!
//! Time stands still while a thread runs, so one that runs until another has slept would run forever. Runtimes of languages count on such
//! sleeps of some milliseconds to pass on turns: Go takes the processor from a goroutine after 10 ms, and Python the interpreter from a
//! thread after 5 ms. So a short wait ends, after all, when its process has computed for a long time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::clock::{Clock, Kind};
use super::threads::Threads;

/// A process that has computed for this long lets its short waits end: longer than most work of a program between two waits.
const COMPUTING: Duration = Duration::from_millis(50);
/// A program is not suspected of computing before it was seen to run for this real time.
const UNSUSPECTED: Duration = Duration::from_millis(10);

/// The processes of a program that compute.
#[derive(Debug, Default)]
pub(super) struct Computing {
    /// When a thread was seen to run for the first time since all of them waited.
    since: Option<Instant>,
    /// The processor time of each process soon after that.
    before: Option<BTreeMap<i32, Duration>>,
    /// The virtual time that has passed since then for short waits.
    passed: Duration,
}

impl Computing {
    /// Notes that all threads wait.
    pub(super) fn ends(&mut self) {
        *self = Self::default();
    }

    /// Notes that a thread runs; returns the monotonic time at which a short wait of a process ends that has computed for long. Virtual
    /// time passes in this way at most as fast as processor time.
    pub(super) fn goes_on(&mut self, threads: &Threads, clock: &Clock) -> Option<i64> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < UNSUSPECTED {
            return None;
        }
        let Some(before) = &self.before else {
            self.before = Some(threads.processor_times());
            return None;
        };
        let mut short = threads.short_waits().peekable();
        short.peek()?;
        let now = threads.processor_times();
        let ends = short.filter_map(|(process, until)| {
            let before = before.get(&process).copied().unwrap_or_default();
            let computed = now.get(&process)?.checked_sub(before + COMPUTING)?;
            let left = Duration::from_nanos(clock.until(until));
            (self.passed + left <= computed).then_some(left)
        });
        let left = ends.min()?;
        self.passed += left;
        let shown = clock.now(Kind::Monotonic).nanos;
        let left = i64::try_from(left.as_nanos()).unwrap_or(i64::MAX);
        Some(shown.saturating_add(left))
    }
}
