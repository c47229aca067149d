//! The delays of retries after conflicts.
//!
//! Source: client-go's `util/retry`, without the jitter, which is a tenth at most.

use std::time::Duration;

use crate::sync_error::Error;

/// The waits of `retry.DefaultRetry`: five attempts, one soon after the other.
pub const RETRY_DELAYS: [Duration; 4] = [Duration::from_millis(10); 4];

/// The waits of `retry.DefaultBackoff`: four attempts, ever further apart.
pub const BACKOFF_DELAYS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

/// Sleeps for the next of `delays` if `error` is a conflict.
///
/// # Errors
/// `error`, if it is another or no delay is left.
pub async fn wait(delays: &mut impl Iterator<Item = Duration>, error: Error) -> Result<(), Error> {
    let Some(delay) = delays.next().filter(|_| error.is_conflict()) else {
        return Err(error);
    };
    tokio::time::sleep(delay).await;
    Ok(())
}
