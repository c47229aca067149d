//! Schedules of CronJobs: five fields, or a descriptor, in a time zone.
//!
//! `fields` reads what a field allows, `every` the spans of `@every`, and this file puts them
//! together and finds the next time. The grammar, the words of the faults and what happens when
//! clocks are set are those of the library that Kubernetes uses, robfig/cron v3 (`ParseStandard` and
//! `SpecSchedule.Next`); crates for cron have grammars of their own.

mod every;
mod fields;

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp};

use fields::{DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, Values};

/// A fault in a schedule, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// When something is to be done.
#[derive(Clone, Debug)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum Times {
    Matching(Box<Fields>),
    Every(SignedDuration),
}

#[derive(Clone, Debug)]
struct Fields {
    minute: Values,
    hour: Values,
    day_of_month: Values,
    month: Values,
    day_of_week: Values,
}

/// Descriptors, and the fields that they stand for.
const DESCRIPTORS: [(&str, [&str; 5]); 7] = [
    ("@yearly", ["0", "0", "1", "1", "*"]),
    ("@annually", ["0", "0", "1", "1", "*"]),
    ("@monthly", ["0", "0", "1", "*", "*"]),
    ("@weekly", ["0", "0", "*", "*", "0"]),
    ("@daily", ["0", "0", "*", "*", "*"]),
    ("@midnight", ["0", "0", "*", "*", "*"]),
    ("@hourly", ["0", "*", "*", "*", "*"]),
];
/// The years after which a schedule without a match counts as never due.
const YEARS_MAX: i16 = 5;

impl Schedule {
    /// Reads `30 2 * * *`, `@daily` or `@every 1h30m`, each also after `TZ=Area/City ` or
    /// `CRON_TZ=Area/City `; without a zone, times are in UTC.
    ///
    /// # Errors
    ///
    /// [`ParseError`] with the first fault.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (zone, text) = split_zone(text)?;
        if let Some(descriptor) = text.strip_prefix('@') {
            let times = match descriptor.strip_prefix("every ") {
                Some(span) => Times::Every(every::parse(span).map_err(|fault| {
                    ParseError(format!("failed to parse duration {text}: {fault}"))
                })?),
                None => {
                    let known = DESCRIPTORS.iter().find(|(name, _)| *name == text);
                    let (_, fields) = known
                        .ok_or_else(|| ParseError(format!("unrecognized descriptor: {text}")))?;
                    Times::Matching(Box::new(Fields::parse(fields)?))
                }
            };
            return Ok(Self { times, zone });
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let fields: &[&str; 5] = fields[..].try_into().map_err(|_| {
            let (found, all) = (fields.len(), fields.join(" "));
            ParseError(format!("expected exactly 5 fields, found {found}: [{all}]"))
        })?;
        let times = Times::Matching(Box::new(Fields::parse(fields)?));
        Ok(Self { times, zone })
    }

    /// Returns this schedule with its times in `zone`.
    #[must_use]
    pub fn in_zone(self, zone: TimeZone) -> Self {
        Self { zone, ..self }
    }

    /// The first time after `after`; None if the next five years have none, as with February 31.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let second = Timestamp::from_second(after.as_millisecond().div_euclid(1000)).ok()?;
        match &self.times {
            Times::Every(span) => second.checked_add(*span).ok(),
            Times::Matching(fields) => {
                let first = second.checked_add(SignedDuration::from_secs(1)).ok()?;
                Search {
                    fields,
                    zone: &self.zone,
                    at: first,
                    is_whole: false,
                }
                .run()
            }
        }
    }
}

fn split_zone(text: &str) -> Result<(TimeZone, &str), ParseError> {
    if !text.starts_with("TZ=") && !text.starts_with("CRON_TZ=") {
        return Ok((TimeZone::UTC, text));
    }
    let (zone, rest) = text.split_once(' ').unwrap_or((text, ""));
    let name = zone.split_once('=').map_or("", |(_, name)| name);
    match TimeZone::get(name) {
        Ok(zone) => Ok((zone, rest.trim())),
        Err(_) => Err(ParseError(format!(
            "provided bad location {name}: unknown time zone {name}"
        ))),
    }
}

