//! What exploring found: a row a scenario, a column a kind of fault.

/// All explored scenarios.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The kinds of faults, as their columns are headed.
    pub kinds: Vec<String>,
    /// The scenarios.
    pub rows: Vec<Row>,
    /// The runs that came to another outcome, each difference once.
    pub divergences: Vec<Diverged>,
}

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub scenario: String,
    /// A cell a kind of fault.
    pub cells: Vec<Cell>,
}

/// The runs of a scenario with one kind of fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// All of them.
    pub runs: usize,
    /// Those that came to another outcome, and nothing says why.
    pub diverged: usize,
    /// Those that did, and rightly, as the scenario says.
    pub explained: usize,
}

/// A difference, with the shortest plan that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// The scenario's name.
    pub scenario: String,
    /// The faults.
    pub plan: String,
    /// How many other plans lead to the same.
    pub others: usize,
    /// The outcomes compared.
    pub outcome: String,
    /// The timelines compared.
    pub timelines: String,
    /// The command that replays it.
    pub replay: String,
}

impl Cell {
    /// Adds the runs of another.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            diverged: self.diverged + other.diverged,
            explained: self.explained + other.explained,
        }
    }
}
