//! When a timer goes off, and how it is read and written.

use nix::errno::Errno;

use super::clock::{Clock, Kind, Moment};
use super::memory::{Unit, time_bytes, time_of};

/// The flag of calls that set timers for a moment instead of a duration.
const AT_MOMENT: i32 = 1;

/// When a timer goes off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) until: Moment,
    /// It goes off again after this time; never if zero.
    pub(super) interval: i64,
}

impl Timer {
    /// The timer that a call with these flags sets on a clock of this kind, with an interval and a time; `None` for the time zero, which
    /// switches it off.
    pub(super) fn set(
        flags: i32,
        kind: Kind,
        (interval, value): (i64, i64),
        clock: &Clock,
    ) -> Option<Self> {
        let until = match flags & AT_MOMENT {
            0 => clock.now(Kind::Monotonic).later(value),
            _ => Moment { kind, nanos: value },
        };
        (value > 0).then_some(Self { until, interval })
    }

    /// Whether its time has come.
    pub(super) fn is_over(&self, clock: &Clock) -> bool {
        clock.until(self.until) == 0
    }

    /// The timer after it has gone off.
    pub(super) fn next(self) -> Option<Self> {
        let until = self.until.later(self.interval);
        (self.interval > 0).then_some(Self { until, ..self })
    }

    /// The interval and the remaining time, as the program reads them.
    pub(super) fn left(self, clock: &Clock, unit: Unit) -> [u8; 32] {
        let left = i64::try_from(clock.until(self.until)).unwrap_or(i64::MAX);
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&time_bytes(self.interval, unit));
        bytes[16..].copy_from_slice(&time_bytes(left, unit));
        bytes
    }
}

/// Reads interval and time.
///
/// # Errors
/// `EINVAL` for a time that the kernel would refuse.
pub(super) fn spec(bytes: [u8; 32], unit: Unit) -> Result<(i64, i64), Errno> {
    let (mut interval, mut value) = ([0; 16], [0; 16]);
    interval.copy_from_slice(&bytes[..16]);
    value.copy_from_slice(&bytes[16..]);
    Ok((time_of(interval, unit)?, time_of(value, unit)?))
}
