//! Classes of characters: `[a-z]`, `\d`, `\pL`, `[[:alpha:]]`.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::{Fault, INVALID_CLASS_RANGE, MISSING_BRACKET, Parser, until};
use crate::schema::structural::pattern::{
    node::{Op, fold},
    unicode,
};

const DIGIT: &[(char, char)] = &[('0', '9')];
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
/// The class `\s`, which lacks the vertical tab of `[:space:]`.
const PERL_SPACE: &[(char, char)] = &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')];

impl<'t> Parser<'t> {
    /// Takes the class in brackets at the beginning of the rest.
    pub(super) fn class(&mut self) -> Result<(), Fault<'t>> {
        let start = self.rest;
        self.advance(1);
        let negated = self.rest.starts_with('^');
        if negated {
            self.advance(1);
        }
        let mut class = ClassUnicode::empty();
        // Single characters are folded together at the end; other parts are folded already.
        let mut ranges = Vec::new();
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if let Some(named) = self.named_class()? {
                class.union(&named);
                continue;
            }
            if let Some(escaped) = self.class_escape()? {
                class.union(&escaped);
                continue;
            }
            let range = self.rest;
            let low = self.class_char(start)?;
            let mut high = low;
            // A hyphen before the closing bracket means itself.
            if self.rest.len() >= 2 && self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.advance(1);
                high = self.class_char(start)?;
                if high < low {
                    return Err((INVALID_CLASS_RANGE, until(range, self.rest)));
                }
            }
            ranges.extend(scalars(low, high));
        }
        self.advance(1);
        let mut ranges = ClassUnicode::new(ranges);
        if self.flags.fold_case {
            fold(&mut ranges);
        }
        class.union(&ranges);
        if negated {
            class.negate();
        }
        self.push(Op::Class(class))
    }

    fn class_char(&mut self, class: &'t str) -> Result<u32, Fault<'t>> {
        if self.rest.starts_with('\\') {
            return self.escape();
        }
        self.next().map(u32::from).ok_or((MISSING_BRACKET, class))
    }

    /// Takes a class by its POSIX name, such as `[:alpha:]`.
    fn named_class(&mut self) -> Result<Option<ClassUnicode>, Fault<'t>> {
        let start = self.rest;
        let inner = start.strip_prefix("[:");
        let Some((name, after)) = inner.and_then(|inner| inner.split_once(":]")) else {
            return Ok(None);
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let ranges = posix(name).ok_or((INVALID_CLASS_RANGE, until(start, after)))?;
        self.rest = after;
        Ok(Some(self.ascii_class(ranges, negated)))
    }

    /// Takes an escape that names a class: `\d` and its like, `\pL`, `\p{Han}`.
    pub(super) fn class_escape(&mut self) -> Result<Option<ClassUnicode>, Fault<'t>> {
        let start = self.rest;
        let after = start.strip_prefix('\\');
        let Some(letter) = after.and_then(|after| after.chars().next()) else {
            return Ok(None);
        };
        let ranges = match letter {
            'd' | 'D' => DIGIT,
            's' | 'S' => PERL_SPACE,
            'w' | 'W' => WORD,
            'p' | 'P' => {
                self.advance(2);
                return self.unicode_class(start, letter == 'P').map(Some);
            }
            _ => return Ok(None),
        };
        self.advance(2);
        Ok(Some(self.ascii_class(ranges, letter.is_ascii_uppercase())))
    }

    fn ascii_class(&self, ranges: &[(char, char)], negated: bool) -> ClassUnicode {
        let range = |(low, high): &(char, char)| ClassUnicodeRange::new(*low, *high);
        self.adjusted(ClassUnicode::new(ranges.iter().map(range)), negated)
    }

    /// Takes the name after `\p` or `\P`, where `start` begins.
    fn unicode_class(&mut self, start: &'t str, negated: bool) -> Result<ClassUnicode, Fault<'t>> {
        let inner = self.rest;
        let name = match inner.strip_prefix('{') {
            Some(braced) => {
                let parts = braced.split_once('}');
                let (name, after) = parts.ok_or((INVALID_CLASS_RANGE, start))?;
                self.rest = after;
                name
            }
            None => {
                self.next();
                until(inner, self.rest)
            }
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (name, negated),
        };
        let class = unicode::class(name);
        let class = class.ok_or_else(|| (INVALID_CLASS_RANGE, until(start, self.rest)))?;
        Ok(self.adjusted(class, negated))
    }

    fn adjusted(&self, mut class: ClassUnicode, negated: bool) -> ClassUnicode {
        if self.flags.fold_case {
            fold(&mut class);
        }
        if negated {
            class.negate();
        }
        class
    }
}

/// Returns the characters in a range of code points, without the surrogates.
fn scalars(low: u32, high: u32) -> Option<ClassUnicodeRange> {
    let low = char::from_u32(low).unwrap_or('\u{e000}');
    let high = char::from_u32(high).unwrap_or('\u{d7ff}');
    (low <= high).then(|| ClassUnicodeRange::new(low, high))
}

/// Returns the characters of a class that POSIX names, all of them ASCII.
fn posix(name: &str) -> Option<&'static [(char, char)]> {
    Some(match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => DIGIT,
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => WORD,
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    })
}
