//! Numbers that may be given as a percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The direction in which a fractional share is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next greater whole number.
    Up,
    /// To the next smaller whole number.
    Down,
}

/// The number itself, or that percentage of `total`. None for text that is not a percentage.
#[must_use]
pub fn resolve(value: &IntOrString, total: i32, round: Round) -> Option<i32> {
    let percent: i64 = match value {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok()?,
    };
    let share = percent.checked_mul(i64::from(total))?;
    let rounded = match round {
        Round::Down => share.div_euclid(100),
        Round::Up => -(-share).div_euclid(100),
    };
    i32::try_from(rounded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_as_asked() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        let table = [
            (IntOrString::Int(3), 10, Round::Up, Some(3)),
            (percent("25%"), 10, Round::Up, Some(3)),
            (percent("25%"), 10, Round::Down, Some(2)),
            (percent("50%"), 10, Round::Up, Some(5)),
            (percent("0%"), 10, Round::Up, Some(0)),
            (percent("100%"), 7, Round::Down, Some(7)),
            (percent("many"), 10, Round::Down, None),
            (percent("x%"), 10, Round::Down, None),
        ];
        for (value, total, round, expected) in table {
            assert_eq!(resolve(&value, total, round), expected, "{value:?}");
        }
    }
}
