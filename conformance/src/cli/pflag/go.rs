//! Numbers, switches and durations as Go's `strconv` and `time` read them, with their errors.

/// Returns a text as Go's `%q` writes it.
pub(super) fn quoted(text: &str) -> String {
    kubeproof_apiserver::status::quoted(text)
}

/// Reads a switch: `strconv.ParseBool`.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(fault("ParseBool", text, SYNTAX)),
    }
}

const SYNTAX: &str = "invalid syntax";
const RANGE: &str = "value out of range";

fn fault(function: &str, text: &str, why: &str) -> String {
    format!("strconv.{function}: parsing {}: {why}", quoted(text))
}

/// Returns the error of a number that is too large.
pub(super) fn out_of_range(function: &str, text: &str) -> String {
    fault(function, text, RANGE)
}

/// Reads a signed number of `bits` in the base of its prefix: `strconv.ParseInt(text, 0, bits)`.
pub(super) fn integer(text: &str, bits: u32) -> Result<i64, String> {
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let size = magnitude(digits).map_err(|why| fault("ParseInt", text, why))?;
    let limit = 1_u128 << (bits - 1);
    let value = match is_negative {
        true if size <= limit => -i128::try_from(size).unwrap_or(i128::MAX),
        false if size < limit => i128::try_from(size).unwrap_or(i128::MAX),
        _ => return Err(fault("ParseInt", text, RANGE)),
    };
    i64::try_from(value).map_err(|_| fault("ParseInt", text, RANGE))
}

/// Reads a number without sign in the base of its prefix: `strconv.ParseUint(text, 0, 64)`.
pub(super) fn unsigned(text: &str) -> Result<u64, String> {
    let size = magnitude(text).map_err(|why| fault("ParseUint", text, why))?;
    u64::try_from(size).map_err(|_| fault("ParseUint", text, RANGE))
}

/// Reads a verbosity: `strconv.ParseUint(text, 10, 31)`.
pub(super) fn level(text: &str) -> Result<i64, String> {
    let why = match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        false => SYNTAX,
        true => match text.parse() {
            Ok(level) if level < 1 << 31 => return Ok(level),
            _ => RANGE,
        },
    };
    Err(fault("ParseUint", text, why))
}

/// Reads a decimal number: `strconv.Atoi`.
pub(super) fn atoi(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fault("Atoi", text, SYNTAX));
    }
    text.parse().map_err(|_| fault("Atoi", text, RANGE))
}

/// Reads a fraction: `strconv.ParseFloat`, without hexadecimal ones.
pub(super) fn float(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_infinite() && !text.to_ascii_lowercase().contains("inf") => {
            Err(fault("ParseFloat", text, RANGE))
        }
        Ok(value) => Ok(value),
        Err(_) => Err(fault("ParseFloat", text, SYNTAX)),
    }
}

/// Reads digits after the prefix of their base. Underscores may separate them.
fn magnitude(text: &str) -> Result<u128, &'static str> {
    let lower = text.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let is_open = digits.ends_with('_') || digits.contains("__");
    if digits.is_empty() || is_open || (base == 10 && digits.starts_with('_')) {
        return Err(SYNTAX);
    }
    let digits = digits.replace('_', "");
    if !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(SYNTAX);
    }
    u128::from_str_radix(&digits, base).map_err(|_| RANGE)
}

/// Reads a duration such as `-1h2.5m` as nanoseconds: `time.ParseDuration`.
pub(super) fn nanoseconds(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let (is_negative, mut rest) = match text.as_bytes() {
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
    let mut total = 0_u128;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit();
        let end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.find(|c| !is_digit(c)).unwrap_or(after.len())),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c| c == '.' || is_digit(c));
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let scale = match unit {
            "" => {
                return Err(format!("time: missing unit in duration {}", quoted(text)));
            }
            "ns" => 1_u128,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => {
                let (unit, text) = (quoted(unit), quoted(text));
                return Err(format!("time: unknown unit {unit} in duration {text}"));
            }
        };
        let whole: u64 = match whole {
            "" => 0,
            digits => digits.parse().map_err(|_| invalid())?,
        };
        let (part, _) = fraction
            .bytes()
            .take(18)
            .fold((0, scale * 10_u128.pow(18)), |(sum, place), digit| {
                (sum + u128::from(digit - b'0') * (place / 10), place / 10)
            });
        total += u128::from(whole) * scale + part / 10_u128.pow(18);
        if total > 1 << 63 {
            return Err(invalid());
        }
        rest = after;
    }
    let total = i128::try_from(total).map_err(|_| invalid())?;
    let signed = if is_negative { -total } else { total };
    i64::try_from(signed).map_err(|_| invalid())
}
