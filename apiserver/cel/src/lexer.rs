//! An expression's tokens.

use super::source::{Issues, Source};

/// Words that the grammar uses.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Words that the grammar does not use, and that yet cannot name variables.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether CEL keeps `word` for itself, so that no variable and no unescaped property has this name.
pub fn is_reserved(word: &str) -> bool {
    KEYWORDS.contains(&word) || RESERVED.contains(&word)
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An operator, a bracket or one of the words `in`, `true`, `false`, `null`.
    Symbol(&'static str),
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Ident,
    /// An identifier between backticks.
    EscapedIdent,
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

/// Returns the tokens of `source`, ending with an end token; other characters are reported as
/// issues and skipped.
pub(super) fn tokens(source: &Source, issues: &mut Issues) -> Vec<Token> {
    let chars = source.chars();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if matches!(chars[at], ' ' | '\t' | '\r' | '\n' | '\u{c}') {
            at += 1;
        } else if chars[at..].starts_with(&['/', '/']) {
            at += chars[at..].iter().take_while(|c| **c != '\n').count();
        } else {
            match token(&chars[at..]) {
                Ok((kind, length)) => {
                    tokens.push(Token {
                        kind,
                        start: at,
                        end: at + length,
                    });
                    at += length;
                }
                Err(length) => {
                    let text: String = source
                        .text(at, at + length)
                        .replace('\n', "\\n")
                        .replace('\r', "\\r")
                        .replace('\t', "\\t");
                    let message = format!("Syntax error: token recognition error at: '{text}'");
                    issues.report(at, message);
                    at += length;
                }
            }
        }
    }
    tokens.push(Token {
        kind: TokenKind::End,
        start: chars.len(),
        end: chars.len(),
    });
    tokens
}

/// The longest token at the start of `chars`, or how many characters could not become one.
fn token(chars: &[char]) -> Result<(TokenKind, usize), usize> {
    let first = chars[0];
    if let Some(found) = text(chars) {
        return found;
    }
    if first.is_ascii_digit() || first == '.' && chars.get(1).is_some_and(char::is_ascii_digit) {
        return Ok(number(chars));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = count(chars, |c| c.is_ascii_alphanumeric() || c == '_');
        let word: String = chars[..length].iter().collect();
        let keyword = ["in", "true", "false", "null"]
            .into_iter()
            .find(|k| *k == word);
        return Ok((keyword.map_or(TokenKind::Ident, TokenKind::Symbol), length));
    }
    if first == '`' {
        let length = count(&chars[1..], |c| {
            c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ')
        });
        let closed = length > 0 && chars.get(length + 1) == Some(&'`');
        let end = (length + 2).min(chars.len());
        return if closed {
            Ok((TokenKind::EscapedIdent, end))
        } else {
            Err(end)
        };
    }
    let symbol = SYMBOLS
        .into_iter()
        .find(|symbol| symbol.chars().eq(chars.iter().copied().take(symbol.len())));
    match symbol {
        Some(symbol) => Ok((TokenKind::Symbol(symbol), symbol.len())),
        // The start of an operator of two characters takes the next character with it.
        None if matches!(first, '=' | '&' | '|') => Err(2.min(chars.len())),
        None => Err(1),
    }
}

fn count(chars: &[char], is: impl Fn(char) -> bool) -> usize {
    chars.iter().take_while(|c| is(**c)).count()
}

fn number(chars: &[char]) -> (TokenKind, usize) {
    if chars[0] == '0' && chars.get(1) == Some(&'x') {
        let digits = count(&chars[2..], |c| c.is_ascii_hexdigit());
        if digits > 0 {
            return integer(chars, 2 + digits);
        }
    }
    let whole = count(chars, |c| c.is_ascii_digit());
    let mut length = whole;
    if chars.get(length) == Some(&'.') {
        let fraction = count(&chars[length + 1..], |c| c.is_ascii_digit());
        length += if fraction > 0 { fraction + 1 } else { 0 };
    }
    if matches!(chars.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(length + 1), Some('+' | '-')));
        let digits = count(chars.get(length + 1 + sign..).unwrap_or(&[]), |c| {
            c.is_ascii_digit()
        });
        length += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    if length > whole {
        (TokenKind::Double, length)
    } else {
        integer(chars, length)
    }
}

fn integer(chars: &[char], length: usize) -> (TokenKind, usize) {
    match chars.get(length) {
        Some('u' | 'U') => (TokenKind::Uint, length + 1),
        _ => (TokenKind::Int, length),
    }
}

