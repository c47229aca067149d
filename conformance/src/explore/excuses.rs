//! The entries of a scenario that explain a run with another outcome.

use std::collections::BTreeSet;

use super::difference::Difference;
use super::{Divergence, Options, Plan};
use crate::outcome::PRESENCE;
use crate::scenario::{Differs, Faults, FieldsMay, May, Scenario, With};

/// A part of a scenario's `differs`, by the place of its entry and its own place in it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A plan or pattern of `with`; with `order` the only one.
    With(usize, usize),
    /// One of `in`.
    May(usize, usize),
}

/// A run that is not as the one without faults, as its scenario sees it.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// The differences that no entry explains, in words.
    pub left: Vec<String>,
    /// The parts of `differs` that explain others.
    pub used: BTreeSet<Part>,
}

/// Returns which differences of a run with `plan` in the order of a seed the scenario explains.
///
/// An entry explains fields and events. It explains the violation of a property, or a run without an end, only where it
/// names the property or the step that fails.
#[doc(hidden)]
#[must_use]
pub fn explain(
    scenario: &Scenario,
    (plan, schedule_seed): (&Plan, u64),
    divergence: &Divergence,
) -> Explained {
    let entries = scenario.differs.iter().enumerate();
    let about: Vec<_> = entries
        .filter(|(_, entry)| entry.with.is_about(plan, schedule_seed))
        .collect();
    let mut explained = Explained::default();
    for difference in &divergence.differences {
        let mut is_explained = false;
        for (index, entry) in &about {
            let Some(places) = explaining(entry, difference, divergence) else {
                continue;
            };
            is_explained = true;
            let parts = places.into_iter().map(|place| Part::May(*index, place));
            explained.used.extend(parts);
            let with = places_in(&entry.with, plan);
            let with = with.map(|place| Part::With(*index, place));
            explained.used.extend(with);
        }
        if !is_explained {
            explained.left.push(difference.to_string());
        }
    }
    explained
}

/// The places of the plans and patterns that `plan` has.
fn places_in<'a>(with: &'a With, plan: &'a Plan) -> Box<dyn Iterator<Item = usize> + 'a> {
    match with {
        With::Order => Box::new(std::iter::once(0)),
        With::Faults(faults) => {
            let fitting = faults.iter().enumerate();
            let fitting = fitting.filter(|(_, one)| one.is_in(plan));
            Box::new(fitting.map(|(place, _)| place))
        }
    }
}

/// The places in `in` that explain `difference`; `None` if the entry does not explain it.
fn explaining(entry: &Differs, difference: &Difference, all: &Divergence) -> Option<Vec<usize>> {
    if entry.may.is_empty() {
        let is_of_outcome = matches!(
            difference,
            Difference::Field { .. } | Difference::Text | Difference::Event { .. }
        );
        return is_of_outcome.then(Vec::new);
    }
    let places = entry.may.iter().enumerate();
    let places = places.filter(|(_, may)| allows(may, difference, all));
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    (!places.is_empty()).then_some(places)
}

fn allows(may: &May, difference: &Difference, all: &Divergence) -> bool {
    match (may, difference) {
        (
            May::Fields(own),
            Difference::Field {
                kind,
                name,
                field,
                expected,
                found,
            },
        ) => {
            if own.exchanged {
                return own.fits(kind, name, field) && are_exchanged(own, field, all);
            }
            // Several objects may have one name, of which both runs have some.
            let is_on_one_side = expected.is_none() != found.is_none();
            own.fits(kind, name, field)
                || (is_on_one_side
                    && own.fits(kind, name, PRESENCE)
                    && differs_in_presence(kind, name, all))
        }
        (May::Event(own), Difference::Event { key, found, .. }) => {
            let found = u64::try_from(*found).unwrap_or(0);
            own.event == key.reason
                && own.regarding.fits(&key.kind, &key.name)
                && (own.at_least..=own.at_most).contains(&found)
        }
        (May::Failure(own), Difference::Unended { failing_step, .. }) => {
            *failing_step == Some(own.failing_step)
        }
        (May::Violation(own), Difference::Violated { property }) => *property == own.violates,
        _ => false,
    }
}

