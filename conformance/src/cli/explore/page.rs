//! What was found, as a page shows it.

use std::collections::BTreeMap;

use kubeproof::explore::{Kind, Plan};
use kubeproof::report::matrix::{self, Cell, Row};
use kubeproof::report::{Matrix, Page, ScenarioReport};
use kubeproof::runner::RunOptions;
use kubeproof::suite;

use super::{Diverged, Subject, shortest};
use crate::cli::outside;

/// Heads the column of runs with several faults.
const SEVERAL: &str = "several";
/// Heads the column of runs without faults in another order.
const NONE: &str = "order only";

/// The cells of each scenario, by its name and the kind of fault.
pub(super) type Cells = BTreeMap<(String, &'static str), Cell>;

/// How many runs there are of each kind.
pub(super) fn cells(jobs: &[(&Subject, Plan, u64)]) -> Cells {
    let mut cells = Cells::new();
    for (subject, plan, _) in jobs {
        let cell = cells.entry((subject.file.name.clone(), kind(plan)));
        cell.or_default().runs += 1;
    }
    cells
}

/// The page of what was explored; the scenarios themselves are run once more for their lanes.
pub(super) fn of(
    subjects: &[Subject],
    (mut cells, options): (Cells, &RunOptions),
    (unexplained, explained): (&[Diverged<'_>], &[Diverged<'_>]),
) -> Page {
    let key = |one: &Diverged<'_>| (one.subject.file.name.clone(), kind(&one.plan));
    for one in unexplained {
        cells.entry(key(one)).or_default().diverged += 1;
    }
    for one in explained {
        cells.entry(key(one)).or_default().explained += 1;
    }
    let kinds = Kind::ALL.map(Kind::as_str).into_iter();
    let kinds = kinds.chain([SEVERAL, NONE]);
    let kinds = kinds.filter(|kind| cells.keys().any(|(_, found)| found == kind));
    let kinds: Vec<&str> = kinds.collect();
    let row = |subject: &Subject| {
        let cell = |kind: &&'static str| {
            let found = cells.get(&(subject.file.name.clone(), *kind));
            found.copied().unwrap_or_default()
        };
        Row {
            scenario: subject.file.name.clone(),
            cells: kinds.iter().map(cell).collect(),
        }
    };
    let rows = subjects.iter().map(row).collect();
    let told = shortest(unexplained).into_iter().map(|(one, others)| {
        let order = match one.order {
            0 => String::new(),
            order => format!(" (seed {order})"),
        };
        matrix::Diverged {
            scenario: one.subject.file.name.clone(),
            plan: format!("{}{order}", one.plan),
            others,
            outcome: one.divergence.outcome.clone(),
            timelines: one.divergence.timelines.clone(),
            replay: one.replay(),
        }
    });
    let divergences = told.collect();
    let files = subjects
        .iter()
        .map(|subject| subject.file.clone())
        .collect();
    let scenarios = outside::each(options, files, |file| {
        let checked = suite::check_file(file, options);
        ScenarioReport::of(&checked, 0)
    });
    Page {
        scenarios,
        matrix: Some(Matrix {
            kinds: kinds.into_iter().map(str::to_owned).collect(),
            rows,
            divergences,
        }),
    }
}

fn kind(plan: &Plan) -> &'static str {
    match plan.faults() {
        [] => NONE,
        [one] => one.kind().as_str(),
        _ => SEVERAL,
    }
}
