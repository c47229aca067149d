//! Where controllers read the time; timers are tokio's.

use std::sync::Arc;

/// Reads the current time. Cheap to clone; the simulated and the real clock look alike.
pub type Now = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// The host's clock.
#[must_use]
pub fn real() -> Now {
    Arc::new(jiff::Timestamp::now)
}

/// The instant `delay` from now on tokio's clock, for timers that may be paused by a test.
pub(crate) fn after(delay: std::time::Duration) -> tokio::time::Instant {
    tokio::time::Instant::now() + delay
}
