//! Whether a run with faults came to the outcome without them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kubeproof_apiserver::JournalEntry;
use kubeproof_controller::panic_message;
use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use super::bounds::Bounds;
use super::difference::Difference;
use crate::outcome::{
    EventKey, Facts, Occurrences, Unstable, facts, objects_in_words, portable_outcome, reported,
};
use crate::properties::{Violation, WRITE_LOOPS};
use crate::runner::RunError;

/// Lines of context around a difference of outcomes.
const OUTCOME_CONTEXT: usize = 2;
/// Lines of context around a difference of timelines.
const TIMELINE_CONTEXT: usize = 3;

/// The letter of a revision.
static LETTER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("(@|cur=|upd=)([A-Z][0-9]*)\\b").expect("a regex"));

/// The difference between a run and the run without faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// The violations of properties, the unified diff of the outcomes and the events out of bounds, or the reason for a
    /// missing outcome.
    pub outcome: String,
    /// The unified diff of the timelines, without and with faults.
    pub timelines: String,
    /// The timeline with faults, or the whole transcript; empty when the run came to no end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub with_faults: String,
    /// The last lines that the programs under test have printed.
    pub program_output: String,
    /// Each difference.
    pub(super) differences: Vec<Difference>,
}

impl Divergence {
    /// A run in which something panicked.
    pub(super) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        Self::unended(format!("the run panicked: {}", panic_message(panic)), None)
    }

    /// A run that came to no end.
    pub(super) fn unended(outcome: String, failing_step: Option<usize>) -> Self {
        Self {
            differences: vec![Difference::Unended {
                failing_step,
                why: outcome.clone(),
            }],
            outcome,
            timelines: String::new(),
            with_faults: String::new(),
            program_output: String::new(),
        }
    }

    /// Returns the differing fields, events, properties and steps, without values and numbers of steps: the run of a part
    /// of the scenario that differs in nothing else differs in the same way.
    #[must_use]
    pub fn labels(&self) -> BTreeSet<String> {
        let labels = self.differences.iter().map(|difference| match difference {
            Difference::Unended { failing_step, why } => {
                let step = why
                    .split_once(" (")
                    .and_then(|(_, rest)| rest.split_once("): "));
                match (failing_step, step) {
                    (Some(_), Some((words, _))) => format!("fails: {words}"),
                    _ => format!(
                        "fails: {}",
                        why.replace(|letter: char| letter.is_ascii_digit(), "")
                    ),
                }
            }
            Difference::Violated { property } => format!("violates {property}"),
            Difference::Field {
                kind, name, field, ..
            } => format!("{field} of {kind}/{name}"),
            Difference::Text => "text".to_owned(),
            Difference::Event { key, .. } => format!("event {key}"),
        });
        labels.collect()
    }

    /// It with what programs have printed.
    pub(super) fn of_programs(self, program_output: &str) -> Self {
        Self {
            program_output: program_output.to_owned(),
            ..self
        }
    }

    /// The part of it that consists of events of which there are too many; `None` without such events.
    pub(super) fn excess(&self) -> Option<Self> {
        let is_excess = |one: &&Difference| matches!(one, Difference::Event { expected, found, .. } if found > expected);
        let differences: Vec<Difference> =
            self.differences.iter().filter(is_excess).cloned().collect();
        if differences.is_empty() || differences.len() == self.differences.len() {
            return (!differences.is_empty()).then(|| self.clone());
        }
        let words: Vec<String> = differences.iter().map(ToString::to_string).collect();
        Some(Self {
            outcome: words.join("\n"),
            timelines: self.timelines.clone(),
            with_faults: self.with_faults.clone(),
            program_output: self.program_output.clone(),
            differences,
        })
    }

    /// Both together, each difference once.
    pub(super) fn with(mut self, other: Self) -> Self {
        for one in other.differences {
            if !self.differences.contains(&one) {
                self.outcome = format!("{}\n{one}", self.outcome);
                self.differences.push(one);
            }
        }
        self
    }

    fn of_error(error: &RunError) -> Self {
        let ended = format!("the run failed: {error}");
        if error.is_livelock() {
            let property = WRITE_LOOPS.to_owned();
            return Self {
                differences: vec![Difference::Violated { property }],
                ..Self::unended(ended, None)
            };
        }
        let failing_step = match error {
            RunError::Step { number, .. } => number.parse().ok(),
            _ => None,
        };
        Self::unended(ended, failing_step)
    }
}

