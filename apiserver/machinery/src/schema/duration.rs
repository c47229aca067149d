//! Durations as Go reads them: in flags, in the `timeout` of a request, in the schedules of CronJobs.

use super::time::quoted;

/// Reads a duration such as `-1h2.5m` as nanoseconds: Go's `time.ParseDuration`.
///
/// # Errors
/// Go's message, for a text without a number or a known unit, and for more than 292 years.
pub fn nanoseconds(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let (negative, mut rest) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let whole = digits(rest);
        let fraction = rest[whole.len()..].strip_prefix('.').map(digits);
        let number_len = whole.len() + fraction.map_or(0, |digits| digits.len() + 1);
        if whole.is_empty() && fraction.is_none_or(str::is_empty) {
            return Err(invalid());
        }
        rest = &rest[number_len..];
        let unit_len = rest
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (unit, after) = rest.split_at(unit_len);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let scale = unit_nanos(unit).ok_or_else(|| {
            format!(
                "time: unknown unit {} in duration {}",
                quoted(unit),
                quoted(text)
            )
        })?;
        let value = match whole {
            "" => 0,
            digits => digits.parse::<u64>().map_err(|_| invalid())?,
        };
        total += u128::from(value) * u128::from(scale) + part_of(fraction.unwrap_or(""), scale);
        if total > 1 << 63 {
            return Err(invalid());
        }
        rest = after;
    }
    let signed = match negative {
        true => -i128::try_from(total).unwrap_or(i128::MAX),
        false => i128::try_from(total).unwrap_or(i128::MAX),
    };
    i64::try_from(signed).map_err(|_| invalid())
}

fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

/// The nanoseconds of `0.fraction` of a unit; digits beyond a nanosecond don't count.
fn part_of(fraction: &str, scale: u64) -> u128 {
    let (sum, _) = fraction.bytes().take(18).fold(
        (0, u128::from(scale) * 10_u128.pow(18)),
        |(sum, place), digit| {
            let place = place / 10;
            (sum + u128::from(digit - b'0') * place, place)
        },
    );
    sum / 10_u128.pow(18)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("0", Ok(0)),
            ("1.5s", Ok(1_500_000_000)),
            ("-1h2m3.25s", Ok(-3_723_250_000_000)),
            ("+.5ms", Ok(500_000)),
            ("1\u{3bc}s", Ok(1_000)),
            ("5", Err("time: missing unit in duration \"5\"")),
            ("abc", Err("time: invalid duration \"abc\"")),
            (".s", Err("time: invalid duration \".s\"")),
            ("-", Err("time: invalid duration \"-\"")),
            ("1d", Err("time: unknown unit \"d\" in duration \"1d\"")),
            ("1 s", Err("time: unknown unit \" s\" in duration \"1 s\"")),
            (
                "1\"",
                Err("time: unknown unit \"\\\"\" in duration \"1\\\"\""),
            ),
            (
                "99999999999h",
                Err("time: invalid duration \"99999999999h\""),
            ),
            (
                "99999999999999999999s",
                Err("time: invalid duration \"99999999999999999999s\""),
            ),
        ];
        for (text, want) in cases {
            assert_eq!(nanoseconds(text), want.map_err(str::to_owned), "{text}");
        }
    }
}
