//! The clock of the controllers; timers are tokio's.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Reads the current time. Cheap to clone; the simulated and the real clock look alike.
pub type Now = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// The host's clock.
#[must_use]
pub fn real() -> Now {
    Arc::new(jiff::Timestamp::now)
}

/// Go's longest `time.Duration`, some 292 years: nothing upstream waits longer.
const DELAY_MAX: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// The instant `delay` from now on tokio's clock, for timers that may be paused by a test.
pub fn after(delay: Duration) -> tokio::time::Instant {
    tokio::time::Instant::now() + delay.min(DELAY_MAX)
}

/// Seconds as Go's `time.Duration` holds them: nanoseconds that wrap around at 64 bits.
pub fn go_seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_nanos(seconds.wrapping_mul(1_000_000_000))
}

/// The time `by` after `time`, or the last one there is.
pub fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    let last = match by.is_negative() {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    };
    time.checked_add(by).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_the_range_neither_panic_nor_differ_from_go() {
        assert_eq!(go_seconds(i64::MAX), SignedDuration::from_secs(-1));
        assert_eq!(go_seconds(90), SignedDuration::from_secs(90));
        assert_eq!(later(Timestamp::MAX, go_seconds(1)), Timestamp::MAX);
        assert_eq!(later(Timestamp::MIN, go_seconds(-1)), Timestamp::MIN);
        assert!(after(Duration::MAX) > after(Duration::from_secs(3600)));
    }
}
