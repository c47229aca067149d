//! How Go prints the memory of a parsed quantity.

/// The longest number that is kept as an integer.
const DIGITS_MAX: i32 = 18;
/// The least power of ten that is kept.
const NANO: i32 = -9;
/// The largest quantity in binary units; larger ones are cut to it.
const BINARY_MAX: u128 = i64::MAX as u128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    BinarySi,
    DecimalSi,
    DecimalExponent,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::BinarySi => "BinarySI",
            Self::DecimalSi => "DecimalSI",
            Self::DecimalExponent => "DecimalExponent",
        }
    }
}

struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros but a lone one.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    exponent: i32,
    format: Format,
}

/// Prints the struct that Go makes of a quantity's text.
///
/// Source: `pkg/api/resource/quantity.go`, ParseQuantity.
pub(super) fn write(out: &mut String, text: &str) {
    let printed = match text {
        "" => small(0, 0, "", ""),
        "0" => small(0, 0, "0", Format::DecimalSi.name()),
        _ => parse(text).map_or_else(|| small(0, 0, "", ""), |parts| print(&parts, text)),
    };
    out.push_str(&printed);
}

fn small(value: i64, scale: i32, text: &str, format: &str) -> String {
    format!(
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} \
         Format:(resource.Format){format}}}"
    )
}

fn print(parts: &Parts<'_>, text: &str) -> String {
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let length = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
    let (room, mantissa) = match parts.format {
        Format::BinarySi if parts.fraction.is_empty() => (
            15 - length(parts.whole) - parts.exponent * 3 / 10 - 1,
            1_i64.checked_shl(parts.exponent.unsigned_abs()),
        ),
        Format::BinarySi => (-1, None),
        Format::DecimalSi | Format::DecimalExponent => {
            (DIGITS_MAX.saturating_sub(length(&digits)), Some(1))
        }
    };
    let scale = match parts.format {
        Format::BinarySi => 0,
        _ => parts.exponent - length(parts.fraction),
    };
    let value: Option<i64> = digits.parse().ok();
    let amount = value
        .zip(mantissa)
        .and_then(|(value, own)| value.checked_mul(own));
    let (Some(value), Some(amount)) = (value, amount.filter(|_| room >= 0 && scale >= NANO)) else {
        return large(parts, &digits);
    };
    let canonical = match parts.format {
        Format::BinarySi => parts.exponent % 10 == 0 && value & 7 != 0,
        _ => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
    };
    let amount = if parts.negative { -amount } else { amount };
    let text = if canonical { text } else { "" };
    small(amount, scale, text, parts.format.name())
}

/// Formats a number too long for an integer, as a decimal with nine decimals.
fn large(parts: &Parts<'_>, digits: &str) -> String {
    let digits: u128 = digits.parse().unwrap_or(u128::MAX);
    let behind = u32::try_from(parts.fraction.len()).unwrap_or(u32::MAX);
    let (unscaled, divisor) = match parts.format {
        Format::BinarySi => {
            let shifted = digits.saturating_mul(1_u128 << parts.exponent.unsigned_abs().min(127));
            (
                shifted.saturating_mul(1_000_000_000),
                10_u128.saturating_pow(behind),
            )
        }
        _ => {
            let power = parts.exponent - NANO;
            let up = 10_u128.saturating_pow(u32::try_from(power).unwrap_or(0));
            let down = behind.saturating_add(u32::try_from(-power).unwrap_or(0));
            (digits.saturating_mul(up), 10_u128.saturating_pow(down))
        }
    };
    let mut unscaled = unscaled.div_ceil(divisor);
    let (mut scale, mut format) = (9, parts.format);
    if format == Format::BinarySi {
        if unscaled > BINARY_MAX * 1_000_000_000 {
            (unscaled, scale) = (BINARY_MAX, 0);
        }
        if unscaled > 0 && unscaled < 1_000_000_000 {
            format = Format::DecimalSi;
        }
    }
    let words: Vec<String> = [unscaled as u64, (unscaled >> 64) as u64]
        .iter()
        .take(if unscaled >> 64 == 0 { 1 } else { 2 })
        .map(u64::to_string)
        .collect();
    let words = match unscaled {
        0 => "<nil>".to_owned(),
        _ => format!("[{}]", words.join(" ")),
    };
    format!(
        "{{i:(resource.int64Amount){{value:(int64)0 scale:(resource.Scale)0}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool){} \
         abs:(big.nat){words}}} scale:(inf.Scale){scale}}}}} s:(string) \
         Format:(resource.Format){}}}",
        parts.negative,
        format.name()
    )
}

fn parse(text: &str) -> Option<Parts<'_>> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_part = |c: char| !c.is_ascii_digit() && c != '.';
    let (number, suffix) = unsigned.split_at(unsigned.find(is_part).unwrap_or(unsigned.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (exponent, format) = match suffix {
        "n" => (-9, Format::DecimalSi),
        "u" => (-6, Format::DecimalSi),
        "m" => (-3, Format::DecimalSi),
        "" => (0, Format::DecimalSi),
        "k" => (3, Format::DecimalSi),
        "M" => (6, Format::DecimalSi),
        "G" => (9, Format::DecimalSi),
        "T" => (12, Format::DecimalSi),
        "P" => (15, Format::DecimalSi),
        "E" => (18, Format::DecimalSi),
        "Ki" => (10, Format::BinarySi),
        "Mi" => (20, Format::BinarySi),
        "Gi" => (30, Format::BinarySi),
        "Ti" => (40, Format::BinarySi),
        "Pi" => (50, Format::BinarySi),
        "Ei" => (60, Format::BinarySi),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (exponent, Format::DecimalExponent)
        }
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    Some(Parts {
        negative,
        whole,
        fraction,
        exponent,
        format,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_printed_with_its_parts() {
        let small = |value: i64, scale: i32, text: &str, format: &str| {
            format!(
                "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
                 d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} \
                 Format:(resource.Format){format}}}"
            )
        };
        for (text, expected) in [
            ("", small(0, 0, "", "")),
            ("0", small(0, 0, "0", "DecimalSI")),
            ("100m", small(100, -3, "100m", "DecimalSI")),
            ("2", small(2, 0, "2", "DecimalSI")),
            ("70Mi", small(70 << 20, 0, "70Mi", "BinarySI")),
            // A multiple of eight might be written otherwise.
            ("128Mi", small(128 << 20, 0, "", "BinarySI")),
            ("1e3", small(1, 3, "1e3", "DecimalExponent")),
            ("1000", small(1000, 0, "", "DecimalSI")),
            ("-0.5", small(-5, -1, "", "DecimalSI")),
        ] {
            let mut out = String::new();
            write(&mut out, text);
            assert_eq!(out, expected, "{text}");
        }
        let mut out = String::new();
        write(&mut out, "2Pi");
        // 2^51 * 10^9 in words of 64 bits.
        let words = "[5764607523034234880 122070]";
        assert!(out.contains(words), "{out}");
        assert!(out.contains("scale:(inf.Scale)9"), "{out}");
    }
}
