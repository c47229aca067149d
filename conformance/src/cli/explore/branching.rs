//! The runs of an exploration as branches of runs without faults.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use kubeproof::explore::{self, Options, Plan, Reference};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;

use super::How;
use super::jobs::{Done, Ran, Subject, planned};

/// The number of plans that branch off one run when the first difference ends all: the rest may not be needed.
const PLANS_FAIL_FAST: usize = 64;

/// Does all runs, scenario by scenario, plans with fewer faults first; `report` receives each result in the order of
/// the jobs.
pub(super) fn each<B>(
    files: Vec<ScenarioFile>,
    how: How<'_>,
    (options, seeds): (&Options, u64),
    mut report: impl FnMut(Done) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut deal = how.deal();
    for file in files {
        let reference = match Reference::with(&file.scenario, how.base) {
            Ok(reference) => reference,
            Err(error) => {
                report(Done::Failed(Box::new(file), error))?;
                continue;
            }
        };
        let subject = Arc::new(Subject {
            file,
            reference,
            programs: how.programs.to_owned(),
        });
        let singles = subject.reference.plans_at(how.points, options);
        let pairs = explore::pairs(&singles, options.pairs_max);
        let of_all = planned(singles.len(), pairs.len(), seeds);
        let orders: BTreeSet<u64> = (1..=seeds)
            .filter(|_| deal.takes(&Plan::default()))
            .collect();
        let (singles, pairs) = (deal.own(singles), deal.own(pairs));
        let own = planned(singles.len(), pairs.len(), seeds) - (1..=seeds).count() + orders.len();
        report(Done::Length(own))?;
        report(Done::Planned(of_all))?;
        for (plans, shows_order) in [(singles, true), (pairs, false)] {
            for schedule_seed in 0..=seeds {
                let shows_order = shows_order && orders.contains(&schedule_seed);
                if plans.is_empty() && !shows_order {
                    continue;
                }
                of_order(&subject, (&plans, schedule_seed), how, |ran, divergence| {
                    let is_run = shows_order || !ran.plan.faults().is_empty();
                    match is_run {
                        true => report(Done::Ran(ran, divergence)),
                        false => ControlFlow::Continue(()),
                    }
                })?;
            }
        }
        report(Done::End(subject))?;
    }
    ControlFlow::Continue(())
}

/// The run without faults in this order, and its branches.
fn of_order<B>(
    subject: &Arc<Subject>,
    (plans, schedule_seed): (&[Plan], u64),
    how: How<'_>,
    mut report: impl FnMut(Ran, Option<explore::Divergence>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let options = RunOptions {
        schedule_seed,
        ..how.base.clone()
    };
    let (scenario, reference) = (&subject.file.scenario, &subject.reference);
    let ran = |plan: Plan| Ran {
        subject: Arc::clone(subject),
        plan,
        schedule_seed,
    };
    let at_a_time = match how.fail_fast {
        true => PLANS_FAIL_FAST,
        false => plans.len(),
    };
    let mut pieces: Vec<&[Plan]> = plans.chunks(at_a_time.max(1)).collect();
    if pieces.is_empty() {
        pieces.push(&[]);
    }
    for (index, plans) in pieces.into_iter().enumerate() {
        let shown = how.progress.clone();
        let ended = move || shown.inc(1);
        let (what, how) = ((plans, &options), (how.at_once, ended));
        let branched = explore::branches(scenario, reference, what, how);
        if index == 0 {
            report(ran(Plan::default()), branched.trunk)?;
        }
        for (plan, divergence) in plans.iter().zip(branched.plans) {
            report(ran(plan.clone()), divergence)?;
        }
    }
    ControlFlow::Continue(())
}
