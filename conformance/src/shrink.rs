//! Minimal reproducers: what a divergence does not need is dropped from its scenario and plan.
//!
//! Nodes are dropped first, then faults, then steps, then objects, until nothing more can go. A smaller scenario counts if
//! its run with the faults differs from its run without them in nothing but what the first divergence has, too. If the
//! scenario ends settled, the smaller one does. The result is run three times, and is a scenario with its faults, which fails until the bug is mended.
//!
//! Several candidates are tried at once, each as if none before it had diverged. If one does, those after it count for
//! nothing and come again in the smaller scenario. So the result does not depend on how many are tried at once.

mod document;

use std::collections::BTreeSet;

use kubeproof_machinery::json::Value;

use crate::explore::{self, Carried, Divergence, Plan, Planned, Reference};
use crate::runner::RunOptions;
use crate::scenario::ScenarioFile;
use crate::threads;

pub use document::Document;

/// The number of times that a reproducer is run again.
const REPLAYS: usize = 3;
/// A fault's point is looked for among this many earlier points of its kind, once something before it was dropped.
const EARLIER_MAX: u32 = 3;

/// A divergence to shrink.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The scenario.
    pub file: &'a ScenarioFile,
    /// The plan, and the seed of the order.
    pub plan: (&'a Plan, u64),
    /// The divergence that it led to.
    pub divergence: &'a Divergence,
    /// The conditions of the runs.
    pub base: &'a RunOptions,
    /// How many candidates to try at once, at least one.
    pub at_once: usize,
}

/// A shrunk divergence.
#[derive(Clone, Debug)]
pub struct Reproducer {
    /// The scenario with its faults, as YAML.
    pub text: String,
    /// The faults, steps and objects that are left, each with the number at first.
    pub left: [(usize, usize); 3],
    /// How many of the last runs diverged in the same way.
    pub reproduced: usize,
    /// The number of those last runs.
    pub replays: usize,
}

/// Drops from the scenario and plan of `subject` what its divergence does not need. `tried` is called for each candidate.
/// `None` if the divergence does not come again at all.
pub fn shrink(subject: Subject<'_>, tried: &(dyn Fn() + Sync)) -> Option<Reproducer> {
    let mut base = subject.base.clone();
    if base.programs.is_some() {
        // Found out once, and not again for each candidate.
        let reference = Reference::with(&subject.file.scenario, &base).ok()?;
        base.unstable = Some(reference.unstable().clone());
    }
    let search = Search {
        subject: Subject {
            base: &base,
            ..subject
        },
        wanted: subject.divergence.labels(),
        tried,
    };
    let limit = subject.at_once.max(1);
    let whole = Document::of(subject.file);
    let count = |document: &Document, plan: &Plan| {
        let [steps, objects] = document.counts();
        [plan.faults().len(), steps, objects]
    };
    let first = count(&whole, subject.plan.0);
    let mut document = whole;
    let mut plan = search.diverging(&document, subject.plan.0)?;
    // First, as all further runs are shorter then.
    if let Some(smaller) = document.with_fewer_nodes()
        && let Some(striking) = search.diverging(&smaller, &plan)
    {
        (document, plan) = (smaller, striking);
    }
    loop {
        let before = count(&document, &plan);
        plan = search.with_fewer_faults(&document, plan);
        for part in Document::PARTS {
            // From the end, so that what a later part needs is still there.
            let mut left = document.length(part);
            while left > 0 {
                let first = left.saturating_sub(limit);
                let candidates = (first..left).rev().map(|index| {
                    let smaller = document.without(part, index);
                    (index, smaller)
                });
                let found = search.first_diverging(candidates.collect(), &plan);
                left = first;
                if let Some((index, smaller, striking)) = found {
                    (left, document, plan) = (index, smaller, striking);
                }
            }
        }
        if count(&document, &plan) == before {
            break;
        }
    }
    let replays = vec![(); REPLAYS];
    let replays = threads::at_once(limit, replays, |()| search.diverges(&document, &plan));
    let reproduced = replays.into_iter().filter(|diverged| *diverged).count();
    let last = count(&document, &plan);
    Some(Reproducer {
        text: document.text(&subject.file.name, &plan, subject.plan.1),
        left: std::array::from_fn(|index| (last[index], first[index])),
        reproduced,
        replays: REPLAYS,
    })
}

struct Search<'a> {
    subject: Subject<'a>,
    /// The parts of the outcome in which the first divergence differs.
    wanted: BTreeSet<String>,
    tried: &'a (dyn Fn() + Sync),
}

