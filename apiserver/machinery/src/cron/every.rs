//! The spans of `@every`, as Go writes durations.

use jiff::SignedDuration;

const NANOSECONDS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];
/// Spans are whole seconds, and at least one.
const LEAST: SignedDuration = SignedDuration::from_secs(1);

/// Reads `1h30m` or `1.5h`.
pub(super) fn parse(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(LEAST);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let known = NANOSECONDS.iter().find(|(name, _)| *name == unit);
        let (_, size) =
            known.ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        nanoseconds += number * size;
        rest = after;
    }
    let span =
        SignedDuration::try_from_secs_f64(sign * nanoseconds / 1e9).map_err(|_| invalid())?;
    Ok(SignedDuration::from_secs(span.as_secs()).max(LEAST))
}
