//! Brackets, lists and statements of Go source.

use crate::import::go::{Kind, Token};

/// The tokens from an opening bracket to its closing one.
pub(super) fn group(tokens: &[Token]) -> Option<&[Token]> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('(' | '{' | '[') => depth += 1,
            Kind::Sign(')' | '}' | ']') => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            let is_bracket = tokens[0].is('(') || tokens[0].is('{') || tokens[0].is('[');
            return is_bracket.then(|| &tokens[..=at]);
        }
    }
    None
}

/// The tokens that the first braces enclose.
pub(super) fn braces(tokens: &[Token]) -> Option<&[Token]> {
    let open = tokens.iter().position(|token| token.is('{'))?;
    group(&tokens[open..]).map(inside)
}

/// A group without its brackets.
pub(super) fn inside(group: &[Token]) -> &[Token] {
    group
        .get(1..group.len().saturating_sub(1))
        .unwrap_or_default()
}

/// The parts between commas; ends at a bracket that closes what is around them.
pub(super) fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('(' | '{' | '[') => depth += 1,
            Kind::Sign(')' | '}' | ']') if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = tokens.len();
                break;
            }
            Kind::Sign(')' | '}' | ']') => depth -= 1,
            Kind::Sign(',') if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < tokens.len() {
        parts.push(&tokens[start..]);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the tokens to the end of the statement: to the end of its line, or beyond it while brackets are open.
pub(super) fn statement(tokens: &[Token]) -> Option<&[Token]> {
    let (mut depth, mut line) = (0_usize, tokens.first()?.line);
    for (at, token) in tokens.iter().enumerate() {
        let closes = matches!(token.kind, Kind::Sign(')' | '}' | ']'));
        if depth == 0 && (closes || token.line > line) {
            return Some(&tokens[..at]);
        }
        line = token.line;
        match token.kind {
            Kind::Sign('(' | '{' | '[') => depth += 1,
            _ if closes => depth -= 1,
            _ => {}
        }
    }
    Some(tokens)
}
