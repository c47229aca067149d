//! Numbers and switches as Go's `strconv` reads them, with its errors.

pub(super) use kubeproof_machinery::schema::duration::nanoseconds;

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
