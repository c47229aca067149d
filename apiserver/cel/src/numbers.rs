//! Arithmetic and conversions of numbers, with the errors of cel-go.

use super::{
    error::{EvalError, failed},
    time::{self, Time},
    value::{Evaluated, Value},
};

pub(super) const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";

/// The value of `a op b` for numbers, or `None` if these two have none.
pub(super) fn arithmetic(function: &str, a: &Value, b: &Value) -> Option<Evaluated> {
    let overflow = |message: &str| EvalError::Failed(message.to_owned());
    let result = match (a, b) {
        (Value::Int(a), Value::Int(b)) => integers(function, *a, *b)?.map(Value::Int),
        (Value::Uint(a), Value::Uint(b)) => {
            let done = match function {
                "_+_" => a.checked_add(*b),
                "_-_" => a.checked_sub(*b),
                "_*_" => a.checked_mul(*b),
                "_/_" if *b == 0 => return Some(failed("division by zero")),
                "_%_" if *b == 0 => return Some(failed("modulus by zero")),
                "_/_" => a.checked_div(*b),
                "_%_" => a.checked_rem(*b),
                _ => return None,
            };
            done.map(Value::Uint).ok_or_else(|| overflow(UINT_OVERFLOW))
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(match function {
            "_+_" => a + b,
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return None,
        })),
        _ => return None,
    };
    Some(result)
}

fn integers(function: &str, a: i64, b: i64) -> Option<Result<i64, EvalError>> {
    let done = match function {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return Some(failed("division by zero")),
        "_%_" if b == 0 => return Some(failed("modulus by zero")),
        "_/_" => a.checked_div(b),
        "_%_" => a.checked_rem(b),
        _ => return None,
    };
    Some(done.ok_or_else(|| EvalError::Failed(INT_OVERFLOW.to_owned())))
}

pub(super) fn negate(value: &Value) -> Option<Evaluated> {
    match value {
        Value::Int(number) => Some(match number.checked_neg() {
            Some(negated) => Ok(Value::Int(negated)),
            None => failed(INT_OVERFLOW),
        }),
        Value::Double(number) => Some(Ok(Value::Double(-number))),
        Value::Duration(nanos) => Some(match nanos.checked_neg() {
            Some(negated) => Ok(Value::Duration(negated)),
            None => failed(time::DURATION_OVERFLOW),
        }),
        _ => None,
    }
}

fn no_conversion(value: &Value, to: &str) -> Evaluated {
    failed(format!(
        "type conversion error from '{}' to '{to}'",
        value.type_name()
    ))
}

/// `int(value)`, or `None` if the type has no conversion.
pub(super) fn to_int(value: &Value) -> Option<Evaluated> {
    Some(match value {
        Value::Int(number) | Value::Duration(number) => Ok(Value::Int(*number)),
        Value::Uint(number) => match i64::try_from(*number) {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => failed(INT_OVERFLOW),
        },
        Value::Double(number) =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
            if number.abs() < 9.223_372_036_854_775e18 {
                Ok(Value::Int(*number as i64))
            } else {
                failed(INT_OVERFLOW)
            }
        }
        Value::String(text) => match text.parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => no_conversion(value, "int"),
        },
        Value::Timestamp(time) => Ok(Value::Int(
            i64::try_from(time.nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX),
        )),
        _ => return None,
    })
}

/// `uint(value)`.
pub(super) fn to_uint(value: &Value) -> Option<Evaluated> {
    Some(match value {
        Value::Uint(number) => Ok(Value::Uint(*number)),
        Value::Int(number) => match u64::try_from(*number) {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => failed(UINT_OVERFLOW),
        },
        Value::Double(number) =>
        {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range is checked"
            )]
            if *number >= 0.0 && *number < 1.844_674_407_370_955e19 {
                Ok(Value::Uint(*number as u64))
            } else {
                failed(UINT_OVERFLOW)
            }
        }
        Value::String(text) if !text.starts_with('+') => match text.parse() {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => no_conversion(value, "uint"),
        },
        Value::String(_) => no_conversion(value, "uint"),
        _ => return None,
    })
}

/// `double(value)`.
pub(super) fn to_double(value: &Value) -> Option<Evaluated> {
    #[expect(clippy::cast_precision_loss, reason = "what the conversion is")]
    Some(match value {
        Value::Double(number) => Ok(Value::Double(*number)),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() || text.to_ascii_lowercase().contains(['i', 'n']) => {
                Ok(Value::Double(number))
            }
            _ => no_conversion(value, "double"),
        },
        _ => return None,
    })
}

/// `bool(value)`.
pub(super) fn to_bool(value: &Value) -> Option<Evaluated> {
    Some(match value {
        Value::Bool(flag) => Ok(Value::Bool(*flag)),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => no_conversion(value, "bool"),
        },
        _ => return None,
    })
}

/// `string(value)`.
pub(super) fn to_string(value: &Value) -> Option<Evaluated> {
    Some(match value {
        Value::String(_) => Ok(value.clone()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::string(text)),
            Err(_) => failed("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Duration(_)
        | Value::Timestamp(_) => Ok(Value::string(&value.to_string())),
        Value::Object(object) if object.has_text() => Ok(Value::string(&object.to_string())),
        _ => return None,
    })
}

/// `bytes(value)`.
pub(super) fn to_bytes(value: &Value) -> Option<Evaluated> {
    match value {
        Value::Bytes(_) => Some(Ok(value.clone())),
        Value::String(text) => Some(Ok(Value::Bytes(text.as_bytes().into()))),
        _ => None,
    }
}

/// `duration(value)`.
pub(super) fn to_duration(value: &Value) -> Option<Evaluated> {
    Some(match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::Int(nanos) => Ok(Value::Duration(*nanos)),
        Value::String(text) => match time::parse_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => no_conversion(value, "google.protobuf.Duration"),
        },
        _ => return None,
    })
}

/// `timestamp(value)`.
pub(super) fn to_timestamp(value: &Value) -> Option<Evaluated> {
    Some(match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => {
            let time = Time::utc(i128::from(*seconds) * 1_000_000_000);
            time::in_range(time).map(Value::Timestamp)
        }
        Value::String(text) => match time::parse_timestamp(text) {
            Some(time) => time::in_range(time).map(Value::Timestamp),
            None => no_conversion(value, "google.protobuf.Timestamp"),
        },
        _ => return None,
    })
}
