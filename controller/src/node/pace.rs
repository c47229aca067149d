//! How much time a machine takes for what simulated nodes otherwise do at once.

use std::time::Duration;

use jiff::Timestamp;

/// What takes a machine time, and how its containers are told to stop.
///
/// With it, a main process is sent SIGTERM and decides itself whether it ends; who has no handler for
/// it lives to the end of the grace period, since the kernel keeps signals without a handler from the
/// first process of a container. Without it, everything is noticed and done at once, and containers
/// end when they are told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How often the kubelet asks the runtime what has become of its containers, at whole multiples
    /// of this time. It tells of no start and no end sooner, unless it has stopped the container
    /// itself.
    pub relist: Duration,
    /// How long the sandbox of a pod takes.
    pub sandbox: Duration,
    /// How long a pull takes that finds the image on the node.
    pub pull: Duration,
    /// How long it takes to make and to start one container; they are made one by one.
    pub create: Duration,
    /// How long a program of an image takes to end that is told to.
    pub exit: Duration,
}

impl Pace {
    /// A node's: the period in which a kubelet relists, and what a container runtime takes on an
    /// ordinary machine that has all images.
    pub const NODE: Self = Self {
        relist: Duration::from_secs(1),
        sandbox: Duration::from_millis(400),
        pull: Duration::from_millis(500),
        create: Duration::from_millis(200),
        exit: Duration::from_millis(200),
    };

    /// How long it takes from `now` until the kubelet asks the runtime again.
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