/// The part of a run that is compared.
#[doc(hidden)]
#[derive(Debug)]
pub struct Seen {
    /// The outcome without events and without the faults met.
    outcome: String,
    facts: Facts,
    /// The objects of programs.
    objects: Facts,
    /// The names of all objects, in runs of programs.
    names: BTreeSet<String>,
    /// What runs without faults do not agree on, if this is one of them.
    unstable: Unstable,
    /// How often each event occurred; `None` when events are not compared.
    events: Option<BTreeMap<EventKey, Occurrences>>,
    timeline: String,
}

impl Seen {
    /// The content of a run's transcript.
    #[must_use]
    pub fn of_transcript(transcript: &str) -> Self {
        let names = revision_names(transcript);
        Self {
            outcome: comparable(&with_revisions(&names, &portable_outcome(transcript))),
            facts: facts(transcript, |line| with_revisions(&names, line)),
            objects: Facts::new(),
            names: BTreeSet::new(),
            unstable: Unstable::default(),
            events: None,
            timeline: transcript.to_owned(),
        }
    }

    /// The portable outcome and the timeline of a testbed.
    pub(super) fn of_testbed(outcome: &str, timeline: &str) -> Self {
        Self {
            outcome: comparable(outcome),
            facts: Facts::new(),
            objects: Facts::new(),
            names: BTreeSet::new(),
            unstable: Unstable::default(),
            events: None,
            timeline: timeline.to_owned(),
        }
    }

    /// Adds the events among these writes.
    #[must_use]
    pub fn with_events(self, journal: &[JournalEntry]) -> Self {
        Self {
            events: Some(reported(journal)),
            ..self
        }
    }

    /// Adds the objects of programs, and the names of all objects.
    pub(super) fn with_objects(self, objects: Facts, names: BTreeSet<String>) -> Self {
        Self {
            objects,
            names,
            ..self
        }
    }

    /// Adds what runs without faults do not agree on.
    pub(super) fn with_unstable(self, unstable: Unstable) -> Self {
        Self { unstable, ..self }
    }

    pub(super) fn objects(&self) -> &Facts {
        &self.objects
    }

    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    pub(super) fn unstable(&self) -> &Unstable {
        &self.unstable
    }

    /// The timeline of the run, or its whole transcript.
    #[must_use]
    pub fn timeline(&self) -> &str {
        &self.timeline
    }
}

/// Compares two runs; `None` when they are equal except for times, and for events within `bounds`.
///
/// A property violated is a difference, whatever the outcome.
#[must_use]
pub fn compare(
    reference: &Seen,
    run: Result<&Seen, &RunError>,
    violations: &[Violation],
    bounds: &Bounds,
) -> Option<Divergence> {
    let run = match run {
        Ok(run) => run,
        Err(error) => return Some(Divergence::of_error(error)),
    };
    let mut differences: Vec<Difference> = Vec::new();
    let mut words: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let violated: BTreeSet<&String> = violations.iter().map(|one| &one.property).collect();
    differences.extend(violated.into_iter().map(|property| Difference::Violated {
        property: property.clone(),
    }));
    let unstable = &reference.unstable;
    let [expected, found] = [reference, run].map(|seen| unstable.mask(&seen.outcome, &seen.names));
    if expected != found {
        let [expected_facts, found_facts] = [reference, run].map(|seen| {
            let facts = seen.facts.iter();
            let facts = facts.filter(|(object, _)| !unstable.is_own(&object.name, &seen.names));
            facts
                .map(|(object, fields)| (object.clone(), fields.clone()))
                .collect()
        });
        let fields = fields(&expected_facts, &found_facts);
        match fields.is_empty() {
            true => differences.push(Difference::Text),
            false => differences.extend(fields),
        }
        words.push(diff(&expected, &found, OUTCOME_CONTEXT));
    }
    let (expected, found) = (&reference.objects, &run.objects);
    if expected != found {
        let stable = |objects: &Facts| reference.unstable.without(objects);
        let (expected, found) = (stable(expected), stable(found));
        let fields = fields(&expected, &found);
        if !fields.is_empty() {
            let (expected, found) = (objects_in_words(&expected), objects_in_words(&found));
            words.push(diff(&expected, &found, 0));
        }
        differences.extend(fields);
    }
    if let (Some(expected), Some(found)) = (&reference.events, &run.events) {
        let events = bounds.exceeded(expected, found);
        words.extend(events.iter().map(ToString::to_string));
        differences.extend(events);
    }
    (!differences.is_empty()).then(|| Divergence {
        outcome: words.join("\n"),
        timelines: diff(&reference.timeline, &run.timeline, TIMELINE_CONTEXT),
        with_faults: run.timeline.clone(),
        program_output: String::new(),
        differences,
    })
}

