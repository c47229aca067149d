//! The delays of retries.

use std::time::Duration;

/// The delay after the first failure; doubled by each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(800);
/// The longest delay before a controller repeats a failed attempt.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The delay of the attempt after `failures` failures in a row (at least one): doubling, and without
/// jitter, so that the same faults lead to the same requests.
pub fn retry_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit() {
        let delays: Vec<_> = (1..8).map(|n| retry_after(n).as_millis()).collect();
        assert_eq!(delays, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000]);
    }
}
