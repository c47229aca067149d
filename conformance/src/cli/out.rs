//! Standard output: lines whose reader may be gone, and their colors.

use std::io::{ErrorKind, Write as _};

use anyhow::Context as _;
use console::Style;

/// The exit code of a program that writes to a closed pipe: 128 and the number of SIGPIPE.
pub(super) const CLOSED: u8 = 141;

/// The reader of standard output is gone, as `head` is after its lines. The command ends without a word.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub(super) struct Closed;

/// Prints a line.
///
/// # Errors
/// [`Closed`] when the reader is gone.
pub(super) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Closed.into()),
        printed => printed.context("cannot print"),
    }
}

/// Prints a line to standard error, whether or not it is read.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Colors a word that reports success.
pub(super) fn good(text: &str) -> String {
    Style::new().green().apply_to(text).to_string()
}

/// Colors a word that reports failure.
pub(super) fn bad(text: &str) -> String {
    Style::new().red().bold().apply_to(text).to_string()
}

/// Colors a word of less weight.
pub(super) fn faint(text: &str) -> String {
    Style::new().dim().apply_to(text).to_string()
}

/// Colors the lines of unified diffs in `text`; everything else stays as it is.
pub(super) fn diff(text: &str) -> String {
    if !console::colors_enabled() {
        return text.to_owned();
    }
    let (mut lines, mut is_diff) = (Vec::new(), false);
    for line in text.lines() {
        // The part before a diff may have lines that begin with a dash.
        is_diff |= line.trim_start().starts_with("@@ ");
        let style = match line.trim_start().as_bytes().first() {
            Some(b'@') if is_diff => Style::new().cyan(),
            Some(b'-') if is_diff => Style::new().red(),
            Some(b'+') if is_diff => Style::new().green(),
            _ => Style::new(),
        };
        lines.push(style.apply_to(line).to_string());
    }
    lines.join("\n")
}
