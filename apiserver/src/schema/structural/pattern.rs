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

/// The same expression in our engine's syntax: Go's `\d`, `\s`, `\w` and `\b` know ASCII only, in
/// its classes brackets and doubled signs mean themselves, and so do braces around no count.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_class = false;
    while let Some(letter) = rest.chars().next() {
        let here = rest;
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\\' => rest = escape(rest, &mut out),
            '[' if in_class => match rest.find(']').filter(|_| rest.starts_with(':')) {
                // A class by its name, `[:alpha:]`.
                Some(end) => {
                    out.push_str(&here[..end + 2]);
                    rest = &rest[end + 1..];
                }
                None => out.push_str(r"\["),
            },
            '[' => {
                in_class = true;
                out.push('[');
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = after;
                }
                // The first bracket in a class means itself.
                if let Some(after) = rest.strip_prefix(']') {
                    out.push_str(r"\]");
                    rest = after;
                }
            }
            ']' => {
                out.push_str(if in_class { "]" } else { r"\]" });
                in_class = false;
            }
            '{' if !in_class && !go::is_counted(here) => out.push_str(r"\{"),
            '&' | '~' if in_class => out.extend(['\\', letter]),
            other => out.push(other),
        }
    }
    out
}

/// Translates what a backslash begins, and answers what follows it.
fn escape<'t>(text: &'t str, out: &mut String) -> &'t str {
    let mut letters = text.chars();
    match letters.next() {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str(r"[\t\n\f\r ]"),
        Some('S') => out.push_str(r"[^\t\n\f\r ]"),
        Some(boundary @ ('b' | 'B')) => {
            write!(out, r"(?-u:\{boundary})").expect("writing to a String can't fail");
        }
        // The text between `\Q` and `\E` means itself.
        Some('Q') => {
            let quoted = letters.as_str();
            let (quoted, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(quoted));
            return rest;
        }
        Some(other) => out.extend(['\\', other]),
        None => out.push('\\'),
    }
    letters.as_str()
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
