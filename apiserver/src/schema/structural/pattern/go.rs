//! What Go finds wrong with a regular expression.

use super::compile;

/// Go repeats nothing more often than this.
const REPEAT_MAX: u32 = 1000;

/// The fault of an expression, in Go's words; `None` when it is well-formed.
#[must_use]
pub(crate) fn go_regexp_fault(text: &str) -> Option<String> {
    let mut parser = Parser {
        text,
        rest: text,
        depth: 0,
    };
    let fault = match parser.parse() {
        Err((what, part)) => format!("{what}: `{part}`"),
        // What Go would say to the rest that our engine does not take is not known.
        Ok(()) => compile(text)
            .err()
            .map(|_| format!("invalid regexp: `{text}`"))?,
    };
    Some(format!("error parsing regexp: {fault}"))
}

type Fault<'t> = (&'static str, &'t str);

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    depth: usize,
}

/// What can be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Operand,
    Repetition,
}

impl<'t> Parser<'t> {
    fn parse(&mut self) -> Result<(), Fault<'t>> {
        let mut before = Before::Nothing;
        let mut repetition = self.rest;
        while let Some(letter) = self.rest.chars().next() {
            let start = self.rest;
            match letter {
                '*' | '+' | '?' => {
                    self.advance(1);
                    let after = self.rest.strip_prefix('?').unwrap_or(self.rest);
                    self.rest = after;
                    before = repeated(before, repetition, start, after)?;
                    repetition = start;
                }
                '{' => match counted(start) {
                    Some((after, fits)) => {
                        let after = after.strip_prefix('?').unwrap_or(after);
                        if !fits {
                            let operator = until(start, after).trim_end_matches('?');
                            return Err(("invalid repeat count", operator));
                        }
                        self.rest = after;
                        before = repeated(before, repetition, start, after)?;
                        repetition = start;
                    }
                    None => {
                        self.advance(1);
                        before = Before::Operand;
                    }
                },
                '(' => {
                    self.open()?;
                    before = Before::Nothing;
                }
                ')' => {
                    let depth = self.depth.checked_sub(1);
                    self.depth = depth.ok_or(("unexpected )", self.text))?;
                    self.advance(1);
                    before = Before::Operand;
                }
                '|' => {
                    self.advance(1);
                    before = Before::Nothing;
                }
                '[' => {
                    self.class()?;
                    before = Before::Operand;
                }
                '\\' => {
                    self.escape()?;
                    before = Before::Operand;
                }
                letter => {
                    self.advance(letter.len_utf8());
                    before = Before::Operand;
                }
            }
        }
        match self.depth {
            0 => Ok(()),
            _ => Err(("missing closing )", self.text)),
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    /// Takes the beginning of a group.
    fn open(&mut self) -> Result<(), Fault<'t>> {
        let start = self.rest;
        self.depth += 1;
        let Some(rest) = start.strip_prefix("(?") else {
            self.advance(1);
            return Ok(());
        };
        let name = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<'));
        if let Some(name) = name {
            let (name, after) = name
                .split_once('>')
                .ok_or(("invalid named capture", start))?;
            let is_word = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(("invalid named capture", until(start, after)));
            }
            self.rest = after;
            return Ok(());
        }
        let mut flags = 0;
        for (at, letter) in rest.char_indices() {
            match letter {
                'i' | 'm' | 's' | 'U' => flags += 1,
                '-' if !rest[..at].contains('-') => flags = 0,
                ':' | ')' => {
                    if rest[..at].ends_with('-') && flags == 0 {
                        break;
                    }
                    self.rest = &rest[at + 1..];
                    self.depth -= usize::from(letter == ')');
                    return Ok(());
                }
                letter => {
                    let end = at + letter.len_utf8();
                    return Err((
                        "invalid or unsupported Perl syntax",
                        until(start, &rest[end..]),
                    ));
                }
            }
        }
        Err(("missing closing )", self.text))
    }

    fn escape(&mut self) -> Result<(), Fault<'t>> {
        let start = self.rest;
        let mut letters = start[1..].chars();
        let Some(letter) = letters.next() else {
            return Err(("trailing backslash at end of expression", ""));
        };
        let after = letters.as_str();
        self.rest = after;
        match letter {
            'Q' => {
                self.rest = after.split_once("\\E").map_or("", |(_, rest)| rest);
                Ok(())
            }
            'p' | 'P' => {
                let end = match after.strip_prefix('{') {
                    Some(name) => name.find('}').map(|end| end + 2),
                    None => after.chars().next().map(char::len_utf8),
                };
                let end = end.ok_or(("invalid character class range", start))?;
                self.rest = &after[end..];
                match compile(until(start, self.rest)) {
                    Ok(_) => Ok(()),
                    Err(_) => Err(("invalid character class range", until(start, self.rest))),
                }
            }
            'x' => {
                let digits = match after.strip_prefix('{') {
                    Some(rest) => rest.find('}').map(|end| (&rest[..end], &rest[end + 1..])),
                    None => after.get(..2).map(|digits| (digits, &after[2..])),
                };
                match digits {
                    Some((digits, rest)) if u32::from_str_radix(digits, 16).is_ok() => {
                        self.rest = rest;
                        Ok(())
                    }
                    _ => {
                        let end = after.chars().next().map_or(0, char::len_utf8);
                        Err(("invalid escape sequence", until(start, &after[end..])))
                    }
                }
            }
            'A'
            | 'B'
            | 'C'
            | 'D'
            | 'S'
            | 'W'
            | 'a'
            | 'b'
            | 'd'
            | 'f'
            | 'n'
            | 'r'
            | 's'
            | 't'
            | 'v'
            | 'w'
            | 'z'
            | '0'..='7' => Ok(()),
            letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => Ok(()),
            _ => Err(("invalid escape sequence", until(start, after))),
        }
    }

    fn class(&mut self) -> Result<(), Fault<'t>> {
        let start = self.rest;
        self.advance(1);
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            if self.rest.is_empty() {
                return Err(("missing closing ]", start));
            }
            first = false;
            if let Some(name) = self.rest.strip_prefix("[:")
                && let Some(end) = name.find(":]")
            {
                self.advance(end + 4);
                continue;
            }
            let range = self.rest;
            let low = self.class_letter(start)?;
            if !self.rest.starts_with('-') || self.rest.starts_with("-]") {
                continue;
            }
            self.advance(1);
            let high = self.class_letter(start)?;
            if let (Some(low), Some(high)) = (low, high)
                && high < low
            {
                return Err(("invalid character class range", until(range, self.rest)));
            }
        }
        self.advance(1);
        Ok(())
    }

    /// Takes one letter of a class, if it is a letter and not a class itself.
    fn class_letter(&mut self, class: &'t str) -> Result<Option<char>, Fault<'t>> {
        let letter = self
            .rest
            .chars()
            .next()
            .ok_or(("missing closing ]", class))?;
        if letter == '\\' {
            self.escape()?;
            return Ok(None);
        }
        self.advance(letter.len_utf8());
        Ok(Some(letter))
    }
}