/// Returns the kind and length of a string or bytes literal at the start of `chars`; the error is
/// the length up to the fault.
fn text(chars: &[char]) -> Option<Result<(TokenKind, usize), usize>> {
    let prefix = count(&chars[..2.min(chars.len())], |c| {
        matches!(c, 'r' | 'R' | 'b' | 'B')
    });
    let quote = *chars.get(prefix)?;
    let letters: String = chars[..prefix]
        .iter()
        .collect::<String>()
        .to_ascii_lowercase();
    if !matches!(quote, '"' | '\'') || !matches!(letters.as_str(), "" | "r" | "b" | "br") {
        return None;
    }
    let kind = if letters.starts_with('b') {
        TokenKind::Bytes
    } else {
        TokenKind::String
    };
    let raw = letters.ends_with('r');
    let long = chars[prefix..].starts_with(&[quote; 3]);
    let mut at = prefix + if long { 3 } else { 1 };
    loop {
        let Some(&c) = chars.get(at) else {
            // An unfinished long string may still be an empty short one and something after it.
            return Some(if long {
                Ok((kind, prefix + 2))
            } else {
                Err(at)
            });
        };
        let closes = if long {
            chars[at..].starts_with(&[quote; 3])
        } else {
            c == quote
        };
        if closes {
            return Some(Ok((kind, at + if long { 3 } else { 1 })));
        }
        match c {
            '\n' | '\r' if !long => return Some(Err(at + 1)),
            '\\' if !raw => match escape_length(&chars[at..]) {
                Ok(length) => at += length,
                Err(length) => return Some(Err((at + length).min(chars.len()))),
            },
            _ => at += 1,
        }
    }
}

/// The length of an escape sequence, or after how many characters it can't be one.
fn escape_length(chars: &[char]) -> Result<usize, usize> {
    let digits = |from: usize, wanted: usize, is: fn(&char) -> bool| {
        let found = chars[from..]
            .iter()
            .take(wanted)
            .take_while(|c| is(c))
            .count();
        if found == wanted {
            Ok(from + wanted)
        } else {
            Err(from + found + 1)
        }
    };
    match chars.get(1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(2),
        Some('x' | 'X') => digits(2, 2, char::is_ascii_hexdigit),
        Some('u') => digits(2, 4, char::is_ascii_hexdigit),
        Some('U') => digits(2, 8, char::is_ascii_hexdigit),
        Some('0'..='3') => digits(2, 2, |c| ('0'..='7').contains(c)),
        _ => Err(2),
    }
}

/// Returns the text of a string or bytes literal; `None` for an escape that is not a character.
pub(super) fn unquote(literal: &str) -> Option<Vec<u8>> {
    let body = literal.trim_start_matches(['b', 'B', 'r', 'R']);
    let prefix = literal[..literal.len() - body.len()].to_ascii_lowercase();
    let quotes = if body.len() >= 6 && (body.starts_with("\"\"\"") || body.starts_with("'''")) {
        3
    } else {
        1
    };
    let body = &body[quotes..body.len() - quotes];
    // As cel-go, which takes Windows line ends for plain ones.
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    if prefix.contains('r') {
        return Some(body.into_bytes());
    }
    let bytes = prefix.contains('b');
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.as_str();
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let (length, code) = escape(&rest[at..])?;
        match code {
            Escape::Byte(byte) if bytes => out.push(byte),
            Escape::Byte(byte) => push_char(u32::from(byte), &mut out)?,
            Escape::Char(_) if bytes => return None,
            Escape::Char(code) => push_char(code, &mut out)?,
        }
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

enum Escape {
    Byte(u8),
    Char(u32),
}

fn push_char(code: u32, out: &mut Vec<u8>) -> Option<()> {
    let letter = char::from_u32(code)?;
    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

fn escape(text: &str) -> Option<(usize, Escape)> {
    let number =
        |from: usize, to: usize, radix: u32| u32::from_str_radix(text.get(from..to)?, radix).ok();
    let byte = |byte: u8| Some((2, Escape::Byte(byte)));
    match text.as_bytes().get(1)? {
        b'a' => byte(7),
        b'b' => byte(8),
        b'f' => byte(12),
        b'n' => byte(b'\n'),
        b'r' => byte(b'\r'),
        b't' => byte(b'\t'),
        b'v' => byte(11),
        mark @ (b'\\' | b'\'' | b'"' | b'`' | b'?') => byte(*mark),
        b'x' | b'X' => Some((4, Escape::Byte(u8::try_from(number(2, 4, 16)?).ok()?))),
        b'0'..=b'3' => Some((4, Escape::Byte(u8::try_from(number(1, 4, 8)?).ok()?))),
        b'u' => Some((6, Escape::Char(number(2, 6, 16)?))),
        b'U' => Some((10, Escape::Char(number(2, 10, 16)?))),
        _ => None,
    }
}
