//! Syntax errors of text that is not JSON, in the words of Go's scanner.

use std::borrow::Cow;

use bytes::Bytes;

use crate::nesting::{DEPTH_MAX, TOO_DEEP};

/// Where the scanner is inside of a value.
#[derive(Clone, Copy)]
enum Within {
    Array,
    Object,
}

/// The input that may come next.
#[derive(Clone, Copy)]
enum Next {
    Value,
    /// A value or the end of the array.
    FirstItem,
    Key,
    /// A key or the end of the object.
    FirstKey,
    Colon,
    /// A separator, or the end of the innermost array or object.
    AfterValue,
}

/// The fault at a byte, or the end of the text came too early.
enum Fault {
    Byte(usize, String),
    End,
}

/// The syntax error of a JSON text, `None` if it has none.
#[must_use]
pub fn syntax_error(json: &[u8]) -> Option<String> {
    let mut scanner = Scanner { json, at: 0 };
    match scanner.document().err()? {
        Fault::End => Some("unexpected end of JSON input".to_owned()),
        Fault::Byte(at, context) => {
            Some(format!("invalid character {} {context}", quote(json[at])))
        }
    }
}

/// Returns JSON text with the replacement character for input that Go reads as one: bytes that are
/// not UTF-8, and escaped halves of a surrogate pair.
#[must_use]
pub fn readable(json: &Bytes) -> Bytes {
    if json.is_ascii() && !json.contains(&b'\\') {
        return json.clone();
    }
    let json = match String::from_utf8_lossy(json) {
        Cow::Owned(text) if syntax_error(json).is_none() => text.into(),
        // Text with a syntax error is shown unchanged.
        Cow::Borrowed(_) | Cow::Owned(_) => json.clone(),
    };
    let mut broken = lone_surrogates(&json);
    let Some(first) = broken.next() else {
        drop(broken);
        return json;
    };
    let mut readable = json.to_vec();
    for at in std::iter::once(first).chain(broken) {
        readable[at..at + 4].copy_from_slice(b"fffd");
    }
    readable.into()
}

/// Where the digits of escaped surrogates are that have no other half.
fn lone_surrogates(json: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += json.get(at..)?.iter().position(|byte| *byte == b'\\')?;
            let unit = escaped_unit(json, at);
            let digits = at + 2;
            at += 2;
            match unit {
                Some(0xd800..0xdc00)
                    if matches!(escaped_unit(json, digits + 4), Some(0xdc00..0xe000)) =>
                {
                    at = digits + 10;
                }
                Some(0xd800..0xe000) => return Some(digits),
                _ => {}
            }
        }
    })
}

/// Returns the UTF-16 unit of an escape at this place.
fn escaped_unit(json: &[u8], at: usize) -> Option<u16> {
    let escape = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
}

