//! The result of an exploration: a row for each scenario, a column for each kind of fault.

use serde::{Deserialize, Serialize};

/// All explored scenarios.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The kinds of faults, as their columns are headed.
    pub kinds: Vec<String>,
    /// The scenarios.
    pub rows: Vec<Row>,
    /// The runs with a different outcome, each difference once.
    pub divergences: Vec<Diverged>,
}

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the scenario.
    pub scenario: String,
    /// The cells, one for each kind of fault.
    pub cells: Vec<Cell>,
}

/// The runs of a scenario with one kind of fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The number of runs.
    pub runs: usize,
    /// The number of runs with a different outcome that the scenario does not explain.
    pub diverged: usize,
    /// The number of runs with a different outcome that the scenario expects.
    pub explained: usize,
}

/// A difference, with the shortest plan that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// The scenario's name.
    pub scenario: String,
    /// The faults.
    pub plan: String,
    /// The number of other plans that lead to the same difference.
    pub others: usize,
    /// The diff of the outcomes; instead of it the violations, or the reason for a missing outcome.
    pub outcome: String,
    /// The timelines without and with the faults; `None` when the run came to no end.
    pub timelines: Option<[String; 2]>,
    /// The command that replays the run.
    pub replay: String,
}

impl Cell {
    /// Adds the numbers of another cell.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            diverged: self.diverged + other.diverged,
            explained: self.explained + other.explained,
        }
    }
}
