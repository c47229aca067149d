//! How many events a run with faults may have more or fewer than the run without them.
//!
//! Events are best effort, and a fault is reported. Each fault of a plan allows this, and nothing else:
//!
//! - A crash loses the events that are not yet sent: of each event as many as occur in one instant at most. So does a
//!   lost answer, whose write counts as failed.
//! - The sync that failed is repeated, and with it the events of its beginning: one more of each. It comes later then, and
//!   may do at once what two syncs did: one fewer of those that occur more than once.
//! - A client that misses events, gets them late or reads from a stale replica does not see its own writes for half a
//!   minute to three minutes, and repeats them in each sync until then: sixteen more of each event. Eight are enough where
//!   its watch expires, after which it lists again within 0.8 s, or breaks off, after which many clients go on at once.
//! - The client of the write reports the failure, and perhaps that of the next attempt: two new Warnings of each kind. A
//!   client that does not see its own writes fails as often as it repeats them, and one whose webhooks are down sixteen
//!   times.
//! - A Warning that occurs without faults is of something that fails for a while. A fault delays what some client waits
//!   for, by half a minute at most, or delays the client itself, and a crash has it begin with the shortest pause again.
//!   So each of these Warnings occurs up to sixteen times more, or not at all.
//!
//! A crash is one of all controllers; another fault concerns its client. Only the last rule is about all clients.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::difference::Difference;
use super::{Kind, Planned};
use crate::outcome::{EventKey, Occurrences};
use crate::runner::RunOptions;

/// How often a client reports the failure of one write.
const REPORTS_MAX: i64 = 2;
/// How often a client tries within a minute, after 5 ms and then after twice the time before, and some margin.
const TRIES_MAX: i64 = 16;

/// The numbers of events that a run may have.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    faults: Vec<Planned>,
    /// Whether the run went on for longer, in which more events may occur.
    is_longer: bool,
}

impl Bounds {
    /// The bounds of a run with these options.
    pub(super) fn of(options: &RunOptions) -> Self {
        Self {
            faults: options.plan.faults().to_vec(),
            is_longer: options.final_settle.is_some(),
        }
    }

    /// Returns the events whose number is out of bounds.
    pub(super) fn exceeded(
        &self,
        expected: &BTreeMap<EventKey, Occurrences>,
        found: &BTreeMap<EventKey, Occurrences>,
    ) -> Vec<Difference> {
        let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
        let differing = keys.into_iter().filter_map(|key| {
            let expected = expected.get(key).copied().unwrap_or_default();
            let found = found.get(key).copied().unwrap_or_default().total;
            (!self.range(key, expected).contains(&found)).then(|| Difference::Event {
                key: key.clone(),
                expected: expected.total,
                found,
            })
        });
        differing.collect()
    }

    fn range(&self, key: &EventKey, expected: Occurrences) -> RangeInclusive<i64> {
        let (mut fewer, mut more) = (0, 0);
        let is_known = expected.total > 0;
        for fault in &self.faults {
            let kind = fault.kind();
            let is_crash = kind.is_crash();
            let is_concerned = is_crash || fault.point().from == key.client;
            match key.event_type.as_str() {
                "Warning" if is_known => {
                    fewer = expected.total;
                    more += TRIES_MAX;
                }
                "Warning" if is_concerned => {
                    more += match kind {
                        Kind::WebhookDown => TRIES_MAX,
                        _ => repeats(kind).unwrap_or(REPORTS_MAX),
                    };
                }
                _ if is_concerned && is_known => {
                    more += repeats(kind).unwrap_or(1);
                    fewer += match is_crash || kind == Kind::DropResponse {
                        true => expected.at_once,
                        false => i64::from(expected.total > 1),
                    };
                }
                _ => {}
            }
        }
        let at_most = match self.is_longer && expected.total > 0 {
            true => i64::MAX,
            false => expected.total + more,
        };
        (expected.total - fewer).max(0)..=at_most
    }
}

