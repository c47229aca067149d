//! Times of objects beyond those that can be decoded here.
//!
//! An API server keeps every time that Go reads: years before the first, and the last hours of the
//! year 9999. An object with such a time must not keep a controller from reading all the others.

use jiff::Timestamp;
use serde_json::Value;

/// The parts of an object whose texts are the user's, and never times.
const TEXTS: &[&str] = &["annotations", "data", "labels"];

/// The text of an object with its extreme times replaced by the nearest that can be decoded; None if it has no such times.
pub(super) fn without_extremes(text: &str) -> Option<String> {
    let mut object: Value = serde_json::from_str(text).ok()?;
    match clamp(&mut object) {
        0 => None,
        _ => Some(object.to_string()),
    }
}

/// Replaces extreme times, and returns their number.
fn clamp(value: &mut Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| !TEXTS.contains(&name.as_str()))
            .map(|(_, field)| clamp(field))
            .sum(),
        Value::Array(items) => items.iter_mut().map(clamp).sum(),
        Value::String(text) => match nearest(text) {
            Some(time) => {
                *text = time.to_string();
                1
            }
            None => 0,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The time nearest to one that cannot be decoded; None for other texts.
fn nearest(text: &str) -> Option<Timestamp> {
    let time = text.strip_suffix('Z')?;
    let (sign, time) = match time.strip_prefix('-') {
        Some(time) => (Timestamp::MIN, time),
        None => (Timestamp::MAX, time),
    };
    let (year, rest) = time.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let mut parts = rest.split(['-', 'T', ':', '.']);
    let is_time = is_number(year) && parts.clone().count() >= 5 && parts.all(is_number);
    (is_time && text.parse::<Timestamp>().is_err()).then_some(sign)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use serde_json::json;

    use super::super::from_text;
    use super::*;

    #[test]
    fn objects_with_extreme_times_are_read_with_the_nearest() {
        for (time, nearest) in [
            ("9999-12-31T23:59:59.000000Z", Timestamp::MAX),
            ("10000-01-01T00:59:59.000000Z", Timestamp::MAX),
            ("-0001-12-31T23:00:00.000000Z", Timestamp::MIN),
        ] {
            let lease = json!({
                "metadata": { "name": "l", "annotations": { "a": time } },
                "spec": { "renewTime": time, "holderIdentity": "h" },
            });
            let text = lease.to_string();
            assert!(serde_json::from_str::<Lease>(&text).is_err());
            let read: Lease = from_text(&text).unwrap();
            assert_eq!(read.metadata.annotations.unwrap()["a"], time);
            let spec = read.spec.unwrap();
            assert_eq!(spec.renew_time.unwrap().0, nearest);
        }
        for sound in ["2026-01-01T00:00:00.000000Z", "soon", "1-2-3Z"] {
            let lease = json!({ "spec": { "renewTime": sound, "leaseDurationSeconds": "x" } });
            assert!(without_extremes(&lease.to_string()).is_none());
        }
    }
}
