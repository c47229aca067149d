//! A line of a transcript.

use crate::scenario::Place;

/// A line of a transcript before its marks are set.
pub(super) struct Line {
    pub(super) text: String,
    /// The part that the line is evidence of; `None` for lines that repeat the scenario.
    pub(super) place: Option<Place>,
    /// Whether it shows a claim of the scenario.
    pub(super) marked: bool,
    /// The number of the sync that wrote it.
    pub(super) sync: Option<usize>,
}

impl Line {
    pub(super) fn new(text: String, place: Option<Place>) -> Self {
        Self {
            text,
            place,
            marked: false,
            sync: None,
        }
    }
}
