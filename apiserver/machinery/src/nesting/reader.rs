//! A reader of JSON without errors that describe a fault.
//!
//! A text that it reads has the same value as with `serde_json`. It refuses more texts: `value()` refuses
//! two fields of one name, `skip()` strings and numbers without a value of their type. Callers read refused
//! texts again with `serde_json`, for the value or for the error. It checks once that the text is UTF-8,
//! looks for the ends of strings eight bytes at a time, and counts neither lines nor columns.

mod de;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::{self, Display};

use super::{DEPTH_MAX, SERDE_DEPTH_MAX, has_room};
use crate::json::{Map, Number, Value};

/// Digits of an integer that surely fits.
const SAFE_DIGITS: usize = 18;

/// Why a text was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault;

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fault in JSON")
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

/// A position in a JSON text.
pub(crate) struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// How many levels may be entered.
    room: usize,
}

impl<'t> Reader<'t> {
    /// A reader of a text that nests as deeply as the stack allows; `None` for bytes that are no text.
    pub(crate) fn new(json: &'t [u8]) -> Option<Self> {
        let room = match has_room() {
            true => DEPTH_MAX,
            false => SERDE_DEPTH_MAX,
        };
        let text = std::str::from_utf8(json).ok()?;
        Some(Self { text, at: 0, room })
    }

    /// A reader of a text that this server has written. The caller has room for it.
    pub(crate) fn of_own(json: &'t [u8]) -> Option<Self> {
        Some(Self {
            room: usize::MAX,
            ..Self::new(json)?
        })
    }

    /// The next byte that is no space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Passes over `byte` if it is next.
    fn passes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        self.passes(byte).then_some(()).ok_or(Fault)
    }

    /// Nothing but space is left.
    pub(crate) fn end(mut self) -> Result<(), Fault> {
        self.peek().is_none().then_some(()).ok_or(Fault)
    }

    /// Enters an object or a list, whose bracket is next.
    pub(crate) fn enter(&mut self) -> Result<Inside, Fault> {
        self.room = self.room.checked_sub(1).ok_or(Fault)?;
        self.at += 1;
        Ok(Inside { is_first: true })
    }

    /// The name of the next field; `None` after the last one.
    pub(crate) fn name(&mut self, inside: &mut Inside) -> Result<Option<Cow<'t, str>>, Fault> {
        if !self.has_next(inside, b'}')? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(Fault);
        }
        let name = self.string()?;
        self.expect(b':')?;
        Ok(Some(name))
    }

    /// Whether a list or an object goes on; leaves it after `bracket`.
    pub(crate) fn has_next(&mut self, inside: &mut Inside, bracket: u8) -> Result<bool, Fault> {
        if self.passes(bracket) {
            self.room = self.room.saturating_add(1);
            return Ok(false);
        }
        if !std::mem::take(&mut inside.is_first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// The string whose quotation mark is next.
    fn string(&mut self) -> Result<Cow<'t, str>, Fault> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = plain_until(bytes, start);
        if bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.text[start..end]));
        }
        while bytes.get(end) == Some(&b'\\') {
            end = plain_until(bytes, end + 2);
        }
        let string = self.text.get(start - 1..=end).ok_or(Fault)?;
        self.at = end + 1;
        let string = serde_json::from_str(string).map_err(|_| Fault)?;
        Ok(Cow::Owned(string))
    }

    fn number(&mut self) -> Result<Number, Fault> {
        let rest = &self.text.as_bytes()[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        let text = &self.text[self.at..self.at + length];
        self.at += length;
        let is_short = (1..=SAFE_DIGITS).contains(&length) && (length == 1 || rest[0] != b'0');
        if is_short && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let digit = |sum: u64, byte: u8| sum * 10 + u64::from(byte - b'0');
            return Ok(text.bytes().fold(0, digit).into());
        }
        serde_json::from_str(text).map_err(|_| Fault)
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        let is_next = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        is_next.then_some(()).ok_or(Fault)
    }

    /// The next value, in which no object has two fields of one name.
    pub(crate) fn value(&mut self) -> Result<Value, Fault> {
        Ok(match self.peek().ok_or(Fault)? {
            b'"' => Value::String(self.string()?.into()),
            b'{' => {
                let mut inside = self.enter()?;
                let mut fields = Map::new();
                while let Some(name) = self.name(&mut inside)? {
                    let value = self.value()?;
                    if fields.insert(name, value).is_some() {
                        return Err(Fault);
                    }
                }
                Value::Object(fields)
            }
            b'[' => {
                let mut inside = self.enter()?;
                let mut items = Vec::new();
                while self.has_next(&mut inside, b']')? {
                    items.push(self.value()?);
                }
                Value::Array(items)
            }
            b't' => self.word("true").map(|()| Value::Bool(true))?,
            b'f' => self.word("false").map(|()| Value::Bool(false))?,
            b'n' => self.word("null").map(|()| Value::Null)?,
            _ => Value::Number(self.number()?),
        })
    }

    /// The text of the next value, an object that this server has written. Its end is searched for
    /// unless its length is known.
    pub(crate) fn object_text(&mut self, length: Option<usize>) -> Result<&'t str, Fault> {
        let end = match length {
            Some(length) => self.at + length,
            None => self.end_of_object()?,
        };
        let text = self.text.get(self.at..end).ok_or(Fault)?;
        self.at = end;
        Ok(text)
    }

    /// Passes over the next value, which is checked as `value()` does, except for its fields' names.
    pub(crate) fn skip(&mut self) -> Result<(), Fault> {
        match self.peek().ok_or(Fault)? {
            b'"' => self.string().map(drop),
            b'{' => {
                let mut inside = self.enter()?;
                while self.name(&mut inside)?.is_some() {
                    self.skip()?;
                }
                Ok(())
            }
            b'[' => {
                let mut inside = self.enter()?;
                while self.has_next(&mut inside, b']')? {
                    self.skip()?;
                }
                Ok(())
            }
            // No other value takes memory.
            _ => self.value().map(drop),
        }
    }

    /// Where the object ends that is next, in a text that is known to be JSON.
    fn end_of_object(&self) -> Result<usize, Fault> {
        let bytes = self.text.as_bytes();
        let (mut at, mut depth) = (self.at, 0_usize);
        loop {
            match bytes.get(at).ok_or(Fault)? {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1).ok_or(Fault)?,
                b'"' => {
                    at = plain_until(bytes, at + 1);
                    while bytes.get(at) == Some(&b'\\') {
                        at = plain_until(bytes, at + 2);
                    }
                }
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Ok(at);
            }
        }
    }
}

/// The place of a reader in an object or a list.
pub(crate) struct Inside {
    is_first: bool,
}

/// Where the first byte at or after `at` is that ends a string or is not a part of one as it is.
fn plain_until(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // The lowest byte that is found is right; those above it may be taken by a borrow.
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let quote = is_zero(word ^ (ONES * u64::from(b'"')));
        let backslash = is_zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * u64::from(b' ')) & !word & HIGH;
        let found = quote | backslash | control;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | ..b' ');
    while bytes.get(at).is_some_and(is_plain) {
        at += 1;
    }
    at
}