impl Fields {
    fn parse(texts: &[&str; 5]) -> Result<Self, ParseError> {
        let [minute, hour, day_of_month, month, day_of_week] = texts;
        Ok(Self {
            minute: Values::parse(minute, &MINUTE)?,
            hour: Values::parse(hour, &HOUR)?,
            day_of_month: Values::parse(day_of_month, &DAY_OF_MONTH)?,
            month: Values::parse(month, &MONTH)?,
            day_of_week: Values::parse(day_of_week, &DAY_OF_WEEK)?,
        })
    }

    /// Where both days are given, either is enough.
    fn allow_day(&self, date: Date) -> bool {
        let of_month = self.day_of_month.contains(date.day());
        let of_week = self
            .day_of_week
            .contains(date.weekday().to_sunday_zero_offset());
        match self.day_of_month.is_any || self.day_of_week.is_any {
            true => of_month && of_week,
            false => of_month || of_week,
        }
    }
}

/// The search for the next time, from the greatest unit to the least.
struct Search<'a> {
    fields: &'a Fields,
    zone: &'a TimeZone,
    at: Timestamp,
    /// Whether the lesser units were set to their beginning.
    is_whole: bool,
}

impl Search<'_> {
    fn run(mut self) -> Option<Timestamp> {
        let last_year = self.local().year().checked_add(YEARS_MAX)?;
        while self.local().year() <= last_year {
            // A unit that wraps around starts the search over with the greater ones.
            let is_found = self.month()? && self.day()? && self.hour()? && self.minute()?;
            if is_found && self.second()? {
                return Some(self.at);
            }
        }
        None
    }

    fn local(&self) -> DateTime {
        self.zone.to_datetime(self.at)
    }

    fn month(&mut self) -> Option<bool> {
        while !self.fields.month.contains(self.local().month()) {
            let local = self.local();
            let month = match self.begin() {
                true => local.date().first_of_month().at(0, 0, 0, 0),
                false => local,
            };
            self.at = instant(month.checked_add(Span::new().months(1)).ok()?, self.zone)?;
            if self.local().month() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn day(&mut self) -> Option<bool> {
        while !self.fields.allow_day(self.local().date()) {
            let local = self.local();
            if self.begin() {
                self.at = instant(local.date().at(0, 0, 0, 0), self.zone)?;
            }
            let next = self.local().checked_add(Span::new().days(1)).ok()?;
            self.at = instant(next, self.zone)?;
            // Where midnight is skipped or comes twice, the day begins nearby.
            let hour = i64::from(self.local().hour());
            let hours = if hour > 12 { 24 - hour } else { -hour };
            self.at = self
                .at
                .checked_add(SignedDuration::from_hours(hours))
                .ok()?;
            if self.local().day() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn hour(&mut self) -> Option<bool> {
        while !self.fields.hour.contains(self.local().hour()) {
            let local = self.local();
            if self.begin() {
                self.at = instant(local.date().at(local.hour(), 0, 0, 0), self.zone)?;
            }
            self.at = self.at.checked_add(SignedDuration::from_hours(1)).ok()?;
            if self.local().hour() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn minute(&mut self) -> Option<bool> {
        while !self.fields.minute.contains(self.local().minute()) {
            if self.begin() {
                let past = self.at.as_second().rem_euclid(60);
                self.at = self.at.checked_sub(SignedDuration::from_secs(past)).ok()?;
            }
            self.at = self.at.checked_add(SignedDuration::from_mins(1)).ok()?;
            if self.local().minute() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Times are at full minutes.
    fn second(&mut self) -> Option<bool> {
        let past = i64::from(self.local().second());
        if past == 0 {
            return Some(true);
        }
        self.is_whole = true;
        self.at = self
            .at
            .checked_add(SignedDuration::from_secs(60 - past))
            .ok()?;
        Some(false)
    }

    /// Whether this is the first unit that has to move on.
    fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_whole, true)
    }
}

/// The instant that Go's `time.Date` takes for a local time, also for one that clocks skip: the
/// offset is looked up as if the local time were UTC, and once more if it does not hold there.
fn instant(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let as_utc = Offset::UTC.to_timestamp(local).ok()?;
    let with = |offset: Offset| {
        let ahead = SignedDuration::from_secs(i64::from(offset.seconds()));
        as_utc.checked_sub(ahead).ok()
    };
    let guess = with(zone.to_offset(as_utc))?;
    with(zone.to_offset(guess))
}

#[cfg(test)]
mod tests;