/// The fields in which two outcomes differ.
fn fields(expected: &Facts, found: &Facts) -> Vec<Difference> {
    let (nothing, mut differences) = (BTreeMap::new(), Vec::new());
    let objects: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for object in objects {
        let [expected, found] =
            [expected, found].map(|facts| facts.get(object).unwrap_or(&nothing));
        let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
        for field in names {
            let [expected, found] = [expected, found].map(|fields| fields.get(field).cloned());
            if expected != found {
                differences.push(Difference::Field {
                    kind: object.kind.clone(),
                    name: object.name.clone(),
                    field: field.clone(),
                    expected,
                    found,
                });
            }
        }
    }
    differences
}

/// The names of the revisions that a transcript has letters for.
fn revision_names(transcript: &str) -> BTreeMap<&str, &str> {
    let timeline = transcript
        .split_once("\noutcome\n")
        .map_or("", |(timeline, _)| timeline);
    let mut names = BTreeMap::new();
    for line in timeline.lines() {
        if let Some(known) = line.strip_prefix("#        revisions: ") {
            let pairs = known.split(", ").filter_map(|pair| pair.split_once(" = "));
            names.extend(pairs);
        } else if let Some((_, change)) = line.split_once(" controllerrevision ")
            && let Some((name, created)) = change.split_once(" created ")
            && let Some((_, letter)) = created.split_once(" = ")
        {
            // Later changes of the same revision may follow.
            let letter = letter.split_once(' ').map_or(letter, |(letter, _)| letter);
            names.insert(letter, name);
        }
    }
    names
}

/// Replaces the letters of revisions by their names. Letters go by the order of creation, which among several
/// workloads is arbitrary.
fn with_revisions(names: &BTreeMap<&str, &str>, text: &str) -> String {
    let named = LETTER.replace_all(text, |found: &Captures<'_>| {
        let name = names.get(&found[2]).copied().unwrap_or(&found[2]);
        format!("{}{name}", &found[1])
    });
    named.into_owned()
}

/// The outcome without events and without the faults met.
fn comparable(outcome: &str) -> String {
    let sections = outcome.split("\n\n").filter(|section| {
        let title = section.lines().next().unwrap_or_default();
        !matches!(title, "events" | "faults met")
    });
    sections.collect::<Vec<_>>().join("\n\n")
}

fn diff(expected: &str, found: &str, context: usize) -> String {
    TextDiff::from_lines(expected, found)
        .unified_diff()
        .context_radius(context)
        .missing_newline_hint(false)
        .header("without faults", "with them")
        .to_string()
}

#[cfg(test)]
mod tests {
    use kubeproof_apiserver::meta::ResourceVersion;

    use super::*;

    fn transcript(pods: &str, events: &str) -> String {
        format!("# t\n\ntimeline\n\noutcome\n\n  pods\n    {pods}\n\n  events\n    {events}\n")
    }

    fn differences(reference: &str, run: &str) -> Vec<String> {
        let (reference, run) = (Seen::of_transcript(reference), Seen::of_transcript(run));
        let found = compare(&reference, Ok(&run), &[], &Bounds::default());
        let found = found.into_iter().flat_map(|found| found.differences);
        found.map(|one| one.to_string()).collect()
    }

    #[test]
    fn revisions_are_compared_by_name_and_not_by_letter() {
        let run = |first: &str, second: &str, pod: &str| {
            let created = |name: &str, letter: &str| {
                format!("  +0s x controllerrevision {name} created (revision 1) = {letter}\n")
            };
            let (first, second) = (created(first, "A"), created(second, "B"));
            format!("# t\n{first}{second}\noutcome\n\n  pods\n    {pod}   nginx   no owner\n")
        };
        let reference = run("web-1", "agent-1", "web-0@A");
        let other_order = run("agent-1", "web-1", "web-0@B");
        assert_eq!(differences(&reference, &other_order), [""; 0]);
        let other_revision = run("web-1", "agent-1", "web-0@B");
        let found = differences(&reference, &other_revision);
        assert_eq!(found, ["REVISION of pod/web-0: web-1 → agent-1"]);
    }

