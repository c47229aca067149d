//! `format()` of strings.

use std::fmt::Write;

use super::RESULT_SIZE_MAX;
use crate::cel::{
    eval::{EvalError, Evaluated, failed},
    numbers,
    value::Value,
};

/// How many digits follow the point unless a clause says so.
const PRECISION: usize = 6;

/// The text with each `%` clause replaced by one of `args`.
pub(super) fn format(text: &str, args: &[Value]) -> Evaluated {
    let mut out = String::new();
    let mut next = 0;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if out.len() > RESULT_SIZE_MAX {
            return Err(EvalError::CostLimit);
        }
        if letter != '%' {
            out.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut precision = None;
        if letters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let Some(number) = digits.parse().ok().filter(|number| *number <= 1000) else {
                return failed(
                    "error while parsing precision: unable to find end of precision specifier",
                );
            };
            precision = Some(number);
        }
        let Some(verb) = letters.next() else {
            return failed("unexpected end of string");
        };
        if !"sdfebxXo".contains(verb) {
            return failed(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            ));
        }
        let Some(arg) = args.get(next) else {
            return failed(format!("index {next} out of range"));
        };
        next += 1;
        clause(verb, precision.unwrap_or(PRECISION), arg, &mut out)?;
    }
    Ok(Value::string(&out))
}

fn clause(verb: char, precision: usize, arg: &Value, out: &mut String) -> Result<(), EvalError> {
    let refused = |rule: &str| {
        failed(format!(
            "error during formatting: {rule}, was given {}",
            arg.type_name()
        ))
    };
    match (verb, arg) {
        ('s', _) => out.push_str(&shown(arg)?),
        ('d', Value::Int(_) | Value::Uint(_)) => out.push_str(&arg.to_string()),
        ('d', _) => return refused("decimal clause can only be used on integers"),
        ('f', Value::Double(number)) => out.push_str(&fixed(*number, precision)),
        ('f', _) => return refused("fixed-point clause can only be used on doubles"),
        ('e', Value::Double(number)) => out.push_str(&scientific(*number, precision)),
        ('e', _) => return refused("scientific clause can only be used on doubles"),
        ('b', Value::Bool(flag)) => out.push(if *flag { '1' } else { '0' }),
        ('b', _) => match radix(arg, |n| format!("{n:b}")) {
            Some(digits) => out.push_str(&digits),
            None => return refused("only integers and bools can be formatted as binary"),
        },
        ('o', _) => match radix(arg, |n| format!("{n:o}")) {
            Some(digits) => out.push_str(&digits),
            None => return refused("octal clause can only be used on integers"),
        },
        (_, Value::String(text)) => hex_bytes(text.as_bytes(), verb, out),
        (_, Value::Bytes(bytes)) => hex_bytes(bytes, verb, out),
        _ => match radix(arg, |n| format!("{n:x}")) {
            Some(digits) if verb == 'X' => out.push_str(&digits.to_uppercase()),
            Some(digits) => out.push_str(&digits),
            None => {
                return refused("only integers, byte buffers, and strings can be formatted as hex");
            }
        },
    }
    Ok(())
}

fn radix(arg: &Value, digits: impl Fn(u64) -> String) -> Option<String> {
    match arg {
        Value::Int(number) => {
            let sign = if *number < 0 { "-" } else { "" };
            Some(format!("{sign}{}", digits(number.unsigned_abs())))
        }
        Value::Uint(number) => Some(digits(*number)),
        _ => None,
    }
}

fn hex_bytes(bytes: &[u8], verb: char, out: &mut String) {
    for byte in bytes {
        let written = if verb == 'X' {
            write!(out, "{byte:02X}")
        } else {
            write!(out, "{byte:02x}")
        };
        written.expect("writing to a String can't fail");
    }
}

/// A number with thousands set off, as the locale upstream uses writes it.
fn fixed(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "\u{221e}"
        } else {
            "-\u{221e}"
        }
        .to_owned();
    }
    let plain = format!("{number:.precision$}");
    let (sign, digits) = plain
        .strip_prefix('-')
        .map_or(("", &*plain), |rest| ("-", rest));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// A number times a power of ten, as the locale upstream uses writes it.
fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return fixed(number, precision);
    }
    let plain = format!("{number:.precision$e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { "\u{2212}" } else { "" };
    let superscript: String = exponent
        .unsigned_abs()
        .to_string()
        .chars()
        .map(|digit| SUPERSCRIPTS[digit.to_digit(10).unwrap_or_default() as usize])
        .collect();
    let padding = if exponent.abs() < 10 { "\u{2070}" } else { "" };
    let sign = if sign.is_empty() { "" } else { "\u{207b}" };
    format!("{digits}\u{d7}10{sign}{padding}{superscript}")
}

const SUPERSCRIPTS: [char; 10] = [
    '\u{2070}', '\u{b9}', '\u{b2}', '\u{b3}', '\u{2074}', '\u{2075}', '\u{2076}', '\u{2077}',
    '\u{2078}', '\u{2079}',
];

/// A value as `%s` writes it.
fn shown(value: &Value) -> Result<String, EvalError> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::Type(name) => Ok(name.to_string()),
        Value::List(list) => {
            let items: Result<Vec<String>, _> = list.items.iter().map(within).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.entries.iter() {
                entries.push(format!("{}:{}", within(&key.value())?, within(value)?));
            }
            entries.sort();
            Ok(format!("{{{}}}", entries.join(", ")))
        }
        _ => match numbers::to_string(value) {
            Some(Ok(Value::String(text))) => Ok(text.to_string()),
            Some(Err(error)) => Err(error),
            _ => failed(format!(
                "error during formatting: string clause can only be used on strings, bools, \
                 bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {}",
                value.type_name()
            )),
        },
    }
}

/// A value within a list or a map, as CEL spells it.
fn within(value: &Value) -> Result<String, EvalError> {
    Ok(match value {
        Value::String(text) => format!("{text:?}"),
        Value::Bytes(_) => format!("b{:?}", shown(value)?),
        Value::Double(number) => format!("{number:.PRECISION$}"),
        Value::Duration(_) => format!("duration({:?})", shown(value)?),
        Value::Timestamp(_) => format!("timestamp({:?})", shown(value)?),
        _ => shown(value)?,
    })
}
