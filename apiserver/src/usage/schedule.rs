//! Amounts over time, as annotations write them:
//!
//! ```text
//! 200m                                an amount
//! 80%                                 a share of the container's request
//! 100m for 5m, 900m for 2m, 100m      one after the other; the last one stays
//! 100m for 5m, 900m for 2m, repeat    from the beginning again
//! 100m..900m over 10m, 900m           a steady change
//! sine 100m..900m every 1h            from the first to the second and back, as a sine does
//! ```
//!
//! Times begin with the creation of the annotated object.

use std::time::Duration;

use jiff::SignedDuration;

use super::Resource;
use crate::schema::quantity::Quantity;

/// An amount at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Level {
    /// In the unit of the resource.
    Amount(i64),
    /// Of the request of a container, in percent.
    Percent(f64),
}

impl Level {
    /// The amount for a container with this request; a share of no request is nothing.
    pub(super) fn of(self, request: Option<i64>) -> i64 {
        match self {
            Self::Amount(amount) => amount,
            Self::Percent(percent) => whole(float(request.unwrap_or(0)) * percent / 100.0),
        }
    }

    fn parse(text: &str, resource: Resource) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent
                .trim()
                .parse()
                .map_err(|_| format!("{text:?} is no percentage"))?;
            return match percent.is_finite() && percent >= 0.0 {
                true => Ok(Self::Percent(percent)),
                false => Err(format!("{text:?} is negative")),
            };
        }
        let quantity =
            Quantity::parse(text).map_err(|error| format!("{text:?} is no amount: {error}"))?;
        match quantity.is_negative() {
            true => Err(format!("{text:?} is negative")),
            false => Ok(Self::Amount(resource.amount(&quantity))),
        }
    }

    /// The level between two, at `part` (0 to 1) of the way.
    fn toward(self, other: Self, part: f64) -> Self {
        match (self, other) {
            (Self::Amount(from), Self::Amount(to)) => {
                Self::Amount(whole(float(from) + (float(to) - float(from)) * part))
            }
            (Self::Percent(from), Self::Percent(to)) => Self::Percent(from + (to - from) * part),
            (from, _) => from,
        }
    }
}

/// A part of a schedule: from one level to another, or the same level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    from: Level,
    to: Level,
    /// Without end for the last one.
    length: Option<Duration>,
}

/// An amount over time.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Schedule {
    /// One part after the other.
    Phases { phases: Vec<Phase>, repeats: bool },
    /// Up and down again, without end.
    Sine {
        from: Level,
        to: Level,
        period: Duration,
    },
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// What cannot be read.
    pub(super) fn parse(text: &str, resource: Resource) -> Result<Self, String> {
        if let Some(sine) = text.trim().strip_prefix("sine ") {
            let (range, period) = sine
                .split_once(" every ")
                .ok_or("a sine is written as: sine LOW..HIGH every TIME")?;
            let (from, to) = range_of(range, resource)?;
            let period = time(period)?;
            return Ok(Self::Sine { from, to, period });
        }
        let mut parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let repeats = parts.last() == Some(&"repeat");
        if repeats {
            parts.pop();
        }
        let mut phases = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let phase = phase(part, resource)?;
            let is_last = at + 1 == parts.len() && !repeats;
            if phase.length.is_none() && !is_last {
                return Err(format!("{part:?} has no end: write {part} for TIME"));
            }
            phases.push(phase);
        }
        match phases.is_empty() {
            true => Err("there is nothing to repeat".to_owned()),
            false => Ok(Self::Phases { phases, repeats }),
        }
    }

    /// The level at `time` after the beginning.
    pub(super) fn at(&self, time: SignedDuration) -> Level {
        let time = time.max(SignedDuration::ZERO).unsigned_abs();
        match self {
            Self::Sine { from, to, period } => {
                let turn = time.as_secs_f64() / period.as_secs_f64() * std::f64::consts::TAU;
                from.toward(*to, f64::midpoint(1.0, -turn.cos()))
            }
            Self::Phases { phases, repeats } => in_phases(phases, *repeats, time),
        }
    }
}

fn in_phases(phases: &[Phase], repeats: bool, time: Duration) -> Level {
    let lengths = phases.iter().filter_map(|phase| phase.length);
    let total: Duration = lengths.sum();
    let mut rest = match repeats {
        true => Duration::from_nanos_u128(time.as_nanos() % total.as_nanos().max(1)),
        false => time,
    };
    for phase in phases {
        match phase.length {
            Some(length) if rest >= length => rest -= length,
            Some(length) => {
                let part = rest.as_secs_f64() / length.as_secs_f64();
                return phase.from.toward(phase.to, part);
            }
            None => return phase.from,
        }
    }
    phases.last().map_or(Level::Amount(0), |phase| phase.to)
}

