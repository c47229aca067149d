//! A rule: a fault in force, and the requests and events that it has met.

use jiff::{SignedDuration, Timestamp};

use super::Fault;
use super::request_facts::RequestFacts;

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) fault: Fault,
    pub(super) ends: Option<Timestamp>,
    seen: u32,
    pub(super) met: u32,
    pub(super) is_lifted: bool,
    /// The fault belongs to a plan, and strikes whatever other rules do.
    pub(super) is_planned: bool,
}

impl Rule {
    /// A rule made at `now`.
    pub(super) fn new(fault: Fault, is_planned: bool, now: Timestamp) -> Self {
        let ends = fault.lasts.map(|lasts| {
            let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
            now.saturating_add(lasts)
        });
        Self {
            fault,
            ends: ends.and_then(Result::ok),
            seen: 0,
            met: 0,
            is_lifted: false,
            is_planned,
        }
    }

    /// Whether the rule would affect this request or event.
    pub(super) fn would_meet(&self, asked: &RequestFacts, now: Timestamp) -> bool {
        self.is_about(asked, now) && self.seen >= self.fault.after
    }

    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        let is_used_up = self.fault.times.is_some_and(|times| self.met >= times);
        self.is_lifted || is_used_up || self.ends.is_some_and(|ends| ends <= now)
    }

    /// Whether the rule affects this request or event; counts it.
    pub(super) fn meets(&mut self, asked: &RequestFacts, now: Timestamp) -> bool {
        if self.is_over(now) || !self.fault.requests.include(asked) {
            return false;
        }
        self.seen += 1;
        if self.seen <= self.fault.after {
            return false;
        }
        self.met += 1;
        true
    }

    /// Counts a request or event that another rule has affected.
    pub(super) fn passes(&mut self, asked: &RequestFacts, now: Timestamp) {
        self.seen += u32::from(self.is_about(asked, now));
    }

    /// Whether the rule is about this request; does not count it.
    pub(super) fn is_about(&self, asked: &RequestFacts, now: Timestamp) -> bool {
        !self.is_over(now) && self.fault.requests.include(asked)
    }
}

/// The first rule that applies. Rules of a plan also count requests that another rule has affected,
/// as points count them.
pub(super) fn hit<'r>(
    rules: impl Iterator<Item = &'r mut Rule>,
    asked: &RequestFacts,
    now: Timestamp,
) -> Option<&'r Rule> {
    let mut met: Option<&Rule> = None;
    for rule in rules {
        if met.is_some() {
            if rule.is_planned {
                rule.passes(asked, now);
            }
        } else if rule.meets(asked, now) {
            met = Some(rule);
        }
    }
    met
}
