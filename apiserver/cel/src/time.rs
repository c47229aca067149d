//! Durations and points in time.

use std::cmp::Ordering;

use jiff::{Timestamp, civil, tz};

use super::error::{EvalError, failed};

pub(super) const DURATION_OVERFLOW: &str = "duration overflow";
pub(super) const TIMESTAMP_OVERFLOW: &str = "timestamp overflow";
const NANOS: i128 = 1_000_000_000;

/// The first and the last second that CEL knows: years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i128> = -62_135_596_800..=253_402_300_799;

/// A point in time with its zone.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// Since 1970.
    pub nanos: i128,
    /// Seconds east of UTC; only texts show it.
    offset: i32,
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Time {}

impl Time {
    /// Returns the time `nanos` nanoseconds after the Unix epoch, in UTC.
    pub fn utc(nanos: i128) -> Self {
        Self { nanos, offset: 0 }
    }

    /// The time that is `nanos` later.
    pub(super) fn plus(self, nanos: i128) -> Self {
        Self {
            nanos: self.nanos + nanos,
            ..self
        }
    }
}

pub(super) fn in_range(time: Time) -> Result<Time, EvalError> {
    if SECONDS.contains(&time.nanos.div_euclid(NANOS)) {
        Ok(time)
    } else {
        failed(TIMESTAMP_OVERFLOW)
    }
}

/// A duration in Go's notation, such as `1h2.5m`, in nanoseconds.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    if unsigned == "0" {
        return Some(0);
    }
    let mut rest = unsigned;
    let mut total: u128 = 0;
    while !rest.is_empty() || unsigned.is_empty() {
        let number = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (whole, fraction) = rest[..number]
            .split_once('.')
            .unwrap_or((&rest[..number], ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        rest = &rest[number..];
        let length = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit: u128 = match &rest[..length] {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        rest = &rest[length..];
        let whole: u128 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        let digits = &fraction[..fraction.len().min(18)];
        if !digits.is_empty() {
            let power = 10_u128.pow(u32::try_from(digits.len()).ok()?);
            total = total.checked_add(digits.parse::<u128>().ok()? * unit / power)?;
        }
    }
    let total = i128::try_from(total).ok()?;
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A duration in seconds, as CEL writes it.
pub(super) fn show_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    let fraction = format!("{:09}", size % 1_000_000_000);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}s", size / 1_000_000_000)
}

/// A time in RFC 3339.
pub(super) fn parse_timestamp(text: &str) -> Option<Time> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() >= 20 && bytes[10] == b'T' && bytes[4] == b'-' && bytes[13] == b':';
    let zoned = text.ends_with('Z')
        || bytes
            .get(bytes.len().wrapping_sub(6))
            .is_some_and(|c| matches!(c, b'+' | b'-'));
    if !shaped || !zoned || bytes.contains(&b'[') {
        return None;
    }
    let nanos = text.parse::<Timestamp>().ok()?.as_nanosecond();
    let zone = text
        .strip_suffix('Z')
        .is_none()
        .then(|| &text[text.len() - 6..]);
    let offset = zone.map_or(Some(0), |zone| {
        let hours: i32 = zone[1..3].parse().ok()?;
        let minutes: i32 = zone[4..].parse().ok()?;
        let size = hours * 3600 + minutes * 60;
        Some(if zone.starts_with('-') { -size } else { size })
    })?;
    Some(Time { nanos, offset })
}

/// The start of a day.
pub(super) fn parse_date(text: &str) -> Option<Time> {
    let shaped = text.len() == 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
    let date: civil::Date = shaped.then(|| text.parse().ok()).flatten()?;
    let start = date.to_zoned(tz::TimeZone::UTC).ok()?;
    Some(Time::utc(start.timestamp().as_nanosecond()))
}

/// A point in time in RFC 3339, as CEL writes it.
pub(super) fn show_timestamp(time: Time) -> String {
    let Ok(instant) = Timestamp::from_nanosecond(time.nanos) else {
        return time.nanos.to_string();
    };
    match tz::Offset::from_seconds(time.offset) {
        Ok(offset) if time.offset != 0 => instant.display_with_offset(offset).to_string(),
        _ => instant.to_string(),
    }
}
