//! Times, and the doing of a program's threads, as the program that embeds a tracer knows them.

/// A moment of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Nanoseconds since 1970-01-01T00:00:00Z. May be set back.
    pub realtime: i64,
    /// Nanoseconds of the monotonic clock, which is never set back.
    pub monotonic: u64,
}

impl Default for Time {
    /// 2026-01-01T00:00:00Z, on a machine that has been up for eleven days: programs subtract durations from readings of the
    /// monotonic clock.
    fn default() -> Self {
        Self {
            realtime: 1_767_225_600_000_000_000,
            monotonic: 1_000_000_000_000_000,
        }
    }
}

impl Time {
    /// The moment at which the monotonic clock shows `monotonic`, if no clock is set in between.
    #[must_use]
    pub fn at(self, monotonic: u64) -> Self {
        let passed = i128::from(monotonic) - i128::from(self.monotonic);
        let realtime = i128::from(self.realtime) + passed;
        let longest = if passed < 0 { i64::MIN } else { i64::MAX };
        Self {
            realtime: i64::try_from(realtime).unwrap_or(longest),
            monotonic,
        }
    }
}

/// The doing of a program's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One of them runs, or is about to.
    Run,
    /// All of them wait: for time, for each other, or for something outside of the program.
    Wait(Waiting),
}

/// A moment at which all threads of a program waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The monotonic time at which the first of them goes on by itself; `None` if none does.
    pub until: Option<u64>,
    /// A digest of how much each thread has run. If two are equal, no thread has run in between.
    pub ran: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_of_a_moment_go_on_together() {
        let time = Time::default();
        let later = time.at(time.monotonic + 5);
        assert_eq!(later.realtime, time.realtime + 5);
        assert_eq!(later.at(time.monotonic), time);
    }
}
