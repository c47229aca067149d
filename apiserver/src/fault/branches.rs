//! Plans that share a common past: each begins where its first fault strikes.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::Fault;
use super::request_facts::RequestFacts;
use super::rule::Rule;

/// Decides, by the index of a plan, whether the plan is taken where its first fault would strike.
/// If so, the server goes on with this plan and drops the others.
pub type Takes = Arc<dyn Fn(usize) -> bool + Send + Sync>;

/// Plans that have not begun.
pub(super) struct Branches {
    plans: Vec<Option<Vec<Rule>>>,
    /// The index at which the rules of the taken plan are inserted among the existing rules.
    place: usize,
    takes: Takes,
}

/// The plan that was taken.
pub(super) struct Taken {
    pub(super) rules: Vec<Rule>,
    pub(super) place: usize,
}

impl Branches {
    pub(super) fn new(plans: Vec<Vec<Fault>>, place: usize, takes: Takes, now: Timestamp) -> Self {
        let rules = |plan: Vec<Fault>| {
            let rules = plan.into_iter().map(|fault| Rule::new(fault, true, now));
            Some(rules.collect())
        };
        Self {
            plans: plans.into_iter().map(rules).collect(),
            place,
            takes,
        }
    }

    /// Lets a request or an event pass the plans, each counting it as it would if it were in force.
    pub(super) fn pass(
        &mut self,
        asked: &RequestFacts,
        is_event: bool,
        now: Timestamp,
    ) -> Option<Taken> {
        for (index, waiting) in self.plans.iter_mut().enumerate() {
            let Some(rules) = waiting else {
                continue;
            };
            let mut fitting = rules
                .iter_mut()
                .filter(|rule| rule.fault.effect.is_of_events() == is_event);
            if fitting.any(|rule| rule.would_meet(asked, now)) {
                let rules = waiting.take()?;
                if (self.takes)(index) {
                    let place = self.place;
                    return Some(Taken { rules, place });
                }
                continue;
            }
            for rule in rules {
                if rule.fault.effect.is_of_events() == is_event {
                    rule.passes(asked, now);
                }
            }
        }
        None
    }
}

impl fmt::Debug for Branches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branches")
            .field("plans", &self.plans)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
