//! Regular expressions in Go's syntax.

mod go;

use std::fmt::Write;
use std::sync::OnceLock;

use regex::Regex;

pub(crate) use go::go_regexp_fault;

/// A `pattern`, compiled when a value is first matched against it.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// As the definition has it.
    pub text: String,
    regex: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            regex: OnceLock::new(),
        }
    }

    /// Whether some part of `value` matches; a pattern that is no regular expression matches all.
    #[must_use]
    pub(crate) fn is_match(&self, value: &str) -> bool {
        let regex = self.regex.get_or_init(|| compile(&self.text).ok());
        regex.as_ref().is_none_or(|regex| regex.is_match(value))
    }
}

/// Compiles an expression in Go's syntax.
pub(crate) fn compile(text: &str) -> Result<Regex, regex::Error> {
    Regex::new(&translated(text))
}

/// The same expression in our engine's syntax: Go's `\d`, `\s`, `\w` and `\b` know ASCII only, and
/// in its classes brackets and doubled signs mean themselves.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str(r"[\t\n\f\r ]"),
                Some('S') => out.push_str(r"[^\t\n\f\r ]"),
                Some(boundary @ ('b' | 'B')) => {
                    write!(out, r"(?-u:\{boundary})").expect("writing to a String can't fail");
                }
                Some('Q') => quoted(&mut letters, &mut out),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if in_class && letters.peek() != Some(&':') => out.push_str(r"\["),
            '[' if in_class => posix_class(&mut letters, &mut out),
            '[' => {
                in_class = true;
                out.push('[');
                if letters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // The first bracket in a class means itself.
                if letters.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', letter]),
            other => out.push(other),
        }
    }
    out
}

/// `[:alpha:]` inside a class, behind its opening bracket.
fn posix_class(letters: &mut impl Iterator<Item = char>, out: &mut String) {
    out.push('[');
    for letter in letters {
        out.push(letter);
        if letter == ']' {
            return;
        }
    }
}

/// The text between `\Q` and `\E`.
fn quoted(letters: &mut impl Iterator<Item = char>, out: &mut String) {
    let mut text = String::new();
    for letter in letters {
        text.push(letter);
        if text.ends_with(r"\E") {
            text.truncate(text.len() - 2);
            break;
        }
    }
    out.push_str(&regex::escape(&text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_go_means_by_them() {
        let matches = |pattern: &str, value: &str| Pattern::new(pattern).is_match(value);
        assert!(matches(r"^\d+$", "12") && !matches(r"^\d+$", "٣"));
        assert!(matches(r"^[\w.]+$", "a.b") && !matches(r"^\w+$", "é"));
        assert!(matches(r"^[[a]+$", "[a[") && matches(r"^[]a]+$", "]a"));
        assert!(matches(r"^[a&&b]+$", "a&b") && matches(r"^[[:alpha:]]+$", "ab"));
        assert!(matches(r"^\Qa.b\E$", "a.b") && !matches(r"^\Qa.b\E$", "axb"));
        assert!(matches("b", "abc"), "a pattern is not anchored");
    }
}
