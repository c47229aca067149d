//! Numbers that may be given as a percentage: an `IntOrString` that is read as an amount.
//!
//! Source: `k8s.io/apimachinery/pkg/util/intstr/intstr.go` (`GetScaledValueFromIntOrPercent`),
//! `k8s.io/apimachinery/pkg/util/validation/validation.go` (`IsValidPercent`).

use std::str::FromStr;

use crate::json::Value;
use crate::status::quoted;

/// The direction in which a fractional share is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next greater whole number.
    Up,
    /// To the next smaller whole number.
    Down,
}

/// A number, or a share of a total that is known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// The number itself.
    Int(i64),
    /// A percentage of the total; it may be negative or above 100.
    Percent(i64),
}

/// Why a value is neither a number nor a percentage, as upstream words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntOrPercentError {
    /// There is no value.
    #[error("nil value for IntOrString")]
    Absent,
    /// Text without a final `%`.
    #[error("invalid type: string is not a percentage")]
    NotAPercentage,
    /// Text whose part before `%` is no number.
    #[error(
        "invalid value {}: strconv.Atoi: parsing {}: invalid syntax",
        quoted(text),
        quoted(number)
    )]
    NotANumber {
        /// The whole text.
        text: String,
        /// The part that is no number.
        number: String,
    },
}

impl IntOrPercent {
    /// Reads a field of an object: a JSON number, or text that ends in `%`.
    ///
    /// # Errors
    /// The value is neither.
    pub fn from_value(value: &Value) -> Result<Self, IntOrPercentError> {
        match value.as_str() {
            Some(text) => text.parse(),
            None => value
                .as_i64()
                .map(Self::Int)
                .ok_or(IntOrPercentError::Absent),
        }
    }

    /// Returns the number, or the percentage of `total` rounded to a whole number. Shares beyond the range of `i64`
    /// become its nearest bound.
    #[must_use]
    pub fn scaled(self, total: i64, round: Round) -> i64 {
        match self {
            Self::Int(number) => number,
            Self::Percent(percent) => {
                let share = i128::from(percent) * i128::from(total);
                let rounded = match round {
                    Round::Down => share.div_euclid(100),
                    Round::Up => -(-share).div_euclid(100),
                };
                let bound = if rounded < 0 { i64::MIN } else { i64::MAX };
                i64::try_from(rounded).unwrap_or(bound)
            }
        }
    }
}

impl FromStr for IntOrPercent {
    type Err = IntOrPercentError;

    /// Reads a percentage. Text without `%` is not valid, even if it is a number.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text
            .strip_suffix('%')
            .ok_or(IntOrPercentError::NotAPercentage)?;
        let percent = number.parse();
        percent
            .map(Self::Percent)
            .map_err(|_| IntOrPercentError::NotANumber {
                text: text.to_owned(),
                number: number.to_owned(),
            })
    }
}

/// Returns the number in a percentage that is valid in the spec of a built-in kind: digits and a final `%`, without a
/// sign. Numbers beyond the range of `i64` become its upper bound.
#[must_use]
pub fn valid_percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn shares_are_rounded_as_asked() {
        let table = [
            (json!(3), 10, Round::Up, 3),
            (json!("25%"), 10, Round::Up, 3),
            (json!("25%"), 10, Round::Down, 2),
            (json!("50%"), 10, Round::Up, 5),
            (json!("0%"), 10, Round::Up, 0),
            (json!("100%"), 7, Round::Down, 7),
            (json!("-25%"), 10, Round::Up, -2),
            (json!("-25%"), 10, Round::Down, -3),
            (json!("9223372036854775807%"), 200, Round::Up, i64::MAX),
        ];
        for (value, total, round, expected) in table {
            let parsed = IntOrPercent::from_value(&value).unwrap();
            assert_eq!(parsed.scaled(total, round), expected, "{value}");
        }
    }

    #[test]
    fn other_values_are_refused_in_upstreams_words() {
        let table = [
            (json!(null), "nil value for IntOrString"),
            (json!("5"), "invalid type: string is not a percentage"),
            (
                json!("x%"),
                r#"invalid value "x%": strconv.Atoi: parsing "x": invalid syntax"#,
            ),
        ];
        for (value, expected) in table {
            let error = IntOrPercent::from_value(&value).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_valid_percentage_has_no_sign() {
        let table = [
            ("25%", Some(25)),
            ("99999999999999999999%", Some(i64::MAX)),
            ("-5%", None),
            ("+5%", None),
            ("%", None),
            ("5", None),
        ];
        for (text, expected) in table {
            assert_eq!(valid_percent(text), expected, "{text}");
        }
    }
}
