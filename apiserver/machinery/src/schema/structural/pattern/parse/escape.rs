//! Escapes: the sequences that begin with a backslash.

use super::{Fault, INVALID_ESCAPE, Parser, TRAILING_BACKSLASH, until};
use crate::schema::structural::pattern::node::Op;

impl<'t> Parser<'t> {
    /// Parses the escape at the current position, outside of a class.
    pub(super) fn backslash(&mut self) -> Result<(), Fault<'t>> {
        let after = &self.rest[1..];
        let assertion = match after.chars().next() {
            Some('A') => Some(Op::TextStart),
            Some('z') => Some(Op::TextEnd),
            Some('b') => Some(Op::WordBoundary),
            Some('B') => Some(Op::NotWordBoundary),
            Some('C') => return Err((INVALID_ESCAPE, &self.rest[..2])),
            Some('Q') => return self.quoted(&after[1..]),
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.advance(2);
            return self.push(assertion);
        }
        if let Some(class) = self.class_escape()? {
            return self.push(Op::Class(class));
        }
        let code = self.escape()?;
        self.literal(code)
    }

    /// Takes the text between `\Q` and `\E`, which means itself.
    fn quoted(&mut self, after: &'t str) -> Result<(), Fault<'t>> {
        let (quoted, rest) = after.split_once("\\E").unwrap_or((after, ""));
        self.rest = rest;
        quoted
            .chars()
            .try_for_each(|letter| self.literal(u32::from(letter)))
    }

    /// Takes the escape of a single code point.
    pub(super) fn escape(&mut self) -> Result<u32, Fault<'t>> {
        let start = self.rest;
        self.advance(1);
        let letter = self.next().ok_or((TRAILING_BACKSLASH, ""))?;
        let code = match letter {
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            'x' => self.hexadecimal(),
            // A single digit other than zero would refer to a group, which Go does not support.
            '1'..='7' if !self.rest.starts_with(|next| matches!(next, '0'..='7')) => None,
            '0'..='7' => Some(self.octal(letter)),
            letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => {
                Some(u32::from(letter))
            }
            _ => None,
        };
        code.ok_or_else(|| (INVALID_ESCAPE, until(start, self.rest)))
    }

    /// Takes the next character, if one is left.
    pub(super) fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.advance(letter.len_utf8());
        Some(letter)
    }

    /// Takes up to two more octal digits.
    fn octal(&mut self, first: char) -> u32 {
        let mut code = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            let next = self.rest.chars().next();
            let Some(digit) = next.and_then(|next| next.to_digit(8)) else {
                break;
            };
            self.advance(1);
            code = code * 8 + digit;
        }
        code
    }

    /// Takes two hexadecimal digits, or any number of them in braces. On failure the faulty
    /// character has been taken too, because Go's error text ends with it.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut code = None;
        loop {
            match self.next()? {
                '}' => return code,
                digit => {
                    let next = code.unwrap_or(0) * 16 + digit.to_digit(16)?;
                    if next > u32::from(char::MAX) {
                        return None;
                    }
                    code = Some(next);
                }
            }
        }
    }
}