/// Whether only one of the runs has the object, so that each of its fields differs.
fn differs_in_presence(of_kind: &str, named: &str, all: &Divergence) -> bool {
    all.differences.iter().any(|difference| {
        matches!(difference, Difference::Field { kind, name, field, .. }
            if kind == of_kind && name == named && field == PRESENCE)
    })
}

/// Whether the objects have the same values of `field` as in the run without faults, each as often. Objects that do
/// not differ have the same in any case.
fn are_exchanged(own: &FieldsMay, field: &str, all: &Divergence) -> bool {
    let mut values: Vec<(&Option<String>, &Option<String>)> = Vec::new();
    for difference in &all.differences {
        if let Difference::Field {
            kind,
            name,
            field: other,
            expected,
            found,
        } = difference
            && other == field
            && own.fits(kind, name, other)
        {
            values.push((expected, found));
        }
    }
    let (mut expected, mut found): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    expected.sort();
    found.sort();
    expected == found
}

/// Returns the parts of `differs` about faults that are not `used` though all faults of `options` were tried, in words.
#[doc(hidden)]
#[must_use]
pub fn stale_faults(scenario: &Scenario, used: &BTreeSet<Part>, options: &Options) -> Vec<String> {
    let mut stale = Vec::new();
    for (index, entry) in scenario.differs.iter().enumerate() {
        let With::Faults(faults) = &entry.with else {
            continue;
        };
        let was_run = |one: &Faults| one.is_within(&options.kinds, &options.from);
        let places = faults.iter().enumerate();
        let unused = places
            .filter(|(place, one)| was_run(one) && !used.contains(&Part::With(index, *place)));
        stale.extend(unused.map(|(_, one)| format!("differs with `{one}`")));
        if faults.iter().all(was_run) {
            stale.extend(unused_may(index, entry, used));
        }
    }
    stale
}

/// Returns the parts of `differs` about other orders that are not `used`, in words.
#[doc(hidden)]
#[must_use]
pub fn stale_orders(scenario: &Scenario, used: &BTreeSet<Part>) -> Vec<String> {
    let entries = scenario.differs.iter().enumerate();
    let of_orders = entries.filter(|(_, entry)| entry.with == With::Order);
    of_orders
        .flat_map(|(index, entry)| unused_may(index, entry, used))
        .collect()
}

