//! What a scalar means by the rules of YAML 1.1.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

/// The value of a scalar with the suffix of its core tag, if it has one.
///
/// # Errors
/// The message of Go's decoder for bytes that are not base64, and for numbers JSON does not have.
pub(super) fn resolve(text: &str, tag: Option<&str>, is_plain: bool) -> Result<Value, String> {
    match tag {
        Some("str") => Ok(text.into()),
        Some("binary") => {
            let bytes = STANDARD.decode(text.trim());
            let bytes = bytes.map_err(|_| "yaml: !!binary value contains invalid base64 data")?;
            Ok(String::from_utf8_lossy(&bytes).into())
        }
        // A quoted scalar with a tag is what it would be without its quotes.
        Some(_) => plain(text),
        None if is_plain => plain(text),
        None => Ok(text.into()),
    }
}

fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(true.into());
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(false.into());
        }
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        _ => {}
    }
    let starts_as_number =
        text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    if !starts_as_number {
        return Ok(text.into());
    }
    let digits = text.replace('_', "");
    let number = integer(&digits).or_else(|| float(&digits));
    Ok(number.map_or_else(|| text.into(), Value::Number))
}

/// An integer in decimal, or in the base that its prefix says; a leading zero means octal.
fn integer(text: &str) -> Option<Number> {
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = rest.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match is_negative {
        false => Some(magnitude.into()),
        true => Some(0_i64.checked_sub_unsigned(magnitude)?.into()),
    }
}

/// A float in decimal; without a fraction it is an integer to JSON.
fn float(text: &str) -> Option<Number> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let has_form = text.len() - unsigned.len() <= 1
        && unsigned.contains(|letter: char| letter.is_ascii_digit())
        && unsigned
            .chars()
            .all(|letter| letter.is_ascii_digit() || ".eE+-".contains(letter));
    if !has_form {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let written = format!("{value}");
    match written.parse::<i64>() {
        Ok(integer) => Some(integer.into()),
        Err(_) => Number::from_f64(value),
    }
}
