//! Whether a run with faults came to the outcome without them.

use std::any::Any;

use similar::TextDiff;

use crate::properties::Violation;
use crate::runner::RunError;
use crate::runner::remote::portable_outcome;

/// Lines of context around a difference of outcomes.
const OUTCOME_CONTEXT: usize = 2;
/// Lines of context around a difference of timelines.
const TIMELINE_CONTEXT: usize = 3;

/// How a run differs from the one without faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The outcomes compared, or why there is none.
    pub outcome: String,
    /// The timelines compared.
    pub timelines: String,
}

impl Divergence {
    /// A run in which something panicked.
    pub(super) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Self {
            outcome: format!("it panics: {}", text.unwrap_or("without a word")),
            timelines: String::new(),
        }
    }
}

/// Compares the outcomes of two runs; `None` when they are the same but for events and time.
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
                outcome: format!("it does not come to an end: {error}"),
                timelines: String::new(),
            });
        }
    };
    let outcome = |transcript| portable_outcome(transcript);
    compare_outcomes(
        (&outcome(reference), reference),
        (&outcome(transcript), transcript),
        violations,
    )
}

/// The same of outcomes and timelines that are no transcripts.
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
