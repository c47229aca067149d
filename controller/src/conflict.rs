//! How long a write that has met a conflict waits before it is tried again.
//!
//! Source: client-go's `util/retry`, without the jitter, which is a tenth at most.

use std::time::Duration;

/// The waits of `retry.DefaultRetry`: five attempts, one soon after the other.
pub(crate) const RETRY_DELAYS: [Duration; 4] = [Duration::from_millis(10); 4];

/// The waits of `retry.DefaultBackoff`: four attempts, ever further apart.
pub(crate) const BACKOFF_DELAYS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];