fn unused_may(index: usize, entry: &Differs, used: &BTreeSet<Part>) -> Vec<String> {
    let places = entry.may.iter().enumerate();
    let unused = places.filter(|(place, _)| !used.contains(&Part::May(index, *place)));
    let with = &entry.with;
    unused
        .map(|(_, may)| format!("differs with {with} in: {may}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::EventKey;

    /// A scenario with these entries.
    fn scenario(differs: &str) -> Scenario {
        let text = format!("title: t\nsource: s\nsteps: []\ndiffers:\n{differs}");
        serde_saphyr::from_str(&text).unwrap()
    }

    fn divergence(differences: &[Difference]) -> Divergence {
        Divergence {
            outcome: String::new(),
            timelines: String::new(),
            with_faults: String::new(),
            program_output: String::new(),
            differences: differences.to_vec(),
        }
    }

    fn field(name: &str, field: &str) -> Difference {
        Difference::Field {
            kind: "pod".to_owned(),
            name: name.to_owned(),
            field: field.to_owned(),
            expected: Some("a".to_owned()),
            found: None,
        }
    }

    fn event(reason: &str, found: i64) -> Difference {
        let text = str::to_owned;
        Difference::Event {
            key: EventKey {
                event_type: text("Warning"),
                reason: text(reason),
                kind: text("statefulset"),
                name: text("web"),
                client: text("c"),
            },
            expected: 0,
            found,
        }
    }

    fn unended(failing_step: Option<usize>) -> Difference {
        Difference::Unended {
            failing_step,
            why: "it stands still".to_owned(),
        }
    }

    const PLAN: &str = "refuse create pods default/web-1 from c";

    fn left(scenario: &Scenario, differences: &[Difference]) -> usize {
        let plan: Plan = PLAN.parse().unwrap();
        let explained = explain(scenario, (&plan, 0), &divergence(differences));
        explained.left.len()
    }

    #[test]
    fn an_entry_explains_the_outcome_but_no_violation_and_no_run_without_an_end() {
        let all = scenario("- {with: {fault: refuse, anywhere: true}, because: b}");
        let differences = [
            field("web-1", "STATUS"),
            Difference::Text,
            event("Failed", 2),
        ];
        assert_eq!(left(&all, &differences), 0);
        let property = "one pod per ordinal".to_owned();
        for never in [
            Difference::Violated { property },
            unended(None),
            unended(Some(1)),
        ] {
            assert_eq!(
                left(&all, &[field("web-1", "STATUS"), never.clone()]),
                1,
                "{never}"
            );
        }
        let step = "- {with: {fault: refuse, anywhere: true}, in: [{failingStep: 3}], because: b}";
        let step = scenario(step);
        assert_eq!(left(&step, &[unended(Some(3))]), 0);
        assert_eq!(left(&step, &[unended(Some(2))]), 1);
        assert_eq!(left(&step, &[unended(None)]), 1);
        assert_eq!(left(&step, &[field("web-1", "STATUS")]), 1);
    }

    #[test]
    fn an_object_that_may_be_absent_may_lack_its_fields() {
        let entry = "- {with: {fault: refuse, anywhere: true}, in: [{object: pod/web-*, fields: [presence]}], because: b}";
        let scenario = scenario(entry);
        let gone = [field("web-1", "presence"), field("web-1", "STATUS")];
        assert_eq!(left(&scenario, &gone), 0);
        let another = [field("web-1", "presence"), field("web-2", "STATUS")];
        assert_eq!(left(&scenario, &another), 1);
        assert_eq!(left(&scenario, &[field("web-1", "STATUS")]), 1);
        let of_both = Difference::Field {
            kind: "pod".to_owned(),
            name: "web-1".to_owned(),
            field: "STATUS".to_owned(),
            expected: Some("Running".to_owned()),
            found: Some("Failed".to_owned()),
        };
        let gone = [field("web-1", "presence"), of_both];
        assert_eq!(left(&scenario, &gone), 1);
    }

    #[test]
    fn a_violation_is_named_by_its_property() {
        let entry = "- {with: {fault: refuse, anywhere: true}, in: [{violates: no write loops}], because: b}";
        let scenario = scenario(entry);
        let violated = |property: &str| Difference::Violated {
            property: property.to_owned(),
        };
        assert_eq!(left(&scenario, &[violated("no write loops")]), 0);
        assert_eq!(left(&scenario, &[violated("one pod per ordinal")]), 1);
        assert_eq!(left(&scenario, &[unended(None)]), 1);
    }

    #[test]
    fn an_entry_of_other_faults_explains_nothing() {
        let other = scenario("- {with: {fault: refuse, verb: update}, because: b}");
        assert_eq!(left(&other, &[field("web-1", "STATUS")]), 1);
        let order = "- {with: order, in: [{object: pod/web-1, fields: [STATUS]}], because: b}";
        assert_eq!(left(&scenario(order), &[field("web-1", "STATUS")]), 1);
    }

    #[test]
    fn what_may_differ_is_named_field_by_field() {
        let differs = "
- with: order
  in:
  - {object: pod/web-1, fields: [STATUS]}
  - {object: pod/db-*, fields: [NODE, presence]}
  - {event: Failed, regarding: statefulset/web, atLeast: 1, atMost: 3}
  because: b";
        let scenario = scenario(differs);
        for (difference, is_explained) in [
            (field("web-1", "STATUS"), true),
            (field("web-1", "READY"), false),
            (field("web-10", "STATUS"), false),
            (field("db-0", "NODE"), true),
            (field("db-*", "presence"), true),
            (field("db-0", "STATUS"), false),
            (event("Failed", 1), true),
            (event("Failed", 3), true),
            (event("Failed", 4), false),
            (event("Failed", 0), false),
            (event("Other", 1), false),
            (Difference::Text, false),
        ] {
            let found = divergence(std::slice::from_ref(&difference));
            let explained = explain(&scenario, (&Plan::default(), 1), &found);
            assert_eq!(explained.left.is_empty(), is_explained, "{difference}");
        }
    }

    #[test]
    fn a_part_that_explains_nothing_is_stale_once_all_was_run() {
        let differs = "
- {with: [{fault: refuse, verb: create}, {fault: miss, event: ADDED}], because: b}
- with: order
  in: [{object: pod/web-1, fields: [STATUS]}, {object: pod/web-2, fields: [STATUS]}]
  because: b";
        let scenario = scenario(differs);
        let plan: Plan = PLAN.parse().unwrap();
        let found = divergence(&[field("web-1", "STATUS")]);
        let mut used = explain(&scenario, (&plan, 0), &found).used;
        assert_eq!(used, [Part::With(0, 0)].into());
        let all = Options::default();
        let stale = stale_faults(&scenario, &used, &all);
        assert_eq!(stale, ["differs with `miss ADDED`"]);
        let some = Options {
            kinds: [crate::explore::Kind::Refuse].into(),
            ..Options::default()
        };
        assert_eq!(stale_faults(&scenario, &used, &some), [""; 0]);
        assert_eq!(stale_orders(&scenario, &used).len(), 2);
        used.extend(explain(&scenario, (&Plan::default(), 2), &found).used);
        let stale = stale_orders(&scenario, &used);
        assert_eq!(stale, ["differs with order in: STATUS of pod/web-2"]);
    }

    #[test]
    fn what_is_named_must_be_needed_with_faults_too() {
        let differs = "
- with: {fault: refuse, verb: create}
  in: [{object: pod/web-1, fields: [STATUS]}, {event: Failed, regarding: statefulset/web, atMost: 1}]
  because: b";
        let scenario = scenario(differs);
        let plan: Plan = PLAN.parse().unwrap();
        let found = divergence(&[field("web-1", "STATUS")]);
        let used = explain(&scenario, (&plan, 0), &found).used;
        let stale = stale_faults(&scenario, &used, &Options::default());
        let part = "differs with refuse create in: 0 to 1 events Failed of statefulset/web";
        assert_eq!(stale, [part]);
    }

    #[test]
    fn exchanged_objects_have_the_same_values_as_often() {
        let exchanged = "
- {with: order, in: [{object: pod/web-*, fields: [NODE], exchanged: true}], because: b}";
        let scenario = scenario(exchanged);
        let node = |name: &str, expected: &str, found: &str| Difference::Field {
            kind: "pod".to_owned(),
            name: name.to_owned(),
            field: "NODE".to_owned(),
            expected: Some(expected.to_owned()),
            found: Some(found.to_owned()),
        };
        let left = |differences: &[Difference]| {
            let found = divergence(differences);
            explain(&scenario, (&Plan::default(), 1), &found).left.len()
        };
        assert_eq!(left(&[node("web-0", "a", "b"), node("web-1", "b", "a")]), 0);
        assert_eq!(left(&[node("web-0", "a", "b"), node("web-1", "b", "b")]), 2);
        assert_eq!(left(&[node("web-0", "a", "b")]), 1);
        assert_eq!(left(&[node("web-0", "a", "b"), node("db-1", "b", "a")]), 2);
    }
}
