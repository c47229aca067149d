//! Functions of durations and points in time.

use jiff::{Timestamp, tz};

use crate::{
    error::{EvalError, failed},
    time::{DURATION_OVERFLOW, TIMESTAMP_OVERFLOW, Time, in_range},
    value::{Evaluated, Value},
};

/// Sums and differences with points in time and durations; `None` if these two have none.
pub(super) fn arithmetic(function: &str, a: &Value, b: &Value) -> Option<Evaluated> {
    let duration = |nanos: Option<i64>| match nanos {
        Some(nanos) => Ok(Value::Duration(nanos)),
        None => failed(DURATION_OVERFLOW),
    };
    let timestamp = |time: Time| in_range(time).map(Value::Timestamp);
    Some(match (function, a, b) {
        ("_+_", Value::Duration(a), Value::Duration(b)) => duration(a.checked_add(*b)),
        ("_-_", Value::Duration(a), Value::Duration(b)) => duration(a.checked_sub(*b)),
        ("_+_", Value::Timestamp(time), Value::Duration(by))
        | ("_+_", Value::Duration(by), Value::Timestamp(time)) => {
            timestamp(time.plus((*by).into()))
        }
        ("_-_", Value::Timestamp(time), Value::Duration(by)) => {
            timestamp(time.plus(-i128::from(*by)))
        }
        ("_-_", Value::Timestamp(a), Value::Timestamp(b)) => {
            duration(i64::try_from(a.nanos - b.nanos).ok())
        }
        _ => return None,
    })
}

/// Evaluates `getFullYear` and similar functions; `None` for any other function or other types.
pub(super) fn part(function: &str, args: &[Value]) -> Option<Evaluated> {
    match args {
        [Value::Duration(nanos)] => {
            let unit = match function {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return None,
            };
            Some(Ok(Value::Int(nanos / unit)))
        }
        [Value::Timestamp(time)] => timestamp_part(function, *time, &tz::TimeZone::UTC),
        [Value::Timestamp(time), Value::String(zone)] => match time_zone(zone) {
            Ok(zone) => timestamp_part(function, *time, &zone),
            Err(error) => Some(Err(error)),
        },
        _ => None,
    }
}

/// An offset such as `-07:30`, or the name of a zone.
fn time_zone(name: &str) -> Result<tz::TimeZone, EvalError> {
    if let Some((hours, minutes)) = name.split_once(':') {
        let number = |text: &str| match text.parse::<i64>() {
            Ok(number) => Ok(number),
            Err(_) => failed(format!("strconv.Atoi: parsing {text:?}: invalid syntax")),
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let minutes = if name.starts_with('-') {
            -minutes
        } else {
            minutes
        };
        let seconds = hours
            .saturating_mul(3600)
            .saturating_add(minutes.saturating_mul(60));
        let offset = i32::try_from(seconds)
            .ok()
            .and_then(|s| tz::Offset::from_seconds(s).ok());
        return offset
            .map(tz::TimeZone::fixed)
            .ok_or_else(|| EvalError::Failed(format!("unknown time zone {name}")));
    }
    match name {
        "" | "UTC" | "Local" => Ok(tz::TimeZone::UTC),
        _ => tz::TimeZone::get(name)
            .map_err(|_| EvalError::Failed(format!("unknown time zone {name}"))),
    }
}

fn timestamp_part(function: &str, time: Time, zone: &tz::TimeZone) -> Option<Evaluated> {
    let Ok(time) = Timestamp::from_nanosecond(time.nanos) else {
        return Some(failed(TIMESTAMP_OVERFLOW));
    };
    let time = zone.to_datetime(time);
    let number = match function {
        "getFullYear" => i64::from(time.year()),
        "getMonth" => i64::from(time.month()) - 1,
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDate" => i64::from(time.day()),
        "getDayOfWeek" => i64::from(time.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(time.hour()),
        "getMinutes" => i64::from(time.minute()),
        "getSeconds" => i64::from(time.second()),
        "getMilliseconds" => i64::from(time.millisecond()),
        _ => return None,
    };
    Some(Ok(Value::Int(number)))
}