struct Scanner<'j> {
    json: &'j [u8],
    at: usize,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        let mut stack = Vec::new();
        let mut next = Next::Value;
        loop {
            self.skip_space();
            let Some(byte) = self.peek() else {
                let done = stack.is_empty() && matches!(next, Next::AfterValue);
                return if done { Ok(()) } else { Err(Fault::End) };
            };
            next = match (next, byte) {
                (Next::Value | Next::FirstItem, b'{') => {
                    self.push(&mut stack, Within::Object)?;
                    self.step(Next::FirstKey)
                }
                (Next::Value | Next::FirstItem, b'[') => {
                    self.push(&mut stack, Within::Array)?;
                    self.step(Next::FirstItem)
                }
                (Next::FirstItem, b']') | (Next::FirstKey, b'}') => {
                    stack.pop();
                    self.step(Next::AfterValue)
                }
                (Next::Value | Next::FirstItem, _) => {
                    self.scalar(byte)?;
                    Next::AfterValue
                }
                (Next::Key | Next::FirstKey, b'"') => {
                    self.string()?;
                    Next::Colon
                }
                (Next::Key | Next::FirstKey, _) => {
                    return self.fault("looking for beginning of object key string");
                }
                (Next::Colon, b':') => self.step(Next::Value),
                (Next::Colon, _) => return self.fault("after object key"),
                (Next::AfterValue, _) => match (stack.last(), byte) {
                    (Some(Within::Object), b',') => self.step(Next::Key),
                    (Some(Within::Array), b',') => self.step(Next::Value),
                    (Some(Within::Object), b'}') | (Some(Within::Array), b']') => {
                        stack.pop();
                        self.step(Next::AfterValue)
                    }
                    (Some(Within::Object), _) => {
                        return self.fault("after object key:value pair");
                    }
                    (Some(Within::Array), _) => return self.fault("after array element"),
                    (None, _) => return self.fault("after top-level value"),
                },
            };
        }
    }

    fn push(&self, stack: &mut Vec<Within>, within: Within) -> Result<(), Fault> {
        stack.push(within);
        match stack.len() > DEPTH_MAX {
            true => self.fault(TOO_DEEP),
            false => Ok(()),
        }
    }

    fn scalar(&mut self, byte: u8) -> Result<(), Fault> {
        match byte {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.fault("looking for beginning of value"),
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), Fault> {
        for expected in literal.bytes() {
            if self.peek() != Some(expected) {
                let expected = quote(expected);
                return self.fault(&format!("in literal {literal} (expecting {expected})"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(byte) if byte >= b' ' => self.at += 1,
                _ => return self.fault("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return self.fault("in \\u hexadecimal character escape");
                    }
                    self.at += 1;
                }
            }
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            _ => return self.fault("in string escape code"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digits(&mut self, context: &str) -> Result<(), Fault> {
        let rest = &self.json[self.at..];
        match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            0 => self.fault(context),
            count => {
                self.at += count;
                Ok(())
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn step(&mut self, next: Next) -> Next {
        self.at += 1;
        next
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// The byte here has no place in `context`.
    fn fault<T>(&self, context: &str) -> Result<T, Fault> {
        Err(match self.at < self.json.len() {
            true => Fault::Byte(self.at, context.to_owned()),
            false => Fault::End,
        })
    }
}

/// A byte as Go prints the character with its number.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b' '..=b'~' | 0xa1..=0xac | 0xae..=0xff => format!("'{}'", char::from(byte)),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        0x80.. => format!(r"'\u{byte:04x}'"),
        _ => format!(r"'\x{byte:02x}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_cannot_read_is_replaced() {
        for (json, want) in [
            (
                &br#"{"a":"\u00e9\ud83d\ude00"}"#[..],
                r#"{"a":"\u00e9\ud83d\ude00"}"#,
            ),
            (br#""\ud800\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (br#""\udc00x\\ud800""#, r#""\ufffdx\\ud800""#),
            (br#""\ud800""#, r#""\ufffd""#),
            (b"\"a\xffb\"", "\"a\u{fffd}b\""),
        ] {
            assert_eq!(readable(&Bytes::from_static(json)), want.as_bytes());
        }
    }

    #[test]
    fn a_syntax_error_is_worded_as_go_words_it() {
        let cases = [
            ("", "unexpected end of JSON input"),
            (r#"{"a":"#, "unexpected end of JSON input"),
            (r#"{"a":"b"#, "unexpected end of JSON input"),
            ("tru", "unexpected end of JSON input"),
            (
                "not json at all",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            (
                r#"{"a": tru}"#,
                "invalid character '}' in literal true (expecting 'e')",
            ),
            ("{} trailing", "invalid character 't' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            (
                "abc",
                "invalid character 'a' looking for beginning of value",
            ),
            (
                r#"{"a":1,}"#,
                "invalid character '}' looking for beginning of object key string",
            ),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (
                r#"{"a":1 "b"}"#,
                "invalid character '\"' after object key:value pair",
            ),
            ("\"a\nb\"", r"invalid character '\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (
                r#""\u00g0""#,
                r"invalid character 'g' in \u hexadecimal character escape",
            ),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                "1ex",
                "invalid character 'x' in exponent of numeric literal",
            ),
        ];
        for (json, want) in cases {
            assert_eq!(syntax_error(json.as_bytes()).as_deref(), Some(want));
        }
        for json in ["{}", " [1, -0.5e+3, \"\\u00e4\", {\"a\": null}] ", "true"] {
            assert_eq!(syntax_error(json.as_bytes()), None);
        }
    }
}
