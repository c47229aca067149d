//! How Go prints the memory of a parsed quantity.

/// The longest number that is kept as an integer.
const DIGITS_MAX: i32 = 18;
/// The decimals of a number that is not kept as an integer.
const DECIMALS: i32 = 9;

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

/// A quantity in canonical form: without a sign, a fraction or leading zeros.
struct Parts<'a> {
    digits: &'a str,
    /// Of ten, in binary units of two.
    exponent: i32,
    format: Format,
}

/// Prints the struct that Go makes of a quantity's text, which is in canonical form: the server
/// stores no other, and pod templates have no negative ones.
///
/// Source: `pkg/api/resource/quantity.go`, ParseQuantity.
pub(super) fn write(out: &mut String, text: &str) {
    let printed = parse(text).map(|parts| print(&parts, text));
    out.push_str(&printed.unwrap_or_else(|| small(0, 0, "", "")));
}

fn small(value: i64, scale: i32, text: &str, format: &str) -> String {
    format!(
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} \
         Format:(resource.Format){format}}}"
    )
}

fn print(parts: &Parts<'_>, text: &str) -> String {
    let length = i32::try_from(parts.digits.len()).unwrap_or(i32::MAX);
    let (room, mantissa, scale) = match parts.format {
        Format::BinarySi => (
            15 - length - parts.exponent * 3 / 10 - 1,
            1_i64.checked_shl(parts.exponent.unsigned_abs()),
            0,
        ),
        Format::DecimalSi | Format::DecimalExponent => {
            (DIGITS_MAX.saturating_sub(length), Some(1), parts.exponent)
        }
    };
    let value: Option<i64> = parts.digits.parse().ok();
    let amount = value
        .zip(mantissa)
        .and_then(|(value, own)| value.checked_mul(own));
    let (Some(value), Some(amount)) = (value, amount.filter(|_| room >= 0)) else {
        return large(parts);
    };
    // A multiple of eight of a binary unit might be written otherwise.
    let is_kept = parts.format != Format::BinarySi || value & 7 != 0;
    let text = if is_kept { text } else { "" };
    small(amount, scale, text, parts.format.name())
}

/// Formats a number too long for an integer, as a decimal with nine decimals.
fn large(parts: &Parts<'_>) -> String {
    let digits: u128 = parts.digits.parse().unwrap_or(u128::MAX);
    let power = |base: u128, exponent: i32| {
        base.saturating_pow(u32::try_from(exponent).unwrap_or_default())
    };
    let unit = match parts.format {
        Format::BinarySi => power(2, parts.exponent).saturating_mul(power(10, DECIMALS)),
        _ => power(10, parts.exponent + DECIMALS),
    };
    let unscaled = digits.saturating_mul(unit);
    let words: Vec<String> = [unscaled as u64, (unscaled >> 64) as u64]
        .iter()
        .take(if unscaled >> 64 == 0 { 1 } else { 2 })
        .map(u64::to_string)
        .collect();
    format!(
        "{{i:(resource.int64Amount){{value:(int64)0 scale:(resource.Scale)0}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool)false \
         abs:(big.nat)[{}]}} scale:(inf.Scale){DECIMALS}}}}} s:(string) \
         Format:(resource.Format){}}}",
        words.join(" "),
        parts.format.name()
    )
}

fn parse(text: &str) -> Option<Parts<'_>> {
    let is_suffix = |c: char| !c.is_ascii_digit();
    let (digits, suffix) = text.split_at(text.find(is_suffix).unwrap_or(text.len()));
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
    Some(Parts {
        digits,
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
            ("0", small(0, 0, "0", "DecimalSI")),
            ("100m", small(100, -3, "100m", "DecimalSI")),
            ("2", small(2, 0, "2", "DecimalSI")),
            ("70Mi", small(70 << 20, 0, "70Mi", "BinarySI")),
            // A multiple of eight might be written otherwise.
            ("128Mi", small(128 << 20, 0, "", "BinarySI")),
            ("1e3", small(1, 3, "1e3", "DecimalExponent")),
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
