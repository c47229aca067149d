//! Two runs side by side: lines that both have stand once, and long stretches of them are folded; other lines face each
//! other, with their differing words marked.
//!
//! It is HTML without a script. A narrow screen has each pair of lines below each other.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff, capture_diff_slices};

use super::escape::escaped;

/// Lines that stay open next to a difference.
const CONTEXT: usize = 3;
/// Fewer lines than this are not folded.
const FOLDED_MIN: usize = 4;
/// Words are marked in lines that are alike by this much, from 0 to 1.
const ALIKE: f32 = 0.5;

/// A text that is compared with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The heading of the text.
    pub title: String,
    /// The text.
    pub text: String,
}

impl Side {
    /// A text with its heading.
    pub fn new(title: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            text: text.into(),
        }
    }
}

/// A stretch of lines.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    /// Both texts have these lines.
    Same(&'a [&'a str]),
    /// Both texts have these lines, and no difference is near.
    Folded(&'a [&'a str]),
    /// A line of each text, or of one.
    Pair(Option<&'a str>, Option<&'a str>),
}

/// Returns the two texts side by side, as HTML.
#[must_use]
pub fn to_html([old, new]: [&Side; 2]) -> String {
    let lines = [old, new].map(|side| side.text.lines().collect::<Vec<_>>());
    let mut html = format!(
        "<div class=\"sides\"><p class=\"heads\"><b>{}</b><b>{}</b></p>",
        escaped(&old.title),
        escaped(&new.title)
    );
    if lines[0] == lines[1] {
        html.push_str("<p class=\"quiet\">Both are equal.</p>");
    }
    for part in parts(&lines[0], &lines[1]) {
        match part {
            Part::Same(lines) => html.push_str(&same(lines)),
            Part::Folded(lines) => folded(&mut html, lines),
            Part::Pair(old, new) => pair(&mut html, old, new),
        }
    }
    html.push_str("</div>");
    html
}

fn parts<'a>(old: &'a [&'a str], new: &'a [&'a str]) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    // Lines that a text has only once are aligned first: empty lines are everywhere.
    for operation in capture_diff_slices(Algorithm::Patience, old, new) {
        let (old_lines, new_lines) = (&old[operation.old_range()], &new[operation.new_range()]);
        match operation {
            DiffOp::Equal {
                old_index,
                new_index,
                len,
            } => {
                let is_first = (old_index, new_index) == (0, 0);
                let ends = (old_index + len, new_index + len);
                let is_last = ends == (old.len(), new.len());
                parts.extend(stretch(old_lines, is_first, is_last));
            }
            DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                parts.extend(pairs(old_lines, new_lines));
            }
        }
    }
    parts
}

/// Lines that both texts have, at the beginning or the end of the texts or between differences.
fn stretch<'a>(lines: &'a [&'a str], is_first: bool, is_last: bool) -> Vec<Part<'a>> {
    let before = if is_first { 0 } else { CONTEXT };
    let after = if is_last { 0 } else { CONTEXT };
    if lines.len() < before + FOLDED_MIN + after {
        return vec![Part::Same(lines)];
    }
    let (before, rest) = lines.split_at(before);
    let (middle, after) = rest.split_at(rest.len() - after);
    let open = |lines: &'a [&'a str]| (!lines.is_empty()).then_some(Part::Same(lines));
    let parts = [open(before), Some(Part::Folded(middle)), open(after)];
    parts.into_iter().flatten().collect()
}

/// Lines of two texts that face each other: those first that differ in numbers alone, such as times.
fn pairs<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Part<'a>> {
    let without_numbers = |lines: &[&str]| -> Vec<String> {
        let is_shown = |letter: &char| !(letter.is_numeric() || letter.is_whitespace());
        let lines = lines.iter();
        lines
            .map(|line| line.chars().filter(is_shown).collect())
            .collect()
    };
    let mut pairs = Vec::new();
    let (old_words, new_words) = (without_numbers(old), without_numbers(new));
    for operation in capture_diff_slices(Algorithm::Myers, &old_words, &new_words) {
        let (old, new) = (&old[operation.old_range()], &new[operation.new_range()]);
        let both = 0..old.len().max(new.len());
        pairs.extend(both.map(|line| Part::Pair(old.get(line).copied(), new.get(line).copied())));
    }
    pairs
}

