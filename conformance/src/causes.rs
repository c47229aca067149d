//! Errors with their causes, on one line.

use std::error::Error;
use std::fmt;

/// Writes the message of `error`, and those of its causes that it does not have in it.
pub(crate) fn write_with_causes(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut messages = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages = format!("{messages}: {message}");
        }
        cause = error.source();
    }
    f.write_str(&messages)
}