impl Search<'_> {
    /// Tries all candidates at once. Returns the first that diverges, with its plan.
    fn first_diverging(
        &self,
        candidates: Vec<(usize, Document)>,
        plan: &Plan,
    ) -> Option<(usize, Document, Plan)> {
        let tried = threads::at_once(candidates.len(), candidates, |(index, document)| {
            let plan = self.diverging(&document, plan)?;
            Some((index, document, plan))
        });
        tried.into_iter().flatten().next()
    }

    /// Returns the plan with which the scenario of `document` diverges: `plan`, or the same faults at earlier points of
    /// their kinds.
    fn diverging(&self, document: &Document, plan: &Plan) -> Option<Plan> {
        (self.tried)();
        let file = document.parse().ok()?;
        if self.subject.file.scenario.ends_settled() && !file.scenario.ends_settled() {
            return None;
        }
        let mut plan = plan.clone();
        let (reference, mut ran) = self.first_run(&file, &plan)?;
        for _ in 0..EARLIER_MAX {
            match ran {
                Ran::Diverged => return Some(plan),
                Ran::Same => return None,
                Ran::Unmet(unmet) => plan = earlier(&plan, &unmet)?,
            }
            let options = self.options(&plan);
            let carried = explore::carry_out(&file.scenario, &reference, &options);
            ran = self.ran(&file, &plan, carried);
        }
        matches!(ran, Ran::Diverged).then_some(plan)
    }

    fn diverges(&self, document: &Document, plan: &Plan) -> bool {
        let file = document.parse().ok();
        let ran = file.and_then(|file| self.first_run(&file, plan));
        matches!(ran, Some((_, Ran::Diverged)))
    }

    /// Runs the scenario of a document without faults and with those of `plan`; `None` if it fails without faults.
    fn first_run(&self, file: &ScenarioFile, plan: &Plan) -> Option<(Reference, Ran)> {
        let reference = || Reference::with(&file.scenario, self.subject.base);
        let options = self.options(plan);
        let carried = explore::carry_out_beside(&file.scenario, reference, &options);
        let (reference, carried) = carried.ok()?;
        let ran = self.ran(file, plan, carried);
        Some((reference, ran))
    }

    /// The conditions of a run with the faults of `plan`.
    fn options(&self, plan: &Plan) -> RunOptions {
        RunOptions {
            plan: plan.clone(),
            schedule_seed: self.subject.plan.1,
            ..self.subject.base.clone()
        }
    }

    /// The result of a run with the faults of `plan`.
    fn ran(&self, file: &ScenarioFile, plan: &Plan, carried: Carried) -> Ran {
        if !carried.unmet.is_empty() {
            return Ran::Unmet(carried.unmet);
        }
        let Some(divergence) = carried.divergence else {
            return Ran::Same;
        };
        let plan = (plan, self.subject.plan.1);
        let explained = explore::explain(&file.scenario, plan, &divergence);
        match !explained.left.is_empty() && divergence.labels().is_subset(&self.wanted) {
            true => Ran::Diverged,
            false => Ran::Same,
        }
    }

    /// Drops the faults that the divergence does not need.
    fn with_fewer_faults(&self, document: &Document, mut plan: Plan) -> Plan {
        let mut index = 0;
        while plan.faults().len() > 1 && index < plan.faults().len() {
            let mut faults = plan.faults().to_vec();
            faults.remove(index);
            match self.diverging(document, &Plan::of(faults)) {
                Some(smaller) => plan = smaller,
                None => index += 1,
            }
        }
        plan
    }
}

/// The result of a run.
enum Ran {
    /// In the wanted way.
    Diverged,
    /// In no way, or in another.
    Same,
    /// These faults struck nowhere.
    Unmet(Vec<Planned>),
}

/// Returns the plan with each of the `unmet` faults one point earlier; `None` if one is the first of its kind.
fn earlier(plan: &Plan, unmet: &[Planned]) -> Option<Plan> {
    let faults = plan.faults().iter().map(|planned| {
        if !unmet.contains(planned) {
            return Some(planned.clone());
        }
        let mut point = planned.point().clone();
        point.nth = point.nth.checked_sub(1)?;
        Some(Planned::new(planned.kind(), point))
    });
    faults.collect::<Option<Vec<_>>>().map(Plan::of)
}

/// A value of a document as YAML, below `key`.
fn entry(key: &str, value: &Value) -> String {
    let object = kubeproof_machinery::json::json!({ key: value });
    serde_saphyr::to_string(&object).unwrap_or_else(|_| format!("{object}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_strike_nowhere_are_looked_for_earlier() {
        let plan: Plan = "conflict update pods a #3 from c; break ADDED pods b from c"
            .parse()
            .unwrap();
        let first = &plan.faults()[..1];
        let once = earlier(&plan, first).unwrap();
        assert_eq!(
            once.to_string(),
            "conflict update pods a #2 from c; break ADDED pods b from c"
        );
        assert_eq!(earlier(&plan, &plan.faults()[1..]), None);
    }
}
