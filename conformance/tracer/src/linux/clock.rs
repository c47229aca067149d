//! The clocks that a program sees.

use crate::Time;

/// The numbers of the clocks whose readings are virtual. Others count processor time.
pub(super) fn virtual_clocks() -> impl Iterator<Item = i32> {
    (0..=libc::CLOCK_TAI).filter(|clock| Kind::of(*clock).is_some())
}

/// The time of a reading in nanoseconds. So two readings are never equal, as on a machine, and a loop that waits for a clock ends.
const READING: u64 = 1_000;
pub(super) const SECOND: i64 = 1_000_000_000;

/// A kind of clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Realtime,
    Monotonic,
}

impl Kind {
    /// The kind of a clock by its number; `None` for one that counts processor time.
    pub(super) fn of(clock: i32) -> Option<Self> {
        match clock {
            libc::CLOCK_REALTIME
            | libc::CLOCK_REALTIME_COARSE
            | libc::CLOCK_REALTIME_ALARM
            | libc::CLOCK_TAI => Some(Self::Realtime),
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_BOOTTIME_ALARM => Some(Self::Monotonic),
            _ => None,
        }
    }
}

/// A moment on a clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) kind: Kind,
    pub(super) nanos: i64,
}

impl Moment {
    pub(super) fn later(self, nanos: i64) -> Self {
        Self {
            nanos: self.nanos.saturating_add(nanos),
            ..self
        }
    }
}

/// The clocks of a program: the given time, and what readings since then have taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    time: Time,
    /// By how many nanoseconds the program's clocks are ahead of the given time.
    ahead: u64,
}

impl Clock {
    pub(super) fn new(time: Time) -> Self {
        Self { time, ahead: 0 }
    }

    /// Sets the time. The monotonic clock does not go back for the program.
    pub(super) fn set(&mut self, time: Time) {
        let passed = time.monotonic.saturating_sub(self.time.monotonic);
        self.ahead = self.ahead.saturating_sub(passed);
        let monotonic = time.monotonic.max(self.time.monotonic);
        self.time = Time { monotonic, ..time };
    }

    /// The monotonic clock shows at least this.
    pub(super) fn shows_at_least(&mut self, monotonic: i64) {
        let ahead = monotonic.saturating_sub(self.time.monotonic.cast_signed());
        self.ahead = self.ahead.max(u64::try_from(ahead).unwrap_or(0));
    }

    /// Reads a clock for the program.
    pub(super) fn read(&mut self, kind: Kind) -> i64 {
        self.ahead += READING;
        self.now(kind).nanos
    }

    /// The moment that a clock shows.
    pub(super) fn now(&self, kind: Kind) -> Moment {
        let shown = match kind {
            Kind::Realtime => self.time.realtime,
            Kind::Monotonic => self.time.monotonic.cast_signed(),
        };
        Moment {
            kind,
            nanos: shown.saturating_add_unsigned(self.ahead),
        }
    }

    /// The nanoseconds until `moment`; zero if it has passed.
    pub(super) fn until(&self, moment: Moment) -> u64 {
        let left = moment.nanos.saturating_sub(self.now(moment.kind).nanos);
        u64::try_from(left).unwrap_or(0)
    }

    /// The given monotonic time at which the program's clock will show `moment`, if no clock is set in between.
    pub(super) fn monotonic_at(&self, moment: Moment) -> u64 {
        let left = self.until(moment);
        let now = self.now(Kind::Monotonic).nanos.cast_unsigned();
        now.saturating_add(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_grow_and_the_given_time_catches_up() {
        let time = Time::default();
        let mut clock = Clock::new(time);
        let first = clock.read(Kind::Monotonic);
        let second = clock.read(Kind::Monotonic);
        assert_eq!(second - first, 1_000);
        clock.set(time.at(time.monotonic + 500));
        assert_eq!(clock.now(Kind::Monotonic).nanos, second);
        clock.set(time.at(time.monotonic + 5_000));
        let now = clock.now(Kind::Monotonic);
        assert_eq!(now.nanos.cast_unsigned(), time.monotonic + 5_000);
        let later = now.later(SECOND);
        assert_eq!(clock.until(later), SECOND.cast_unsigned());
        assert_eq!(
            clock.monotonic_at(later),
            time.monotonic + 5_000 + SECOND.cast_unsigned()
        );
    }

    #[test]
    fn a_clock_of_real_time_can_be_set_back() {
        let time = Time::default();
        let mut clock = Clock::new(time);
        let deadline = clock.now(Kind::Realtime).later(SECOND);
        let back = Time {
            realtime: time.realtime - SECOND,
            ..time
        };
        clock.set(back);
        assert_eq!(clock.until(deadline), 2 * SECOND.cast_unsigned());
        assert_eq!(
            clock.now(Kind::Monotonic).nanos.cast_unsigned(),
            time.monotonic
        );
    }
}
