//! The time that a machine takes for work that simulated nodes otherwise do at once.

use std::time::Duration;

use jiff::Timestamp;

/// Returns `time` plus `delay`, or the maximum on overflow.
pub(super) fn after(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// The durations of a machine's work, and the use of signals to stop containers.
///
/// With a pace, a main process receives SIGTERM and decides itself whether it ends. A process
/// without a handler runs to the end of the grace period, because the kernel discards unhandled
/// signals to the first process of a container. Without a pace, the kubelet notices and does
/// everything at once, and containers end when they are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The kubelet's relist period: it asks the runtime for the state of its containers at whole
    /// multiples of it. Starts and exits are noticed no sooner, except for containers that the
    /// kubelet has stopped itself.
    pub relist: Duration,
    /// The time to create a pod's sandbox.
    pub sandbox: Duration,
    /// The time to pull an image that is on the node.
    pub pull: Duration,
    /// The time to create and start one container; containers of a pod are created one by one.
    pub create: Duration,
    /// The time that an image's program takes to exit after SIGTERM.
    pub exit: Duration,
}

impl Pace {
    /// The values of a real node: a kubelet's relist period, and the times of a container runtime
    /// on an ordinary machine that has all images.
    pub const NODE: Self = Self {
        relist: Duration::from_secs(1),
        sandbox: Duration::from_millis(400),
        pull: Duration::from_millis(500),
        create: Duration::from_millis(200),
        exit: Duration::from_millis(200),
    };

    /// Returns the time from `now` until the next relist.
    pub(super) fn until_relist(self, now: Timestamp) -> Duration {
        let period = self.relist.as_nanos();
        if period == 0 {
            return Duration::ZERO;
        }
        let since = now.as_nanosecond().rem_euclid(period.cast_signed());
        let wait = period - since.unsigned_abs();
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_just_happened_is_noticed_at_the_next_full_period() {
        for (nanos, wait) in [
            (0, 1_000),
            (250_000_000, 750),
            (999_000_000, 1),
            (-250_000_000, 250),
        ] {
            let now = Timestamp::from_nanosecond(nanos).unwrap();
            let wait = Duration::from_millis(wait);
            assert_eq!(Pace::NODE.until_relist(now), wait, "{nanos}");
        }
        let at_once = Pace {
            relist: Duration::ZERO,
            ..Pace::NODE
        };
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(at_once.until_relist(now), Duration::ZERO);
    }
}