/// The part of `text` before its own tail `rest`.
fn until<'t>(text: &'t str, rest: &str) -> &'t str {
    &text[..text.len() - rest.len()]
}

/// What comes of a repetition at `start`, that before it having begun at `last`.
fn repeated<'t>(
    before: Before,
    last: &'t str,
    start: &'t str,
    after: &str,
) -> Result<Before, Fault<'t>> {
    match before {
        Before::Nothing => {
            let operator = until(start, after);
            Err(("missing argument to repetition operator", operator))
        }
        Before::Repetition => Err(("invalid nested repetition operator", until(last, after))),
        Before::Operand => Ok(Before::Repetition),
    }
}

/// Whether `text` begins with a count such as `{2,3}`; a brace that does not means itself.
pub(super) fn is_counted(text: &str) -> bool {
    counted(text).is_some()
}

/// A count such as `{2,3}` at the beginning of `text`: what follows it, and whether it fits.
fn counted(text: &str) -> Option<(&str, bool)> {
    let (inner, after) = text.strip_prefix('{')?.split_once('}')?;
    let (min, max) = match inner.split_once(',') {
        Some((min, "")) => (min, None),
        Some((min, max)) => (min, Some(max)),
        None => (inner, Some(inner)),
    };
    let is_number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits && (text == "0" || !text.starts_with('0'))
    };
    if !is_number(min) || !max.is_none_or(is_number) {
        return None;
    }
    let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
    let (min, max) = (number(min), max.map(number));
    let fits = min <= REPEAT_MAX && max.is_none_or(|max| max <= REPEAT_MAX && min <= max);
    Some((after, fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_those_of_go() {
        for (text, want) in [
            ("(?<=x)a(", "invalid named capture: `(?<=x)a(`"),
            ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            (r"\y", r"invalid escape sequence: `\y`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
        ] {
            let want = format!("error parsing regexp: {want}");
            assert_eq!(go_regexp_fault(text), Some(want), "{text}");
        }
        for text in [
            "",
            "^[a-z]+$",
            "a{,2}",
            "[]a]",
            r"^\d+(\.\d+)?$",
            "(?i)a",
            "(?P<x>a)",
            "a+?",
        ] {
            assert_eq!(go_regexp_fault(text), None, "{text}");
        }
    }
}
