//! Whether a run with faults came to the outcome without them.

use std::any::Any;
use std::collections::BTreeMap;

use kubeproof_controller::panic_message;
use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use crate::outcome::portable_outcome;
use crate::properties::Violation;
use crate::runner::RunError;

/// Lines of context around a difference of outcomes.
const OUTCOME_CONTEXT: usize = 2;
/// Lines of context around a difference of timelines.
const TIMELINE_CONTEXT: usize = 3;

/// The difference between a run and the run without faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// The violations of properties if there are any; otherwise the unified diff of the outcomes, or the reason for a
    /// missing outcome.
    pub outcome: String,
    /// The unified diff of the timelines, without and with faults.
    pub timelines: String,
}

impl Divergence {
    /// A run in which something panicked.
    pub(super) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        Self {
            outcome: format!("the run panicked: {}", panic_message(panic)),
            timelines: String::new(),
        }
    }
}

/// Compares the outcomes of two runs; `None` when they are equal except for events and times.
///
/// A property violated is a difference, whatever the outcome. Events are left out because they report what happened on the way, faults included.
#[must_use]
pub fn compare(
    reference: &str,
    run: Result<&String, &RunError>,
    violations: &[Violation],
) -> Option<Divergence> {
    let transcript = match run {
        Ok(transcript) => transcript,
        Err(error) => {
            return Some(Divergence {
                outcome: format!("the run failed: {error}"),
                timelines: String::new(),
            });
        }
    };
    let outcome = |transcript| with_revisions(transcript, &portable_outcome(transcript));
    compare_outcomes(
        (&outcome(reference), reference),
        (&outcome(transcript), transcript),
        violations,
    )
}

/// Replaces the letters of revisions in the outcome of `transcript` by their names. Letters go by the order of
/// creation, which among several workloads is arbitrary.
fn with_revisions(transcript: &str, outcome: &str) -> String {
    let told = transcript
        .split_once("\noutcome\n")
        .map_or("", |(told, _)| told);
    let mut names = BTreeMap::new();
    for line in told.lines() {
        if let Some(known) = line.strip_prefix("#        revisions: ") {
            let pairs = known.split(", ").filter_map(|pair| pair.split_once(" = "));
            names.extend(pairs);
        } else if let Some((before, letter)) = line.rsplit_once(" = ")
            && let Some((_, created)) = before.split_once(" controllerrevision ")
            && let Some((name, _)) = created.split_once(" created ")
        {
            names.insert(letter, name);
        }
    }
    let letter = Regex::new("(@|cur=|upd=)([A-Z][0-9]*)\\b");
    let letter = letter.expect("the pattern is a regular expression");
    let named = letter.replace_all(outcome, |found: &Captures<'_>| {
        let name = names.get(&found[2]).copied().unwrap_or(&found[2]);
        format!("{}{name}", &found[1])
    });
    named.into_owned()
}

/// Compares outcomes and timelines that are not parts of transcripts.
pub(super) fn compare_outcomes(
    (expected, reference): (&str, &str),
    (found, timeline): (&str, &str),
    violations: &[Violation],
) -> Option<Divergence> {
    let (expected, found) = (comparable(expected), comparable(found));
    let outcome = if !violations.is_empty() {
        let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
        told.join("\n")
    } else if expected != found {
        diff(&expected, &found, OUTCOME_CONTEXT)
    } else {
        return None;
    };
    Some(Divergence {
        outcome,
        timelines: diff(reference, timeline, TIMELINE_CONTEXT),
    })
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
        .header("without faults", "with them")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(pods: &str, events: &str) -> String {
        format!("# t\n\ntimeline\n\noutcome\n\n  pods\n    {pods}\n\n  events\n    {events}\n")
    }

    #[test]
    fn revisions_are_compared_by_name_and_not_by_letter() {
        let run = |first: &str, second: &str, pod: &str| {
            let created = |name: &str, letter: &str| {
                format!("  +0s x controllerrevision {name} created (revision 1) = {letter}\n")
            };
            let (first, second) = (created(first, "A"), created(second, "B"));
            format!("# t\n{first}{second}\noutcome\n\n  pods\n    {pod} nginx\n")
        };
        let reference = run("web-1", "agent-1", "web-0@A");
        let other_order = run("agent-1", "web-1", "web-0@B");
        assert_eq!(compare(&reference, Ok(&other_order), &[]), None);
        let other_revision = run("web-1", "agent-1", "web-0@B");
        assert!(compare(&reference, Ok(&other_revision), &[]).is_some());
    }

    #[test]
    fn other_events_are_no_other_outcome() {
        let reference = transcript("web-0@A nginx", "×1 Normal SuccessfulCreate");
        let same = transcript("web-0@A nginx", "×3 Warning FailedCreate");
        assert_eq!(compare(&reference, Ok(&same), &[]), None);
        let other = transcript("web-0@B nginx", "×1 Normal SuccessfulCreate");
        let divergence = compare(&reference, Ok(&other), &[]).unwrap();
        assert!(
            divergence.outcome.contains("-web-0@A nginx"),
            "{}",
            divergence.outcome
        );
        assert!(!divergence.timelines.is_empty());
    }
}
