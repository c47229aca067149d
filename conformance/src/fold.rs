//! The short form of a transcript: routine, repetition and lists are folded into a line each.
//!
//! A golden is read by people, so each line should say something new. Folding loses only the order of lines within
//! one instant and the times of repeated refusals; [`unfold`] gives everything else back. Marked lines stay as they
//! are, with their place among the others.

mod events;
mod json;
mod lists;
mod outcome;
mod timeline;
mod unfold;
mod wrap;

use crate::timeline::RevisionNames;

pub(crate) use json::mask as mask_json;
pub(crate) use outcome::without_generations;
pub(crate) use unfold::outcome as unfold_outcome;

/// The sign before a marked line, and its place before other lines.
pub(crate) const MARK: &str = "► ";
/// The beginning of a line that is evidence, if it is not marked.
pub(crate) const INDENTATION: &str = "  ";
/// No line of a transcript has more characters.
const WIDTH: usize = 200;
/// Stands before each part of a line but the first.
const THEN: &str = " · ";
/// Stands before what a controller wrote at the time of its write before, but in another sync.
const NEXT_SYNC: &str = "‖ ";
const THEN_NEXT_SYNC: &str = " ‖ ";

/// A line of evidence.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The line, without its mark.
    pub(crate) text: String,
    /// Whether the line shows a claim of the scenario.
    pub(crate) marked: bool,
    /// The number of the controller's sync that wrote it.
    pub(crate) sync: Option<usize>,
}

impl Line {
    fn new(text: String) -> Self {
        Self {
            text,
            marked: false,
            sync: None,
        }
    }

    /// The line as a transcript shows it, in as many lines as its width needs.
    pub(crate) fn shown(&self) -> Vec<String> {
        let text = match self.text.strip_prefix(INDENTATION) {
            Some(rest) if self.marked => format!("{MARK}{rest}"),
            _ => self.text.clone(),
        };
        wrap::wrap(&text)
    }
}

/// Folds the lines of one step. Lines that could not be unfolded again stay as they are.
pub(crate) fn step(lines: Vec<Line>) -> Vec<Line> {
    let folded = timeline::fold(&lines);
    match unfold::step_facts(&folded) == unfold::step_facts(&lines) {
        true => folded,
        false => lines,
    }
}

/// Folds the lines of the outcome. `revisions` has the letters of revisions. Lines that could not be unfolded again
/// stay as they are.
pub(crate) fn outcome(lines: Vec<Line>, revisions: &RevisionNames) -> Vec<Line> {
    let folded = outcome::fold(&lines, revisions);
    match unfold::outcome_facts(&folded) == unfold::outcome_facts(&lines) {
        true => folded,
        false => lines,
    }
}
