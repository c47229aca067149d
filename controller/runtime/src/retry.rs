//! The delays of retries: after failures, doubling, and after conflicts.
//!
//! Source: client-go's reflector and `util/retry`, without jitter. The reflector's adds up to the delay itself, the other a
//! tenth at most.

use std::time::Duration;

use super::sync_error::Error;

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

/// The delays of `retry.DefaultRetry`: five attempts, one soon after the other.
pub const DEFAULT_RETRY: [Duration; 4] = [Duration::from_millis(10); 4];

/// The delays of `retry.DefaultBackoff`: four attempts, ever further apart.
pub const DEFAULT_BACKOFF: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

/// Sleeps for the next of `delays` if `error` is a conflict.
///
/// # Errors
/// `error`, if it is another or no delay is left.
pub async fn retry_on_conflict(
    delays: &mut impl Iterator<Item = Duration>,
    error: Error,
) -> Result<(), Error> {
    let Some(delay) = delays.next().filter(|_| error.is_conflict()) else {
        return Err(error);
    };
    tokio::time::sleep(delay).await;
    Ok(())
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
