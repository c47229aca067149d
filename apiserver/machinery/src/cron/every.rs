//! The spans of `@every`, as Go writes durations.

use jiff::SignedDuration;

use crate::schema::duration;

/// Spans are whole seconds, and at least one.
const LEAST: SignedDuration = SignedDuration::from_secs(1);

/// Reads `1h30m` or `1.5h`.
pub(super) fn parse(text: &str) -> Result<SignedDuration, String> {
    let span = SignedDuration::from_nanos(duration::nanoseconds(text)?);
    Ok(SignedDuration::from_secs(span.as_secs()).max(LEAST))
}
