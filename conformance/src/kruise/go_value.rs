//! Values as Go prints them in faults, and numbers that may be shares.

use std::num::{IntErrorKind, ParseIntError};

use serde_json::Value;

/// An `IntOrString` with `%#v`.
pub(super) fn int_or_string(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => {
            format!("intstr.IntOrString{{Type:1, IntVal:0, StrVal:{text:?}}}")
        }
        number => format!("intstr.IntOrString{{Type:0, IntVal:{number}, StrVal:\"\"}}"),
    }
}

/// A list of them.
pub(super) fn ints_or_strings(list: &Value) -> String {
    let items = list.as_array().into_iter().flatten().map(int_or_string);
    let items: Vec<String> = items.collect();
    format!("[]intstr.IntOrString{{{}}}", items.join(", "))
}

/// A list of strings.
pub(super) fn strings(list: &[&str]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[]string{{{}}}", items.join(", "))
}

/// The number, or the share of `total` rounded up.
///
/// # Errors
/// Upstream's text for what is neither.
pub(super) fn scaled(value: &Value, total: i64) -> Result<i64, String> {
    let Some(text) = value.as_str() else {
        return value
            .as_i64()
            .ok_or_else(|| "nil value for IntOrString".to_owned());
    };
    let Some(percent) = text.strip_suffix('%') else {
        return Err("invalid type: string is not a percentage".to_owned());
    };
    let percent: i64 = percent.parse().map_err(|_| {
        format!("invalid value {text:?}: strconv.Atoi: parsing {percent:?}: invalid syntax")
    })?;
    Ok((percent * total).div_euclid(100) + i64::from((percent * total).rem_euclid(100) > 0))
}

/// A fault of a number as Go's strconv words it.
pub(super) fn parse_int_error(text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.ParseInt: parsing {text:?}: {why}")
}
