//! Amounts with a unit: `100m`, `1Gi`, `1e3`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// The smallest power of ten that is kept; finer amounts are rounded away from zero.
const SCALE_MIN: i32 = -9;

/// Digits that fit any 64 bit integer.
const DIGITS_MAX: i32 = 18;

/// Mantissas below can be brought to any scale that a unit needs.
const MANTISSA_MAX: i128 = 10_i128.pow(36);

const DECIMAL_UNITS: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Each is 1024 of the one before.
const BINARY_UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Why a text is not a quantity, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not a number and a unit.
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// More digits than are kept.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// Not a known unit.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The family of units that a quantity is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// An amount: `mantissa` times ten to the power of `scale`. [`Display`](fmt::Display) writes it in
/// canonical form.
#[derive(Clone, Debug)]
pub struct Quantity {
    mantissa: i128,
    scale: i32,
    format: Format,
    /// The text it was read from, where upstream keeps that as the canonical form.
    text: Option<Box<str>>,
}

/// The parts of the text of a quantity.
struct Parts<'t> {
    negative: bool,
    /// Digits before the point, without leading zeros.
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    ///
    /// When the text is not a number with a known unit.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let parts = Parts::split(text)?;
        let (format, exponent) = unit(parts.suffix).ok_or(ParseError::Suffix)?;
        let digits: Cow<'_, str> = match parts.fraction {
            "" => parts.whole.into(),
            fraction => [parts.whole, fraction].concat().into(),
        };
        // Few numbers need 128 bits, which take longer to read.
        let mut mantissa: i128 = match DIGITS_MAX >= length(&digits) {
            true => digits.parse::<i64>().map(i128::from),
            false => digits.parse(),
        }
        .map_err(|_| ParseError::Numeric)?;
        if mantissa > MANTISSA_MAX {
            return Err(ParseError::Numeric);
        }
        let mut scale = -length(parts.fraction);
        let precise = match format {
            Format::Binary => {
                mantissa = mantissa
                    .checked_mul(1 << exponent)
                    .ok_or(ParseError::Numeric)?;
                let precise =
                    parts.fraction.is_empty() && 14 - length(parts.whole) - exponent * 3 / 10 >= 0;
                precise && exponent % 10 == 0 && digits.parse().is_ok_and(|n: i64| n & 7 != 0)
            }
            Format::Decimal | Format::Exponent => {
                scale += exponent;
                DIGITS_MAX >= length(&digits)
                    && scale >= SCALE_MIN
                    && scale % 3 == 0
                    && !digits.ends_with("000")
                    && !digits.starts_with('0')
            }
        };
        let mut quantity = Self {
            mantissa: if parts.negative { -mantissa } else { mantissa },
            scale,
            format,
            text: precise.then(|| text.into()),
        };
        quantity.limit();
        Ok(quantity)
    }

    /// Rounds to the finest scale kept, and caps binary amounts at what 64 bits hold.
    fn limit(&mut self) {
        if self.scale < SCALE_MIN {
            self.mantissa = ceil_div_10(self.mantissa, SCALE_MIN - self.scale);
            self.scale = SCALE_MIN;
        }
        if self.format != Format::Binary {
            return;
        }
        let max = Self::from(i64::MAX);
        let size = Self {
            mantissa: self.mantissa.abs(),
            text: None,
            ..*self
        };
        if size.compare(&max) == Ordering::Greater {
            self.mantissa = max.mantissa * self.mantissa.signum();
            self.scale = 0;
        }
    }

    /// Returns `value` times ten to the power of `scale`, in decimal units: `scaled(250, -3)` is `250m`.
    ///
    /// Source: apimachinery `pkg/api/resource/quantity.go`, `NewScaledQuantity`.
    #[must_use]
    pub fn scaled(value: i64, scale: i32) -> Self {
        Self {
            mantissa: value.into(),
            scale,
            format: Format::Decimal,
            text: None,
        }
    }

    /// Returns the amount in binary units, such as `4Mi`.
    #[must_use]
    pub fn in_binary_units(self) -> Self {
        Self {
            format: Format::Binary,
            text: None,
            ..self
        }
    }

    /// Whether the amount is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Whether the amount is negative.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// Which of two is more, whatever they are written in.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let scale = self.scale.min(other.scale);
        let at_scale = |quantity: &Self| {
            let shift = u32::try_from(quantity.scale - scale).ok()?;
            quantity.mantissa.checked_mul(10_i128.checked_pow(shift)?)
        };
        match (at_scale(self), at_scale(other)) {
            (Some(a), Some(b)) => a.cmp(&b),
            // The scales differ too much for exact comparison, so floats are compared.
            _ => self.approximate().total_cmp(&other.approximate()),
        }
    }

    /// The amount, nearly.
    #[must_use]
    pub fn approximate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an approximation is asked for")]
        let mantissa = self.mantissa as f64;
        mantissa * 10_f64.powi(self.scale)
    }

    /// The amount as an integer of 64 bits, if it is one.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        self.exact()?.try_into().ok()
    }

    /// Returns the amount in units of ten to the power of `scale`, with fractions rounded away from zero; -3 gives
    /// thousandths. `None` for more than 128 bits.
    ///
    /// Source: apimachinery `pkg/api/resource/quantity.go`, ScaledValue.
    #[must_use]
    pub fn scaled_value(&self, scale: i32) -> Option<i128> {
        match u32::try_from(self.scale - scale) {
            Ok(power) => self.mantissa.checked_mul(10_i128.checked_pow(power)?),
            Err(_) => Some(ceil_div_10(self.mantissa, scale - self.scale)),
        }
    }

    /// Whether the amount has no fraction. As in Go, too fine a scale does not count as whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let power = 10_i128.checked_pow(self.scale.min(0).unsigned_abs());
        power.is_some_and(|power| self.mantissa % power == 0)
    }

    /// The amount in thousandths at the finest, rounded up; `None` if it is already.
    #[must_use]
    pub fn rounded_to_milli(&self) -> Option<Self> {
        const MILLI: i32 = -3;
        if self.scale >= MILLI {
            return None;
        }
        let own = Self {
            mantissa: ceil_div_10(self.mantissa, MILLI - self.scale),
            scale: MILLI,
            text: None,
            format: self.format,
        };
        (own.compare(self) != Ordering::Equal).then_some(own)
    }

    /// Returns the amount with the opposite sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self {
            mantissa: -self.mantissa,
            text: None,
            ..self.clone()
        }
    }

    /// The sum of two, written as this one is, or as the other if this one is nothing.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        let scale = self.scale.min(other.scale);
        let at_scale = |quantity: &Self| {
            let shift = u32::try_from(quantity.scale - scale).ok()?;
            quantity.mantissa.checked_mul(10_i128.checked_pow(shift)?)
        };
        let sum = at_scale(self)
            .zip(at_scale(other))
            .and_then(|(a, b)| a.checked_add(b));
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        match sum {
            Some(mantissa) => Self {
                mantissa,
                scale,
                format,
                text: None,
            },
            // Too far apart for one scale: the smaller one does not show.
            None if self.approximate().abs() < other.approximate().abs() => other.clone(),
            None => self.clone(),
        }
    }

    /// The amount as an integer, if it is one.
    fn exact(&self) -> Option<i128> {
        match u32::try_from(self.scale) {
            Ok(scale) => self.mantissa.checked_mul(10_i128.checked_pow(scale)?),
            Err(_) => {
                let power = 10_i128.checked_pow(self.scale.unsigned_abs())?;
                (self.mantissa % power == 0).then(|| self.mantissa / power)
            }
        }
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Self {
        Self {
            mantissa: value.into(),
            scale: 0,
            format: Format::Decimal,
            text: None,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        // Amounts that the smallest binary unit would hide are written in decimal units.
        let binary = self
            .exact()
            .filter(|value| self.format == Format::Binary && value.unsigned_abs() >= 1024);
        if let Some(mut value) = binary {
            let mut unit = 0;
            while value % 1024 == 0 && unit + 1 < BINARY_UNITS.len() {
                value /= 1024;
                unit += 1;
            }
            return write!(f, "{value}{}", BINARY_UNITS[unit]);
        }
        let (mut mantissa, mut exponent) = (self.mantissa, self.scale);
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 {
            mantissa *= 10;
            exponent -= 1;
        }
        if self.format == Format::Exponent && exponent != 0 {
            return write!(f, "{mantissa}e{exponent}");
        }
        let unit = DECIMAL_UNITS.iter().find(|unit| unit.1 == exponent);
        write!(f, "{mantissa}{}", unit.map_or("", |unit| unit.0))
    }
}

impl<'t> Parts<'t> {
    fn split(text: &'t str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Format);
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = leading(unsigned, |c| c.is_ascii_digit());
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => leading(rest, |c| c.is_ascii_digit()),
            None => ("", rest),
        };
        let (_, rest) = leading(suffix, |c| "eEinumkKMGTP".contains(c));
        let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if !rest.chars().all(|c| c.is_ascii_digit()) {
            return Err(ParseError::Format);
        }
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        Ok(Self {
            negative: text.starts_with('-'),
            whole,
            fraction,
            suffix,
        })
    }
}

