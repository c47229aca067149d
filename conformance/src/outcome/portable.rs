//! The part of an outcome that is equal on every cluster.

use std::collections::BTreeSet;

use super::FAULTS;
use crate::fold;

/// Columns of tables that are not compared.
const UNCOMPARED: &[&str] = &["AGE", "STORAGECLASS", "VOLUMEATTRIBUTESCLASS", "CAPACITY"];

/// Returns the part of a transcript that is equal on every cluster: the outcome, a line for each fact.
#[must_use]
pub fn portable_outcome(transcript: &str) -> String {
    let outcome = fold::unfold_outcome(transcript);
    let (mut sections, mut events) = (Vec::new(), BTreeSet::new());
    for section in outcome.split(String::is_empty) {
        match section.first().map(|title| title.trim()) {
            None => (),
            Some(title) if title.starts_with("events") => events.extend(portable_events(section)),
            Some(title) if title.starts_with("NAME ") => sections.push(portable_table(section)),
            Some(_) => sections.push(section.iter().map(|line| portable_line(line)).collect()),
        }
    }
    if !events.is_empty() {
        let title = std::iter::once("events".to_owned());
        let faults = sections.iter().position(|section| section[0] == FAULTS);
        let at = faults.unwrap_or(sections.len());
        sections.insert(at, title.chain(events).collect());
    }
    let sections: Vec<String> = sections.iter().map(|lines| lines.join("\n")).collect();
    sections.join("\n\n")
}

fn portable_table(section: &[String]) -> Vec<String> {
    let columns = section
        .first()
        .map(|header| compared(header))
        .unwrap_or_default();
    let row = |line: &str| {
        let cells = columns.iter().map(|range| cell(line, *range));
        portable_line(&cells.collect::<Vec<_>>().join(" "))
    };
    section.iter().map(|line| row(line)).collect()
}

/// Which events there were, in whatever order and however often.
fn portable_events(section: &[String]) -> impl Iterator<Item = String> {
    section.iter().skip(1).map(|line| {
        let line = without_count(line).replace("(combined from similar events): ", "");
        // The number of nodes depends on the cluster.
        match line.split_once(" FailedScheduling ") {
            Some((event_type, _)) => format!("{event_type} FailedScheduling"),
            None => portable_line(&line),
        }
    })
}

/// The words of a line; of pods with generated names it is not said which.
pub(super) fn portable_line(line: &str) -> String {
    // The age of a container's restart.
    let is_age = |word: &&str| word.starts_with('(') || *word == "ago)";
    let is_restarted = line.contains(" ago)");
    let words = line.split_whitespace();
    let words = words.filter(|word| !is_restarted || !is_age(word));
    words.map(portable_name).collect::<Vec<_>>().join(" ")
}

/// A word, of a generated name only the beginning.
pub(super) fn portable_name(word: &str) -> String {
    let (name, number) = word.rsplit_once('-').unwrap_or((word, ""));
    let is_generated = number.len() == 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    match is_generated {
        true => format!("{name}-*"),
        false => word.to_owned(),
    }
}

/// Returns the character ranges of the compared columns.
pub(super) fn compared(header: &str) -> Vec<(usize, usize)> {
    let characters: Vec<char> = header.chars().collect();
    let is_start = |index: &usize| {
        characters[*index] != ' '
            && (*index < 2 || (characters[index - 1] == ' ' && characters[index - 2] == ' '))
    };
    let starts: Vec<usize> = (0..characters.len()).filter(is_start).collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let ranges = starts.iter().copied().zip(ends);
    ranges
        .filter(|range| !UNCOMPARED.contains(&cell(header, *range).trim()))
        .collect()
}

pub(super) fn cell(line: &str, (start, end): (usize, usize)) -> String {
    line.chars().skip(start).take(end - start).collect()
}

/// An event's line without how often it was repeated.
fn without_count(line: &str) -> &str {
    let event = line.trim_start();
    match event
        .strip_prefix('×')
        .and_then(|event| event.split_once(' '))
    {
        Some((_, event)) => event,
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_repetitions_are_not_compared() {
        let transcript = |age: &str, count: u32| {
            format!(
                "# t\noutcome\n\n  NAME    READY   STATUS    AGE\n  web-0   1/1     Running   {age}\n\n  \
                 events\n    ×{count} Normal SuccessfulCreate Create Pod web-0\n"
            )
        };
        let outcome = portable_outcome(&transcript("10m", 2));
        assert_eq!(outcome, portable_outcome(&transcript("3s", 1)));
        let expected = "NAME READY STATUS\nweb-0 1/1 Running\n\nevents\n\
            Normal SuccessfulCreate Create Pod web-0";
        assert_eq!(outcome, expected);
    }
}
