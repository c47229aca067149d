//! Values as Go prints them in faults, and numbers that may be shares.

use std::num::{IntErrorKind, ParseIntError};

use kubeproof_machinery::int_or_percent::{IntOrPercent, IntOrPercentError, Round};
use kubeproof_machinery::json::Value;

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

/// Returns the number, or the share of `total` rounded up.
///
/// # Errors
/// The value is neither.
pub(super) fn scaled(value: &Value, total: i64) -> Result<i64, IntOrPercentError> {
    IntOrPercent::from_value(value).map(|value| value.scaled(total, Round::Up))
}

/// A fault of a number as Go's strconv words it.
pub(super) fn parse_int_error(text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.ParseInt: parsing {text:?}: {why}")
}