/// How often a client repeats what it does while it does not see its own writes; `None` if it sees them.
fn repeats(kind: Kind) -> Option<i64> {
    match kind {
        Kind::StaleRestart | Kind::MissEvents | Kind::Late => Some(TRIES_MAX),
        Kind::Break | Kind::Expire | Kind::Relist | Kind::Restart => Some(TRIES_MAX / 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::Plan;

    fn key(event_type: &str, client: &str) -> EventKey {
        let text = str::to_owned;
        EventKey {
            event_type: text(event_type),
            reason: text("R"),
            kind: text("pod"),
            name: text("a"),
            client: text(client),
        }
    }

    fn range(plan: &str, event_type: &str, client: &str, total: i64) -> RangeInclusive<i64> {
        let plan: Plan = plan.parse().unwrap();
        let bounds = Bounds {
            faults: plan.faults().to_vec(),
            is_longer: false,
        };
        let at_once = total.min(2);
        bounds.range(&key(event_type, client), Occurrences { total, at_once })
    }

    #[test]
    fn each_fault_allows_what_it_causes() {
        let crash = "crash-after create pods default/a from c";
        let refuse = "refuse create pods default/a from c";
        let lost = "lose-answer create pods default/a from c";
        let stale = "stale-restart create pods default/a from c";
        let miss = "miss MODIFIED pods default/a from c";
        let late = "late MODIFIED pods default/a from c";
        let broken = "break MODIFIED pods default/a from c";
        let expired = "expire MODIFIED pods default/a from c";
        let relist = "relist create pods default/a from c";
        for (plan, event_type, client, total, expected) in [
            (crash, "Normal", "c", 5, 3..=6),
            (crash, "Normal", "other", 5, 3..=6),
            (crash, "Normal", "c", 1, 0..=2),
            (crash, "Normal", "c", 0, 0..=0),
            (refuse, "Normal", "c", 5, 4..=6),
            (refuse, "Normal", "other", 5, 5..=5),
            (refuse, "Normal", "c", 1, 1..=2),
            (refuse, "Normal", "c", 0, 0..=0),
            (refuse, "Warning", "c", 0, 0..=2),
            (refuse, "Warning", "other", 0, 0..=0),
            (refuse, "Warning", "c", 3, 0..=19),
            (refuse, "Warning", "other", 3, 0..=19),
            (crash, "Warning", "c", 0, 0..=2),
            (crash, "Warning", "other", 0, 0..=2),
            (crash, "Warning", "c", 5, 0..=21),
            (stale, "Warning", "c", 0, 0..=16),
            (miss, "Warning", "other", 1, 0..=17),
            (miss, "Warning", "other", 0, 0..=0),
            (miss, "Warning", "c", 0, 0..=16),
            (lost, "Normal", "c", 5, 3..=6),
            (lost, "Normal", "other", 5, 5..=5),
            (miss, "Normal", "c", 5, 4..=21),
            (miss, "Normal", "c", 0, 0..=0),
            (miss, "Normal", "other", 5, 5..=5),
            (stale, "Normal", "other", 5, 3..=21),
            (late, "Normal", "c", 5, 4..=21),
            (broken, "Normal", "c", 5, 4..=13),
            (expired, "Warning", "c", 0, 0..=8),
            (relist, "Normal", "c", 5, 4..=13),
        ] {
            let found = range(plan, event_type, client, total);
            assert_eq!(found, expected, "{plan}: {event_type} of {client}, {total}");
        }
        let both = format!("{crash}; {refuse}");
        assert_eq!(range(&both, "Normal", "c", 5), 2..=7);
    }

    #[test]
    fn without_faults_the_numbers_are_equal() {
        let expected = BTreeMap::from([(
            key("Normal", "c"),
            Occurrences {
                total: 2,
                at_once: 1,
            },
        )]);
        let bounds = Bounds::default();
        assert_eq!(bounds.exceeded(&expected, &expected), []);
        let exceeded_by = |found: &BTreeMap<EventKey, Occurrences>| {
            let exceeded = bounds.exceeded(&expected, found);
            exceeded.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let none = BTreeMap::new();
        assert_eq!(exceeded_by(&none), ["event Normal R pod/a by c: ×2 → ×0"]);
        let mut more = expected.clone();
        more.insert(
            key("Warning", "c"),
            Occurrences {
                total: 1,
                at_once: 1,
            },
        );
        assert_eq!(exceeded_by(&more), ["event Warning R pod/a by c: ×0 → ×1"]);
    }

    #[test]
    fn a_longer_run_may_repeat_events_but_has_no_others() {
        let bounds = Bounds {
            faults: Vec::new(),
            is_longer: true,
        };
        let one = Occurrences {
            total: 1,
            at_once: 1,
        };
        assert_eq!(bounds.range(&key("Normal", "c"), one), 1..=i64::MAX);
        assert_eq!(
            bounds.range(&key("Normal", "c"), Occurrences::default()),
            0..=0
        );
    }
}
