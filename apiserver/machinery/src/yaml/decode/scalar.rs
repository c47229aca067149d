//! Types of scalars by the rules of YAML 1.1.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::json::{Number, Value};

/// Returns the value of a scalar; `tag` is the suffix of its core tag, if it has a tag.
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
        // A quoted scalar with a tag is read like a plain one.
        Some(_) => plain(text),
        None if is_plain => plain(text),
        None => Ok(text.into()),
    }
}

/// Whether a scalar is a date, or a date and a time, in a form that YAML 1.1 has for them.
pub(super) fn is_date(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some((&text[at..=at], &text[at + 1..]))),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let has_form = year.len() == 4 && [month, day].iter().all(|part| part.len() <= 2);
    let number = |text: &str| text.parse::<i16>().ok().filter(|_| is_digits(text));
    let small = |text: &str| number(text).and_then(|number| i8::try_from(number).ok());
    let (Some(year), Some(month), Some(day)) = (number(year), small(month), small(day)) else {
        return false;
    };
    let has_time = match time {
        None => true,
        Some((" ", time)) => is_time(time),
        Some((_, time)) => {
            let zone = time.find(['Z', '+', '-']).unwrap_or(time.len());
            is_time(&time[..zone]) && is_zone(&time[zone..])
        }
    };
    has_form && has_time && jiff::civil::Date::new(year, month, day).is_ok()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `15:4:5` with a fraction or without.
fn is_time(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = whole.split(':').collect();
    let within = |(part, end): (&&str, u8)| {
        part.len() <= 2 && is_digits(part) && part.parse::<u8>().is_ok_and(|value| value < end)
    };
    parts.len() == 3 && parts.iter().zip([24, 60, 60]).all(within) && is_digits(fraction)
}

fn is_zone(text: &str) -> bool {
    let offset = text
        .strip_prefix(['+', '-'])
        .and_then(|rest| rest.split_once(':'));
    let two = |part: &str| part.len() == 2 && is_digits(part);
    text == "Z" || offset.is_some_and(|(hours, minutes)| two(hours) && two(minutes))
}

/// Whether a scalar is a number to the base of 60, such as `10:30`, to some readers.
pub(super) fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let places: Vec<&str> = parts.collect();
    let counts = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let is_place = |place: &&str| {
        is_digits(place) && place.len() <= 2 && place.parse::<u8>().is_ok_and(|value| value < 60)
    };
    first.starts_with(|first: char| first.is_ascii_digit())
        && counts(first)
        && !places.is_empty()
        && places.iter().all(is_place)
        && counts(fraction)
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
