//! The start of virtual time, and durations as people write them: `30s`, `1m30s`, `1.5s`, `250ms`.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// Virtual time begins here.
pub(crate) const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0); // 2026-01-01T00:00:00Z

/// Everything counts as settled after this long without a write.
#[doc(hidden)]
pub const QUIET: Duration = Duration::from_secs(600);

/// A length of virtual time, read from `10m` and printed the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(transparent)]
pub struct HumanDuration(
    #[schemars(with = "String", regex(pattern = r"^\s*([0-9.]+(ms|s|m|h))+\s*$"))] pub Duration,
);

impl HumanDuration {
    /// The longest duration that is read: virtual time stays in the range of timestamps.
    pub const LONGEST: Self = Self::from_secs(876_000 * 3600);

    /// `seconds` of time.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl std::str::FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is not a duration such as 500ms, 30s, 1m30s or 2h");
        let mut rest = text.trim();
        let mut total = Duration::ZERO;
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let number = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .ok_or_else(wrong)?;
            let (value, tail) = rest.split_at(number);
            let unit = tail
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit);
            let seconds = match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
            let value: f64 = value.parse().map_err(|_| wrong())?;
            let part = Duration::try_from_secs_f64(value * seconds).unwrap_or(Duration::MAX);
            total = total.saturating_add(part);
            if total > Self::LONGEST.0 {
                let longest = Self::LONGEST;
                return Err(format!(
                    "{text:?} is longer than {longest}, a hundred years"
                ));
            }
            rest = tail;
        }
        Ok(Self(total))
    }
}

impl std::fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hours, minutes) = (self.0.as_secs() / 3600, self.0.as_secs() / 60 % 60);
        let (seconds, millis) = (self.0.as_secs() % 60, self.0.subsec_millis());
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if millis > 0 {
            let fraction = format!("{millis:03}");
            write!(f, "{seconds}.{}s", fraction.trim_end_matches('0'))
        } else if seconds > 0 || self.0.as_secs() == 0 {
            write!(f, "{seconds}s")
        } else {
            Ok(())
        }
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_alike() {
        for text in [
            "0s", "30s", "1.5s", "0.25s", "1m30s", "10m", "2h", "1h0.005s",
        ] {
            let read: HumanDuration = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(
            "250ms".parse::<HumanDuration>().unwrap().to_string(),
            "0.25s"
        );
    }

    #[test]
    fn a_bare_number_or_unknown_unit_is_refused() {
        for text in ["", "30", "5d", "s", "1.2.3s"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
        for text in ["999999999999h", "876000h1ms", "99999999999999999999999s1s"] {
            let error = text.parse::<HumanDuration>().unwrap_err();
            let want = format!("{text:?} is longer than 876000h, a hundred years");
            assert_eq!(error, want);
        }
    }
}