fn phase(text: &str, resource: Resource) -> Result<Phase, String> {
    if let Some((range, length)) = text.split_once(" over ") {
        let (from, to) = range_of(range, resource)?;
        let length = Some(time(length)?);
        return Ok(Phase { from, to, length });
    }
    let (level, length) = match text.split_once(" for ") {
        Some((level, length)) => (level, Some(time(length)?)),
        None => (text, None),
    };
    let level = Level::parse(level.trim(), resource)?;
    Ok(Phase {
        from: level,
        to: level,
        length,
    })
}

fn range_of(text: &str, resource: Resource) -> Result<(Level, Level), String> {
    let (from, to) = text
        .split_once("..")
        .ok_or_else(|| format!("{text:?} is no range: write LOW..HIGH"))?;
    let from = Level::parse(from.trim(), resource)?;
    let to = Level::parse(to.trim(), resource)?;
    match (from, to) {
        (Level::Amount(_), Level::Percent(_)) | (Level::Percent(_), Level::Amount(_)) => {
            Err(format!("{text:?} is from an amount to a percentage"))
        }
        range => Ok(range),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let time: Option<SignedDuration> = text.parse().ok();
    let time = time.and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| format!("{text:?} is no time, such as 5m or 1h30m"))
}

#[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53")]
fn float(value: i64) -> f64 {
    value as f64
}

/// Rounded to the unit.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn whole(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, times: &[&str]) -> Vec<Level> {
        let schedule = Schedule::parse(text, Resource::Memory).unwrap();
        let at = |time: &&str| schedule.at(time.parse().unwrap());
        times.iter().map(at).collect()
    }

    fn amounts(text: &str, times: &[&str]) -> Vec<i64> {
        let levels = at(text, times).into_iter();
        levels.map(|level| level.of(Some(200))).collect()
    }

    #[test]
    fn levels_follow_each_other_and_the_last_one_stays() {
        let steps = "10 for 5m, 90 for 2m, 20";
        let times = ["0s", "4m59s", "5m", "6m59s", "7m", "1000h"];
        assert_eq!(amounts(steps, &times), [10, 10, 90, 90, 20, 20]);
        assert_eq!(amounts("10 for 5m, 90 for 2m", &["6m", "9m"]), [90, 90]);
        assert_eq!(amounts("10", &["-5m", "0s"]), [10, 10]);
    }

    #[test]
    fn a_sequence_may_begin_again() {
        let times = ["0s", "5m", "7m", "12m", "14m"];
        let found = amounts("10 for 5m, 90 for 2m, repeat", &times);
        assert_eq!(found, [10, 90, 10, 90, 10]);
    }

    #[test]
    fn levels_change_steadily_or_as_a_sine() {
        let times = ["0s", "5m", "10m", "20m"];
        assert_eq!(amounts("100..900 over 10m, 50", &times), [100, 500, 50, 50]);
        let times = ["0s", "15m", "30m", "45m", "60m"];
        let found = amounts("sine 100..900 every 1h", &times);
        assert_eq!(found, [100, 500, 900, 500, 100]);
    }

    #[test]
    fn a_percentage_is_of_the_request() {
        assert_eq!(amounts("80%", &["0s"]), [160]);
        assert_eq!(amounts("0%..100% over 10m", &["5m"]), [100]);
        assert_eq!(Level::Percent(80.0).of(None), 0);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, fault) in [
            (
                "much",
                "\"much\" is no amount: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            ("-1", "\"-1\" is negative"),
            ("-1%", "\"-1%\" is negative"),
            ("x%", "\"x%\" is no percentage"),
            ("1, 2", "\"1\" has no end: write 1 for TIME"),
            ("1, repeat", "\"1\" has no end: write 1 for TIME"),
            ("repeat", "there is nothing to repeat"),
            ("1 for soon", "\"soon\" is no time, such as 5m or 1h30m"),
            ("1 for 0s", "\"0s\" is no time, such as 5m or 1h30m"),
            ("1 over 5m", "\"1\" is no range: write LOW..HIGH"),
            (
                "1..50% over 5m",
                "\"1..50%\" is from an amount to a percentage",
            ),
            (
                "sine 1..2",
                "a sine is written as: sine LOW..HIGH every TIME",
            ),
        ] {
            assert_eq!(Schedule::parse(text, Resource::Cpu), Err(fault.to_owned()));
        }
    }
}
