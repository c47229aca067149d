//! The lines of a golden that show what its scenario claims.

use std::fmt;

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

/// A claim of the scenario, and the lines of its golden that show it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked")]
pub struct Shows {
    /// The claim, as one or two sentences.
    pub text: String,
    /// The lines that show the claim, in their order.
    pub marks: Vec<Mark>,
}

/// A claim of the scenario, and the lines of its golden that show it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Shows")]
struct Unchecked {
    /// The claim, as one or two sentences.
    text: String,
    /// The lines that show the claim, in their order: each mark is for the first line after the one before that
    /// matches. A mark without a line fails the scenario.
    #[schemars(length(min = 1))]
    marks: Vec<Mark>,
}

impl TryFrom<Unchecked> for Shows {
    type Error = String;

    fn try_from(Unchecked { text, marks }: Unchecked) -> Result<Self, String> {
        match marks.is_empty() {
            true => Err(format!("no mark shows that {text:?}")),
            false => Ok(Self { text, marks }),
        }
    }
}

/// The part of a golden that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The timeline of a step, counted from one.
    Step(usize),
    /// The outcome.
    Outcome,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(number) => write!(f, "step {number}"),
            Self::Outcome => f.write_str("outcome"),
        }
    }
}

/// A line of the golden: a part of its text, or `/a regular expression/`; with `step 2: ` or `outcome: ` before, of
/// that step's timeline or of the outcome. Any number of spaces counts as one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct Mark {
    text: String,
    place: Option<Place>,
    pattern: Regex,
}

impl Mark {
    /// Whether a line of `place` is the one.
    #[must_use]
    pub fn fits(&self, place: Place, line: &str) -> bool {
        self.place.is_none_or(|own| own == place) && self.pattern.is_match(&spaced(line))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Mark {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (place, pattern) = placed(&text);
        let is_regex = pattern.len() > 2 && pattern.starts_with('/') && pattern.ends_with('/');
        let pattern = match is_regex {
            true => pattern[1..pattern.len() - 1].to_owned(),
            false => regex::escape(&spaced(pattern)),
        };
        if pattern.is_empty() {
            return Err(format!("the mark {text:?} fits every line"));
        }
        let pattern =
            Regex::new(&pattern).map_err(|error| format!("the mark {text:?}: {error}"))?;
        Ok(Self {
            text,
            place,
            pattern,
        })
    }
}

/// The place that `text` names, and the rest of it.
fn placed(text: &str) -> (Option<Place>, &str) {
    let Some((place, rest)) = text.split_once(':') else {
        return (None, text);
    };
    let step = place.strip_prefix("step ");
    match step.and_then(|number| number.trim().parse().ok()) {
        Some(number) => (Some(Place::Step(number)), rest.trim_start()),
        None if place == "outcome" => (Some(Place::Outcome), rest.trim_start()),
        None => (None, text),
    }
}

/// The words of `text`, with one space between.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(text: &str) -> Mark {
        Mark::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn a_mark_is_a_part_of_a_line_or_an_expression() {
        let line = "  +2s      statefulset-controller      pod web-1 terminating (grace 30s)";
        let fits = |text: &str| mark(text).fits(Place::Step(2), line);
        assert!(fits("+2s statefulset-controller pod web-1"));
        assert!(fits("terminating (grace"));
        assert!(fits("/web-[12] terminating/"));
        assert!(!fits("web-[12] terminating"));
        assert!(fits("step 2: web-1") && !fits("step 1: web-1") && !fits("outcome: web-1"));
        assert!(mark("outcome: web-1").fits(Place::Outcome, line));
        assert!(mark("note: x").fits(Place::Outcome, "a note: x"));
    }

    #[test]
    fn marks_that_say_nothing_are_refused() {
        for wrong in ["", "  ", "step 1:", "/(/"] {
            assert!(Mark::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
        let shows: Result<Shows, _> = serde_saphyr::from_str("{text: t, marks: []}");
        assert!(shows.unwrap_err().to_string().contains("no mark shows"));
    }
}
