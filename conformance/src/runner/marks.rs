//! Marks on the lines of a transcript that show what the scenario claims.

use super::line::Line;
use crate::fold;
use crate::scenario::{Mark, Shows};

/// Marks the lines that `shows` names, and returns the marks without a line, each with the reason.
pub(super) fn set(lines: &mut [Line], shows: &[Shows]) -> Vec<String> {
    let (mut found, mut unmet) = (Vec::new(), Vec::new());
    for shown in shows {
        let mut after = 0;
        for mark in &shown.marks {
            match next(lines, mark, after) {
                Some(index) => {
                    found.push(index);
                    after = index + 1;
                }
                None => unmet.push(why_unmet(lines, mark, after)),
            }
        }
    }
    for index in found {
        lines[index].marked = true;
    }
    unmet
}

/// The first line from `after` on that carries the mark.
fn next(lines: &[Line], mark: &Mark, after: usize) -> Option<usize> {
    let fits = |line: &Line| {
        line.place.is_some_and(|place| {
            mark.fits(place, &line.text) || mark.fits(place, &fold::without_generations(&line.text))
        })
    };
    let found = lines[after..].iter().position(fits);
    found.map(|index| after + index)
}

fn why_unmet(lines: &[Line], mark: &Mark, after: usize) -> String {
    match (next(lines, mark, 0), after.checked_sub(1)) {
        (Some(early), Some(last)) => format!(
            "shows: `{mark}` is only before the line of the mark before it:\n{}\n{}",
            lines[early].text, lines[last].text
        ),
        _ => format!("shows: no line matches: {mark}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Place;

    fn marked(marks: &str) -> (String, Vec<String>) {
        let evidence = |text: &str, step| Line::new(text.to_owned(), Some(Place::Step(step)));
        let heading = Line::new("1. delete pod b".to_owned(), None);
        let mut lines = [
            heading,
            evidence("  +0s  a", 1),
            evidence("  +1s  b", 1),
            evidence("  +1s  a", 2),
        ];
        let shows: Shows = serde_saphyr::from_str(&format!("{{text: t, marks: {marks}}}")).unwrap();
        let unmet = set(&mut lines, &[shows]);
        let texts = lines.map(|line| match line.marked {
            true => line.text.replacen("  ", fold::MARK, 1),
            false => line.text,
        });
        (texts.join("\n"), unmet)
    }

    #[test]
    fn marks_are_set_in_the_order_of_their_lines() {
        let (text, unmet) = marked("[b, a]");
        assert_eq!(text, "1. delete pod b\n  +0s  a\n► +1s  b\n► +1s  a");
        assert!(unmet.is_empty());
        let (text, _) = marked("[\"step 2: a\"]");
        assert_eq!(text, "1. delete pod b\n  +0s  a\n  +1s  b\n► +1s  a");
    }

    #[test]
    fn a_mark_without_a_line_is_reported() {
        assert_eq!(marked("[delete]").1, ["shows: no line matches: delete"]);
        let unmet = marked("[b, b]").1;
        let why = "shows: `b` is only before the line of the mark before it:\n  +1s  b\n  +1s  b";
        assert_eq!(unmet, [why]);
    }
}