/// The longest start of `text` of such characters, and the rest.
fn leading(text: &str, of: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !of(c)).unwrap_or(text.len()))
}

/// The format and the exponent of a unit, of two for binary ones, else of ten.
fn unit(suffix: &str) -> Option<(Format, i32)> {
    if let Some((_, exponent)) = DECIMAL_UNITS.iter().find(|unit| unit.0 == suffix) {
        return Some((Format::Decimal, *exponent));
    }
    if let Some(at) = BINARY_UNITS.iter().position(|unit| *unit == suffix) {
        return Some((Format::Binary, i32::try_from(at).ok()? * 10));
    }
    let exponent: i16 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Format::Exponent, exponent.into()))
}

/// Divides by a power of ten, rounding away from zero.
fn ceil_div_10(value: i128, power: i32) -> i128 {
    let divisor = 10_i128.checked_pow(power.unsigned_abs());
    let Some(divisor) = divisor else {
        return value.signum();
    };
    let quotient = value / divisor;
    match value % divisor {
        0 => quotient,
        rest => quotient + rest.signum(),
    }
}

fn length(digits: &str) -> i32 {
    i32::try_from(digits.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|err| panic!("{text}: {err}"))
    }

    #[test]
    fn is_written_in_canonical_form() {
        let cases = [
            ("0", "0"),
            ("0Mi", "0"),
            ("-0", "0"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1126400m"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("100000m", "100"),
            ("2000", "2k"),
            ("1500", "1500"),
            ("1.5", "1500m"),
            ("0.1", "100m"),
            ("0.1m", "100u"),
            ("1.1n", "2n"),
            ("-1.1n", "-2n"),
            ("12e4", "120e3"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("5E", "5E"),
            ("-2048Ki", "-2Mi"),
            ("+5", "+5"),
            ("100Ei", "9223372036854775807"),
            ("-100Ei", "-9223372036854775807"),
        ];
        for (text, want) in cases {
            let canonical = parse(text).to_string();
            assert_eq!(canonical, want, "{text}");
            assert_eq!(parse(&canonical).to_string(), want, "{text} twice");
        }
    }

    #[test]
    fn scaled_values_are_rounded_away_from_zero() {
        let cases = [
            ("1", -3, Some(1_000)),
            ("100m", 0, Some(1)),
            ("-100m", 0, Some(-1)),
            ("1.5", 0, Some(2)),
            ("0.1Ki", -3, Some(102_400)),
            ("2Gi", 0, Some(1 << 31)),
            ("1e3", 3, Some(1)),
            ("1u", -3, Some(1)),
            ("5E", -38, None),
        ];
        for (text, scale, want) in cases {
            assert_eq!(parse(text).scaled_value(scale), want, "{text} {scale}");
        }
    }

    #[test]
    fn text_that_is_no_quantity_is_refused() {
        let cases = [
            ("", ParseError::Format),
            ("abc", ParseError::Format),
            ("1 Gi", ParseError::Format),
            ("1GiB", ParseError::Format),
            ("1.2.3", ParseError::Format),
            ("--1", ParseError::Suffix),
            ("1Gm", ParseError::Suffix),
            ("1e", ParseError::Suffix),
            ("1e99999999999", ParseError::Suffix),
        ];
        for (text, want) in cases {
            assert_eq!(Quantity::parse(text).unwrap_err(), want, "{text}");
        }
    }

    #[test]
    fn amounts_compare_across_units() {
        assert_eq!(parse("1Gi").compare(&parse("1024Mi")), Ordering::Equal);
        assert_eq!(parse("1G").compare(&parse("1Gi")), Ordering::Less);
        assert_eq!(parse("1e30000").compare(&parse("1n")), Ordering::Greater);
        assert_eq!(parse("-1m").compare(&parse("0")), Ordering::Less);
        assert!(parse("-1").is_negative() && parse("0.0").is_zero());
    }
}
