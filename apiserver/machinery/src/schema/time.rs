//! Times as Go reads them by a layout, and writes them in UTC.

use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp, ToSpan, civil};

/// How precise a time is, and so how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// RFC 3339; a fraction is read and dropped.
    Seconds,
    /// RFC 3339 with exactly six digits of a second.
    Micros,
}

/// Returns the time in UTC, `None` for Go's zero time, or the fault of the text.
pub(super) fn normalize(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let layout = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z07:00",
        Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
    };
    let time = parse(text, precision).map_err(|fault| match fault {
        Fault::Syntax { rest, element } => {
            let (text, rest) = (quoted(text), quoted(rest));
            format!("parsing time {text} as {layout:?}: cannot parse {rest} as {element:?}")
        }
        Fault::Range(element) => format!("parsing time {}: {element} out of range", quoted(text)),
        Fault::Extra(rest) => {
            format!(
                "parsing time {}: extra text: {}",
                quoted(text),
                quoted(rest)
            )
        }
    })?;
    if time.shown == civil::date(1, 1, 1).at(0, 0, 0, 0) {
        return Ok(None);
    }
    // Most are written as they should be: a fraction is longer than nothing, and a zone than `Z`.
    let length = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z".len(),
        Precision::Micros => "2006-01-02T15:04:05.000000Z".len(),
    };
    if text.len() == length && text.ends_with('Z') {
        return Ok(Some(text.to_owned()));
    }
    Ok(Some(time.to_text(precision)))
}

/// A text between quotes as Go's `time` writes it: bytes beyond ASCII's printable ones as numbers.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            byte => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the instant that an RFC 3339 text names, or the fault of the text. Instants beyond the
/// supported range become the latest supported instant.
pub fn instant(text: &str) -> Result<Timestamp, String> {
    normalize(text, Precision::Seconds)?;
    let known = parse(text, Precision::Seconds).ok();
    let known = known.filter(|time| time.cycles == 0);
    let known = known.and_then(|time| Offset::UTC.to_timestamp(time.shown).ok());
    Ok(known.unwrap_or(Timestamp::MAX))
}

enum Fault<'t> {
    /// The text from `rest` on is not the layout's `element`.
    Syntax {
        rest: &'t str,
        element: &'static str,
    },
    Range(&'static str),
    Extra(&'t str),
}

/// Reads one element of the layout after the other.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn fault(&self, element: &'static str) -> Fault<'t> {
        Fault::Syntax {
            rest: self.rest,
            element,
        }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), Fault<'t>> {
        let rest = self.rest.strip_prefix(literal);
        self.rest = rest.ok_or_else(|| self.fault(literal))?;
        Ok(())
    }

    fn digits(&mut self, count: usize, element: &'static str) -> Result<i32, Fault<'t>> {
        let digits = self.rest.get(..count);
        let digits = digits.filter(|text| text.bytes().all(|c| c.is_ascii_digit()));
        let number = digits.and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| self.fault(element))?;
        self.rest = &self.rest[count..];
        Ok(number)
    }

    /// Reads the nanoseconds of a fraction; 0 without a fraction.
    fn any_fraction(&mut self) -> i32 {
        let Some(text) = self.rest.strip_prefix(['.', ',']) else {
            return 0;
        };
        let end = text.bytes().take_while(u8::is_ascii_digit).count();
        if end == 0 {
            return 0;
        }
        self.rest = &text[end..];
        format!("{:0<9.9}", &text[..end]).parse().unwrap_or(0)
    }

    fn zone(&mut self) -> Result<i32, Fault<'t>> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let mut zone = Reader { rest: self.rest };
        let mut seconds = || {
            let sign = match zone.rest.chars().next()? {
                '+' => 1,
                '-' => -1,
                _ => return None,
            };
            zone.rest = &zone.rest[1..];
            let hours = zone.digits(2, ELEMENT).ok()?;
            zone.literal(":").ok()?;
            let minutes = zone.digits(2, ELEMENT).ok()?;
            Some((sign, hours, minutes))
        };
        let (sign, hours, minutes) = seconds().ok_or_else(|| self.fault(ELEMENT))?;
        if hours > 24 {
            return Err(Fault::Range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(Fault::Range("time zone offset minute"));
        }
        self.rest = zone.rest;
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn parse(text: &str, precision: Precision) -> Result<Utc, Fault<'_>> {
    let mut reader = Reader { rest: text };
    let year = reader.digits(4, "2006")?;
    reader.literal("-")?;
    let month = within(reader.digits(2, "01")?, 1..=12, "month")?;
    reader.literal("-")?;
    let day = reader.digits(2, "02")?;
    reader.literal("T")?;
    let hour = within(reader.digits(2, "15")?, 0..=23, "hour")?;
    reader.literal(":")?;
    let minute = within(reader.digits(2, "04")?, 0..=59, "minute")?;
    reader.literal(":")?;
    let second = within(reader.digits(2, "05")?, 0..=59, "second")?;
    let nanos = match precision {
        Precision::Seconds => reader.any_fraction(),
        Precision::Micros => {
            let fault = reader.fault(".000000");
            let mut fraction = Reader { rest: reader.rest };
            let micros = fraction
                .literal(".")
                .and_then(|()| fraction.digits(6, ""))
                .map_err(|_| fault)?;
            reader.rest = fraction.rest;
            micros * 1000
        }
    };
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(Fault::Extra(reader.rest));
    }
    let narrow = |number: i32| i8::try_from(number).expect("two digits fit");
    let year = i16::try_from(year).expect("four digits fit");
    let date = civil::Date::new(year, narrow(month), narrow(day));
    let date = date.map_err(|_| Fault::Range("day"))?;
    let local = date.at(narrow(hour), narrow(minute), narrow(second), nanos);
    let ahead = SignedDuration::from_secs(offset.into());
    if let Ok(utc) = local.checked_sub(ahead) {
        return Ok(Utc {
            shown: utc,
            cycles: 0,
        });
    }
    // Only the zone leads out of the last year that is known here; the calendar repeats itself.
    let earlier = local
        .checked_sub(CYCLE_YEARS.years())
        .and_then(|local| local.checked_sub(ahead));
    let shown = earlier.map_err(|_| Fault::Range("day"))?;
    Ok(Utc { shown, cycles: 1 })
}

