//! One field of a schedule: the values that it allows.

use super::ParseError;
use crate::status::quoted;

/// The least and the greatest value of a field, and names that stand for values from the least on.
pub(super) struct Bounds {
    least: u32,
    greatest: u32,
    names: &'static [&'static str],
}

pub(super) const MINUTE: Bounds = Bounds {
    least: 0,
    greatest: 59,
    names: &[],
};
pub(super) const HOUR: Bounds = Bounds {
    least: 0,
    greatest: 23,
    names: &[],
};
pub(crate) const DAY_OF_MONTH: Bounds = Bounds {
    least: 1,
    greatest: 31,
    names: &[],
};
pub(crate) const MONTH: Bounds = Bounds {
    least: 1,
    greatest: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
pub(crate) const DAY_OF_WEEK: Bounds = Bounds {
    least: 0,
    greatest: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// The values that a field allows, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values {
    bits: u64,
    /// Whether the field leaves the choice to others: a star without a step is among its parts.
    pub is_any: bool,
}

impl Values {
    /// Reads `*`, `5`, `1-5`, `*/10`, `mon`, and several of these with commas between.
    pub(super) fn parse(text: &str, bounds: &Bounds) -> Result<Self, ParseError> {
        let mut values = Self {
            bits: 0,
            is_any: false,
        };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let part = range(part, bounds).map_err(ParseError)?;
            values.bits |= part.bits;
            values.is_any |= part.is_any;
        }
        Ok(values)
    }

    pub(super) fn contains(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }
}

fn range(text: &str, bounds: &Bounds) -> Result<Values, String> {
    let Bounds {
        least,
        greatest,
        names,
    } = *bounds;
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let is_single = ends.len() == 1;
    let is_star = matches!(ends[0], "*" | "?");
    let value = |text: &str| value(text, least, names);
    let (start, mut end) = match ends[..] {
        _ if is_star => (least, greatest),
        [start] => (value(start)?, value(start)?),
        [start, end] => (value(start)?, value(end)?),
        _ => {
            value(ends[0])?;
            value(ends[1])?;
            return Err(format!("too many hyphens: {text}"));
        }
    };
    let mut step = 1;
    match parts[..] {
        [_] => {}
        [_, own] => {
            step = number(own)?;
            if is_single {
                end = greatest;
            }
        }
        _ => return Err(format!("too many slashes: {text}")),
    }
    if start < least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({least}): {text}"
        ));
    }
    if end > greatest {
        return Err(format!(
            "end of range ({end}) above maximum ({greatest}): {text}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let steps = (start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    Ok(Values {
        bits: steps.fold(0, |bits, value| bits | 1 << value),
        is_any: is_star && step == 1,
    })
}

fn value(text: &str, least: u32, names: &[&str]) -> Result<u32, String> {
    let named = names
        .iter()
        .zip(least..)
        .find_map(|(name, value)| name.eq_ignore_ascii_case(text).then_some(value));
    named.map_or_else(|| number(text), Ok)
}

fn number(text: &str) -> Result<u32, String> {
    let is_negative = text
        .strip_prefix('-')
        .is_some_and(|digits| digits.parse::<u32>().is_ok());
    if is_negative {
        return Err(format!("negative number ({text}) not allowed: {text}"));
    }
    text.parse().map_err(|_| {
        format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {}: invalid syntax",
            quoted(text)
        )
    })
}
