//! The findings of an exploration as a page.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use kubeproof::explore::{Kind, Plan};
use kubeproof::report::matrix::{self, Cell, Row};
use kubeproof::report::{Matrix, Page, ScenarioReport};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;

use crate::cli::{manual, program};

/// The cells of a scenario, by the heading of their column.
pub(super) type Cells = BTreeMap<&'static str, Cell>;

/// Heads the column of runs with several faults.
const SEVERAL: &str = "several";
/// Heads the column of runs without faults in another order.
const NONE: &str = "order only";

/// Builds the page of an exploration; the scenarios themselves are run once more for their lanes.
pub(super) fn of(files: Vec<ScenarioFile>, matrix: Matrix, options: &RunOptions) -> Page {
    let scenarios = program::each(options, files, |file| {
        let checked = suite::check_file(file, options);
        let report = ScenarioReport::of(&checked, 0);
        // Exploring needs no golden.
        match checked.golden.is_none() && checked.offered.is_some() {
            true => report.accepted(),
            false => report,
        }
    });
    Page {
        scenarios,
        matrix: Some(matrix),
        made_by: Some(manual::made_by()),
    }
}

/// Rows of scenarios, with a column for each kind of fault that any of them was given.
pub(in crate::cli) fn matrix<K: Ord + Borrow<str>>(
    rows: Vec<(String, BTreeMap<K, Cell>)>,
    divergences: Vec<matrix::Diverged>,
) -> Matrix {
    let kinds = Kind::ALL.map(Kind::as_str).into_iter();
    let kinds = kinds.chain([SEVERAL, NONE]);
    let kinds = kinds.filter(|kind| rows.iter().any(|(_, cells)| cells.contains_key(*kind)));
    let kinds: Vec<&str> = kinds.collect();
    let rows = rows.into_iter().map(|(scenario, cells)| Row {
        scenario,
        cells: kinds
            .iter()
            .map(|kind| cells.get(*kind).copied().unwrap_or_default())
            .collect(),
    });
    Matrix {
        rows: rows.collect(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        divergences,
    }
}

/// Returns the heading of the column of runs with this plan.
pub(super) fn kind(plan: &Plan) -> &'static str {
    match plan.faults() {
        [] => NONE,
        [one] => one.kind().as_str(),
        _ => SEVERAL,
    }
}