/// The years of a cycle of the Gregorian calendar.
const CYCLE_YEARS: i16 = 400;

/// A time in UTC, of which Go knows more years than four digits can show.
struct Utc {
    /// The time, but for `cycles` of the calendar that lie before it.
    shown: civil::DateTime,
    cycles: i16,
}

impl Utc {
    /// The text as Go formats it.
    fn to_text(&self, precision: Precision) -> String {
        let year = self.shown.year() + self.cycles * CYCLE_YEARS;
        let sign = if year < 0 { "-" } else { "" };
        let rest = match precision {
            Precision::Seconds => self.shown.strftime("%m-%dT%H:%M:%SZ"),
            Precision::Micros => self.shown.strftime("%m-%dT%H:%M:%S.%6fZ"),
        };
        format!("{sign}{:04}-{rest}", year.unsigned_abs())
    }
}

fn within<'t>(
    number: i32,
    range: std::ops::RangeInclusive<i32>,
    element: &'static str,
) -> Result<i32, Fault<'t>> {
    match range.contains(&number) {
        true => Ok(number),
        false => Err(Fault::Range(element)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_that_go_reads_is_written_as_go_writes_it() {
        let cases = [
            ("9999-12-31T23:59:59.000000Z", "9999-12-31T23:59:59.000000Z"),
            (
                "9999-12-31T23:59:59.000000-01:00",
                "10000-01-01T00:59:59.000000Z",
            ),
            (
                "9999-12-31T23:59:59.000001-24:60",
                "10000-01-02T00:59:59.000001Z",
            ),
            (
                "9999-12-31T23:59:59.123456+24:60",
                "9999-12-30T22:59:59.123456Z",
            ),
            ("0000-01-01T00:00:00.000000Z", "0000-01-01T00:00:00.000000Z"),
            (
                "0000-01-01T00:00:00.000000+01:00",
                "-0001-12-31T23:00:00.000000Z",
            ),
            (
                "2026-01-01T00:00:00.000000+24:00",
                "2025-12-31T00:00:00.000000Z",
            ),
            (
                "2024-02-29T12:00:00.000000-24:60",
                "2024-03-01T13:00:00.000000Z",
            ),
        ];
        for (text, want) in cases {
            let written = normalize(text, Precision::Micros).unwrap();
            assert_eq!(written.as_deref(), Some(want), "{text}");
        }
        let seconds = normalize("9999-12-31T23:59:59-01:00", Precision::Seconds).unwrap();
        assert_eq!(seconds.as_deref(), Some("10000-01-01T00:59:59Z"));
        assert_eq!(
            normalize("0001-01-01T01:00:00+01:00", Precision::Seconds),
            Ok(None)
        );
        let error = normalize("2023-02-29T00:00:00Z", Precision::Seconds).unwrap_err();
        assert_eq!(
            error,
            "parsing time \"2023-02-29T00:00:00Z\": day out of range"
        );
        assert_eq!(instant("9999-12-31T23:59:59Z"), Ok(Timestamp::MAX));
        let zoned = instant("2026-01-01T00:00:00+24:00").unwrap();
        assert_eq!(zoned.to_string(), "2025-12-31T00:00:00Z");
    }
}