fn same(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| match line.is_empty() {
        true => "<i> </i>".to_owned(),
        false => format!("<i>{}</i>", indented(&escaped(line))),
    });
    format!("<pre>{}</pre>", lines.collect::<String>())
}

/// A line of HTML with its indentation as an element, which narrow screens keep while they fold other blanks.
fn indented(line: &str) -> String {
    let rest = line.trim_start_matches(' ');
    match &line[..line.len() - rest.len()] {
        "" => line.to_owned(),
        blanks => format!("<u>{blanks}</u>{rest}"),
    }
}

/// Lines that a reader can open, with the step or section that they lead to.
fn folded(html: &mut String, lines: &[&str]) {
    let is_heading = |line: &&&str| line.starts_with(|letter: char| letter.is_alphanumeric());
    let heading = lines.iter().rfind(is_heading);
    let heading = heading.map_or_else(String::new, |line| {
        format!(" <small>{}</small>", escaped(line))
    });
    let _ = write!(
        html,
        "<details><summary>{} equal lines{heading}</summary>{}</details>",
        lines.len(),
        same(lines)
    );
}

fn pair(html: &mut String, old: Option<&str>, new: Option<&str>) {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => {
            let (old, new) = marked(old, new);
            (Some(old), Some(new))
        }
        (old, new) => (old.map(escaped), new.map(escaped)),
    };
    let side = |line: Option<String>, element: &str| match line {
        Some(line) => format!("<{element}>{}</{element}>", indented(&line)),
        None => "<span></span>".to_owned(),
    };
    let (old, new) = (side(old, "del"), side(new, "ins"));
    let _ = write!(html, "<div class=\"pair\">{old}{new}</div>");
}

