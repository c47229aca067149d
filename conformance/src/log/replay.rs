//! The run of a log once more.

use kubeproof_apiserver::ServerState;

use super::format::{LogError, read};
use super::record;

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Both logs have the same bytes.
    Equal {
        /// The number of lines.
        lines: usize,
    },
    /// The logs differ.
    Differs {
        /// The first line that differs, counted from one.
        number: usize,
        /// The line of the log; `None` past its end.
        recorded: Option<String>,
        /// The line of the replay; `None` past its end.
        replayed: Option<String>,
        /// The version that wrote the log, when it is not this one.
        program: Option<String>,
    },
}

/// Runs the scenario of `text`, a log, and compares the new log with it.
///
/// # Errors
/// [`LogError`] when the text is not a log, or is the log of a testbed.
pub fn replay(text: &str) -> Result<Replay, LogError> {
    if ServerState::is_begun_by(text) {
        return Err(LogError::Server);
    }
    let (recipe, _) = read(text)?;
    let (file, options) = recipe.scenario()?;
    let (_, again) = record(&file, &options);
    if again == text {
        let lines = text.lines().count();
        return Ok(Replay::Equal { lines });
    }
    let (mut recorded, mut replayed) = (text.lines(), again.lines());
    let mut number = 1;
    let (recorded, replayed) = loop {
        match (recorded.next(), replayed.next()) {
            (Some(one), Some(other)) if one == other => number += 1,
            (one, other) => break (one, other),
        }
    };
    let this = env!("CARGO_PKG_VERSION");
    Ok(Replay::Differs {
        number,
        recorded: recorded.map(str::to_owned),
        replayed: replayed.map(str::to_owned),
        program: (recipe.program != this).then_some(recipe.program),
    })
}
