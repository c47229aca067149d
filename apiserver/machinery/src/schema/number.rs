//! Numbers as Go writes them.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::json::html_escape;

/// A float in JSON: without an exponent unless it is very large or very small.
pub(crate) fn json_float(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{float}");
    }
    with_sign(&format!("{float:e}"))
}

/// A float as `%v` prints it: with an exponent from a million on.
pub fn printed_float(float: f64) -> String {
    let text = format!("{float:e}");
    let exponent = text
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok());
    let exponent: i32 = exponent.unwrap_or(0);
    if float == 0.0 || (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let text = with_sign(&text);
    // The exponent has two digits at least.
    match text.rsplit_once(['+', '-']) {
        Some((head, exponent)) if exponent.len() == 1 => {
            let sign = &text[head.len()..=head.len()];
            format!("{head}{sign}0{exponent}")
        }
        _ => text,
    }
}

fn with_sign(text: &str) -> String {
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text.to_owned(),
    }
}

/// The first number in a JSON document that no float can hold.
#[must_use]
pub fn overflowing(json: &[u8]) -> Option<&str> {
    let mut rest = std::str::from_utf8(json).ok()?;
    while let Some(start) =
        rest.find(|letter: char| letter == '"' || letter == '-' || letter.is_ascii_digit())
    {
        rest = &rest[start..];
        if let Some(text) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|letter: char| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            })?;
            rest = &text[end + 1..];
            continue;
        }
        let end = rest.find(|letter: char| {
            !(letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.' | 'e' | 'E'))
        });
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        if number.parse::<f64>().is_ok_and(f64::is_infinite) {
            return Some(number);
        }
        rest = after;
    }
    None
}

/// Writes a value as compact JSON with Go's floats and escapes.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let mut serializer = Serializer::with_formatter(out, GoFormatter(CompactFormatter));
    value
        .serialize(&mut serializer)
        .expect("a JSON value with string keys can be written");
}

struct GoFormatter(CompactFormatter);

impl Formatter for GoFormatter {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(json_float(value).as_bytes())
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        writer.write_all(html_escape(fragment).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use crate::json::{Value, json};

    use super::*;

    #[test]
    fn floats_look_as_they_do_in_go() {
        let json = [
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (-2.5e-9, "-2.5e-9"),
            (18_446_744_073_709_551_616.0, "18446744073709552000"),
        ];
        for (float, text) in json {
            assert_eq!(json_float(float), text);
        }
        assert_eq!(
            overflowing(br#"{"1e999":"2e999","a":[1,-1E400]}"#),
            Some("-1E400")
        );
        assert_eq!(overflowing(b"[1e308]"), None);
        let mut out = Vec::new();
        write_json(&mut out, &json!({ "a": [1e21, 1, "x"] }));
        assert_eq!(out, br#"{"a":[1e+21,1,"x"]}"#);
        let printed = [
            (2.5, "2.5"),
            (1e6, "1e+06"),
            (0.00001, "1e-05"),
            (123_456_789.0, "1.23456789e+08"),
        ];
        for (float, text) in printed {
            assert_eq!(printed_float(float), text);
        }
    }

    #[test]
    fn floats_are_read_as_what_is_nearest_to_them() {
        for text in [
            "1.5555555555555558e+41",
            "1.5555555555555556e+41",
            "9007199254740993.5",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(value.as_f64(), text.parse().ok(), "{text}");
        }
    }
}
