//! Encoding of scalars, so that they are read back unchanged.

use super::Place;
use crate::json::Number;
use crate::yaml::decode::reads_as_text;

/// A way of writing a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// Line by line, after a bar.
    Literal,
}

/// Returns the style of a text, as Go's encoder requests it and libyaml then allows it.
pub(super) fn style(text: &str, place: Place) -> Style {
    if text.contains('\n') {
        let is_allowed = !needs_escapes(text) && !text.ends_with(' ') && place == Place::Value;
        return match is_allowed {
            true => Style::Literal,
            false => Style::DoubleQuoted,
        };
    }
    if !reads_as_text(text) || needs_escapes(text) {
        Style::DoubleQuoted
    } else if text.starts_with(' ') || text.ends_with(' ') || has_indicators(text) {
        Style::SingleQuoted
    } else {
        Style::Plain
    }
}

/// Whether something in a text is only written escaped, or would be lost before a line break.
fn needs_escapes(text: &str) -> bool {
    let is_plain = |letter: char| matches!(letter, '\n' | '"' | '\\') || escape(letter).is_none();
    !text.chars().all(is_plain) || text.contains(" \n")
}

/// Whether a text, written plainly, would have something in it that YAML takes for its own.
fn has_indicators(text: &str) -> bool {
    let indicator = "#,[]{}&*!|>'\"%@`";
    let is_lone = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    text.starts_with("---")
        || text.starts_with("...")
        || text.starts_with(|first| indicator.contains(first))
        || text.strip_prefix(['-', '?']).is_some_and(is_lone)
        || text.contains(" #")
        || text.contains(": ")
        || text.ends_with(':')
}

/// Returns the escape of a letter inside of double quotes; `None` if it needs no escape.
pub(super) fn escape(letter: char) -> Option<String> {
    let code = u32::from(letter);
    Some(match letter {
        '\0' => "\\0".to_owned(),
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\t' => "\\t".to_owned(),
        '\n' => "\\n".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\r' => "\\r".to_owned(),
        '\u{1b}' => "\\e".to_owned(),
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\u{85}' => "\\N".to_owned(),
        '\u{2028}' => "\\L".to_owned(),
        '\u{2029}' => "\\P".to_owned(),
        ' '..='~' | '\u{a0}'..='\u{d7ff}' => return None,
        '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' => return None,
        _ if code <= 0xff => format!("\\x{code:02X}"),
        _ if code <= 0xffff => format!("\\u{code:04X}"),
        _ => format!("\\U{code:08X}"),
    })
}

/// A number as Go writes it: the shortest that reads back the same, with an exponent if it is far
/// from 1.
pub(super) fn number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let magnitude = float.abs();
    if magnitude == 0.0 || (1e-4..1e21).contains(&magnitude) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text
        .split_once('e')
        .expect("it is written with an exponent");
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}