    #[test]
    fn each_field_that_differs_is_a_difference() {
        let reference = transcript("web-0@A   nginx   no owner", "×1 Normal Pulled a");
        let found = transcript(
            "web-0@B   nginx   owned by web\n    web-1@A   nginx   no owner",
            "×1 Normal Pulled a",
        );
        assert_eq!(
            differences(&reference, &found),
            [
                "OWNER of pod/web-0: no owner → owned by web",
                "REVISION of pod/web-0: A → B",
                "IMAGE of pod/web-1: none → nginx",
                "OWNER of pod/web-1: none → no owner",
                "REVISION of pod/web-1: none → A",
                "presence of pod/web-1: none → there",
            ]
        );
        let strange = format!("{reference}\n  claims\n    none\n");
        let found = differences(&reference, &strange);
        assert_eq!(found, ["the outcome beside its tables and statuses"]);
    }

    #[test]
    fn a_violation_and_a_run_without_an_end_are_differences() {
        let seen = Seen::of_transcript(&transcript(
            "web-0@A   nginx   no owner",
            "×1 Normal Pulled a",
        ));
        let violation = Violation {
            rv: ResourceVersion::new(7),
            property: "one pod per ordinal".to_owned(),
            what: "two".to_owned(),
        };
        let bounds = Bounds::default();
        let found = compare(&seen, Ok(&seen), &[violation], &bounds).unwrap();
        assert_eq!(found.outcome, "one pod per ordinal: two (revision 7)");
        let property = "one pod per ordinal".to_owned();
        assert_eq!(found.differences, [Difference::Violated { property }]);
        let looping = crate::testbed::TestbedError::Livelock("no write loops: c".to_owned());
        let looping = RunError::Cluster(looping.into());
        let found = compare(&seen, Err(&looping), &[], &bounds).unwrap();
        assert_eq!(found.outcome, "the run failed: no write loops: c");
        let property = "no write loops".to_owned();
        assert_eq!(found.differences, [Difference::Violated { property }]);
        let failing = |number: &str| RunError::Step {
            number: number.to_owned(),
            words: "wait".to_owned(),
            source: Box::new(crate::runner::StepError::NotSimulated),
        };
        for (number, step) in [("3", Some(3)), ("given 3", None)] {
            let found = compare(&seen, Err(&failing(number)), &[], &bounds).unwrap();
            let [Difference::Unended { failing_step, .. }] = found.differences[..] else {
                panic!("{found:?}");
            };
            assert_eq!(failing_step, step);
        }
    }

    #[test]
    fn too_many_events_stay_too_many() {
        let event = |expected: i64, found: i64| Difference::Event {
            key: EventKey {
                event_type: "Normal".to_owned(),
                reason: "SuccessfulCreate".to_owned(),
                kind: "statefulset".to_owned(),
                name: "web".to_owned(),
                client: "c".to_owned(),
            },
            expected,
            found,
        };
        let of = |differences: &[Difference]| Divergence {
            outcome: "all".to_owned(),
            timelines: String::new(),
            with_faults: String::new(),
            program_output: String::new(),
            differences: differences.to_vec(),
        };
        assert_eq!(of(&[event(2, 1), Difference::Text]).excess(), None);
        let only = of(&[event(1, 3)]);
        assert_eq!(only.excess(), Some(only.clone()));
        let both = of(&[event(2, 1), event(1, 3)]);
        let excess = both.excess().unwrap();
        assert_eq!(excess.differences, [event(1, 3)]);
        assert_eq!(
            excess.outcome,
            "event Normal SuccessfulCreate statefulset/web by c: ×1 → ×3"
        );
        let joined = of(&[Difference::Text]).with(excess);
        assert_eq!(joined.differences, [Difference::Text, event(1, 3)]);
        assert_eq!(joined.clone().with(only).differences, joined.differences);
    }

    #[test]
    fn a_revision_has_its_name_whatever_follows_its_creation() {
        let names = |line: &str| {
            let transcript = format!("timeline\n{line}\n\noutcome\n");
            let names = revision_names(&transcript);
            names.get("B").map(|name| (*name).to_owned())
        };
        let created = "  +0s   c   controllerrevision web-1 created (revision 2) = B";
        assert_eq!(names(created).as_deref(), Some("web-1"));
        let labeled = format!("{created} · label a=b");
        assert_eq!(names(&labeled).as_deref(), Some("web-1"));
        assert_eq!(names("  +0s   c   controllerrevision web-1 gone"), None);
    }

    #[test]
    fn events_in_the_text_of_an_outcome_are_not_compared() {
        let reference = transcript("web-0@A   nginx   no owner", "×1 Normal SuccessfulCreate a");
        let same = transcript("web-0@A   nginx   no owner", "×3 Warning FailedCreate b");
        assert_eq!(differences(&reference, &same), [""; 0]);
    }
}