/// Two lines as HTML, with the words marked that only one has.
fn marked(old: &str, new: &str) -> (String, String) {
    let diff = TextDiff::from_words(old, new);
    if diff.ratio() < ALIKE {
        return (escaped(old), escaped(new));
    }
    let (mut old, mut new) = (String::new(), String::new());
    for operation in diff.ops() {
        let (mut removed, mut added) = (String::new(), String::new());
        for change in diff.iter_changes(operation) {
            match change.tag() {
                ChangeTag::Equal => {
                    old.push_str(&escaped(change.value()));
                    new.push_str(&escaped(change.value()));
                }
                ChangeTag::Delete => removed.push_str(change.value()),
                ChangeTag::Insert => added.push_str(change.value()),
            }
        }
        for (side, words) in [(&mut old, removed), (&mut new, added)] {
            // Blanks that align columns are no difference to a reader.
            let marked = words.trim();
            let begin = words.len() - words.trim_start().len();
            side.push_str(&words[..begin]);
            if !marked.is_empty() {
                let _ = write!(side, "<b>{}</b>", escaped(marked));
            }
            side.push_str(&words[begin + marked.len()..]);
        }
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(old: &str, new: &str) -> String {
        to_html([&Side::new("Golden", old), &Side::new("This run", new)])
    }

    /// The parts as text: common lines begin with a blank, folded ones with `~`.
    fn in_words(old: &str, new: &str) -> String {
        let [old, new] = [old, new].map(|text| text.lines().collect::<Vec<_>>());
        let mut words = String::new();
        for part in parts(&old, &new) {
            match part {
                Part::Same(lines) => lines.iter().for_each(|line| {
                    let _ = writeln!(words, "  {line}");
                }),
                Part::Folded(lines) => lines.iter().for_each(|line| {
                    let _ = writeln!(words, "~ {line}");
                }),
                Part::Pair(old, new) => {
                    let side = |line: Option<&str>| line.unwrap_or("∅").to_owned();
                    let _ = writeln!(words, "{} | {}", side(old), side(new));
                }
            }
        }
        words
    }

    fn numbered(range: std::ops::RangeInclusive<u32>) -> String {
        let lines = range.map(|number| format!("line {number}\n"));
        lines.collect()
    }

    #[test]
    fn lines_that_differ_in_numbers_face_each_other() {
        let old = "\
1. patch shop
  +0s  pod shop-1 terminating
  +1s  pod shop-1 gone
  +1s  pod shop-1² created
outcome
";
        let new = "\
1. patch shop
  +0s  pod shop-2 terminating
  +0s  shop status 3
  +1s  pod shop-2 gone
  +3s  pod shop-2² created
outcome
";
        assert_eq!(
            in_words(old, new),
            "  1. patch shop
  +0s  pod shop-1 terminating |   +0s  pod shop-2 terminating
∅ |   +0s  shop status 3
  +1s  pod shop-1 gone |   +1s  pod shop-2 gone
  +1s  pod shop-1² created |   +3s  pod shop-2² created
  outcome
"
        );
    }

    #[test]
    fn long_stretches_are_folded_but_for_the_lines_next_to_a_difference() {
        let old = format!("{}old\n{}", numbered(1..=9), numbered(10..=30));
        let new = format!("{}new\n{}", numbered(1..=9), numbered(10..=30));
        let words = in_words(&old, &new);
        let folded: Vec<&str> = words.lines().filter(|line| line.starts_with('~')).collect();
        assert_eq!(folded.len(), 6 + 18, "{words}");
        assert!(words.contains("~ line 6\n  line 7\n  line 8\n  line 9\nold | new\n  line 10\n"));
        assert!(words.contains("  line 12\n~ line 13\n"), "{words}");
        let page = html(&old, &new);
        assert!(page.contains("<summary>6 equal lines <small>line 6</small></summary>"));
        assert_eq!(
            page.matches("line 20").count(),
            1,
            "common lines stand once"
        );
    }

    #[test]
    fn short_stretches_stay_open() {
        let (old, new) = (
            "a\n1\n2\n3\n4\n5\n6\n7\n8\n9\nb\n",
            "x\n1\n2\n3\n4\n5\n6\n7\n8\n9\ny\n",
        );
        assert!(!in_words(old, new).contains('~'), "{}", in_words(old, new));
        // Three lines at the beginning are not worth a fold, either.
        let (old, new) = ("1\n2\n3\n4\n5\n6\na\n", "1\n2\n3\n4\n5\n6\nb\n");
        assert!(!in_words(old, new).contains('~'));
        assert!(in_words(&format!("0\n{old}"), &format!("0\n{new}")).starts_with("~ 0\n~ 1\n"));
    }

    #[test]
    fn a_fold_names_the_last_step_or_section_in_it() {
        let steps = "# title\n1. create <web>\n  +0s a\n  +0s b\n2. delete web\n  +0s c\n  +0s d\n  +0s e\n  +0s f\n";
        let page = html(&format!("{steps}old\n"), &format!("{steps}new\n"));
        assert!(
            page.contains("<summary>6 equal lines <small>2. delete web</small></summary>"),
            "{page}"
        );
    }

    #[test]
    fn an_empty_side_faces_the_other_with_nothing() {
        let page = html("", "a\nb\n");
        assert_eq!(page.matches("<span></span><ins>").count(), 2);
        assert!(!page.contains("<del>"));
        let page = html("a\nb\n", "");
        assert_eq!(page.matches("</del><span></span>").count(), 2);
        assert!(!page.contains("<ins>"));
        assert!(html("", "").contains("Both are equal."));
        assert!(html("a", "a").contains("Both are equal."));
    }

    #[test]
    fn words_are_marked_in_lines_that_are_alike() {
        let page = html("pod a-0 ready @A", "pod a-0 gone @A");
        assert!(
            page.contains("<del>pod a-0 <b>ready</b> @A</del><ins>pod a-0 <b>gone</b> @A</ins>")
        );
        let page = html("NAME   READY", "NAME      READY");
        assert!(page.contains("<ins>NAME      READY</ins>"), "{page}");
        let page = html("pod a-0 ready", "something else entirely here");
        assert!(
            !page.contains("<b>pod") && !page.contains("<ins><b>"),
            "{page}"
        );
    }

    #[test]
    fn the_indentation_of_a_line_is_an_element() {
        let page = html("spec:\n  replicas: 2", "spec:\n  replicas: 3");
        assert!(page.contains("<pre><i>spec:</i></pre>"), "{page}");
        let pair = "<del><u>  </u>replicas: <b>2</b></del><ins><u>  </u>replicas: <b>3</b></ins>";
        assert!(page.contains(pair), "{page}");
    }

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "</del><script>alert('1')</script> \"&amp;";
        let page = to_html([
            &Side::new(hostile, format!("{hostile} 1\n{hostile}\n")),
            &Side::new(hostile, format!("{hostile} 2\n{hostile}\n")),
        ]);
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("</del>").count(), 1);
        assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)"));
    }
}
