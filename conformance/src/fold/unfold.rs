//! The single facts of a folded transcript.

use std::sync::LazyLock;

use regex::Regex;

use super::timeline::{self, KUBELET};
use super::{INDENTATION, Line, MARK, THEN, THEN_NEXT_SYNC, lists, outcome as outcomes, wrap};

static REPEATED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r" \(×(\d+), last \+\S+\)$").expect("a regex"));
static TIMED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\+\S+) (.*)$").expect("a regex"));
static COUNTERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(-?\d+(?:/-?\d+)+(?: updated \S+ of -?\d+)?)(?: (cur=\S+ upd=[^\s,]+))?(.*)$")
        .expect("a regex")
});
static REVISIONS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"cur=\S+ upd=[^\s,]+").expect("a regex"));

/// The facts of the lines of a step, sorted: folded or not, they are the same.
pub(super) fn step_facts(lines: &[Line]) -> Vec<String> {
    let mut facts: Vec<String> = lines
        .iter()
        .flat_map(|line| line_facts(&line.text))
        .collect();
    facts.sort();
    facts
}

/// The facts of the lines of an outcome, sorted: folded or not, they are the same.
pub(super) fn outcome_facts(lines: &[Line]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| line.text.clone()).collect();
    let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut facts: Vec<String> = outcomes::unfold(&lines).into_iter().map(words).collect();
    facts.retain(|fact| !fact.is_empty());
    facts.sort();
    facts
}

/// Returns the lines of the outcome of `transcript`, unfolded and without marks; none if it has no outcome.
pub(crate) fn outcome(transcript: &str) -> Vec<String> {
    let Some((_, text)) = transcript.split_once("\noutcome\n") else {
        return Vec::new();
    };
    let lines = wrap::unwrapped(&text.replace(MARK, INDENTATION));
    outcomes::unfold(&lines)
}

/// The facts of one line of a step, each with its time unless it is a retry.
fn line_facts(line: &str) -> Vec<String> {
    let Some((time, actor, what)) = timeline::columns(line) else {
        return vec![line.to_owned()];
    };
    let repeated = REPEATED.captures(what);
    let count = repeated.map_or(1, |found| found[1].parse().unwrap_or(1));
    if let Some(known) = timeline::retried(&REPEATED.replace(what, "")) {
        return vec![format!("{actor} {known}"); count];
    }
    lists::split(what)
        .iter()
        .flat_map(|what| changes(time, actor, what))
        .collect()
}

/// The changes of one object.
fn changes(time: &str, actor: &str, what: &str) -> Vec<String> {
    let what = what.replace(THEN_NEXT_SYNC, THEN);
    let mut parts = what.split(THEN);
    let first = parts.next().unwrap_or_default();
    let object: Vec<&str> = first.splitn(3, ' ').take(2).collect();
    let object = object.join(" ");
    let mut facts = vec![format!("{time} {actor} {}", timeline::full_fields(first))];
    let (mut time, mut revisions) = (time.to_owned(), revisions(first));
    for part in parts {
        let mut part = part;
        if let Some(found) = TIMED.captures(part) {
            found[1].clone_into(&mut time);
            part = found.get(2).map_or(part, |rest| rest.as_str());
        }
        let (actor, words) = match object.starts_with("pod ") {
            true => {
                let (words, is_kubelet) = timeline::full_routine(part);
                (if is_kubelet { KUBELET } else { actor }, words.to_owned())
            }
            false => (actor, full_status(part, &mut revisions)),
        };
        facts.push(format!("{time} {actor} {object} {words}"));
    }
    facts
}

fn revisions(words: &str) -> String {
    let found = REVISIONS.find(words);
    found.map_or(String::new(), |found| found.as_str().to_owned())
}

/// A status with the revisions of the one before it, unless it has its own.
fn full_status(part: &str, known: &mut String) -> String {
    let Some(found) = COUNTERS.captures(part) else {
        *known = String::new();
        return timeline::full_fields(part);
    };
    if let Some(own) = found.get(2) {
        own.as_str().clone_into(known);
    }
    format!("status {} {known}{}", &found[1], &found[3])
}
