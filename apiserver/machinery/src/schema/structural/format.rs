//! Formats of strings in schemas.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use super::pattern::Regexp;

/// Expressions that are formats by themselves, as upstream registers them.
static EXPRESSIONS: LazyLock<Vec<(&str, Regexp)>> = LazyLock::new(|| {
    let uuid = |third: &str, fourth: &str| {
        format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$")
    };
    let any = "[0-9a-f]{4}";
    let byte = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])";
    let short_name = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let expressions = [
        ("uuid", uuid(any, any)),
        ("uuid3", uuid("3[0-9a-f]{3}", any)),
        ("uuid4", uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
        ("uuid5", uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
        ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$".to_owned()),
        ("rgbcolor", format!(r"^rgb\(\s*{byte}\s*,\s*{byte}\s*,\s*{byte}\s*\)$")),
        ("byte", "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$".to_owned()),
        ("bsonobjectid", "^[0-9a-fA-F]{24}$".to_owned()),
        ("creditcard", r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$".to_owned()),
        ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$".to_owned()),
        ("k8sshortname", format!("^{short_name}$")),
        ("k8slongname", format!(r"^{short_name}(\.{short_name})*$")),
        ("hostname", r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$".to_owned()),
    ];
    expressions
        .map(|(name, text)| {
            (
                name,
                Regexp::compile(&text).expect("the expressions are well-formed"),
            )
        })
        .into()
});

/// The time of a `date-time`, in lower case.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    let time = r"\A([0-9]{2}):([0-9]{2}):([0-9]{2})([^\n][0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))\z";
    Regex::new(time).expect("the expression is well-formed")
});

/// One part of a `duration`.
static DURATION_PART: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)";
    Regex::new(part).expect("the expression is well-formed")
});

/// The string formats that are validated; others are only documentation.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether `format` is validated in a schema of `value_type`.
#[must_use]
pub fn is_supported(value_type: &str, format: &str) -> bool {
    match value_type {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether `text` has the format, which must be one of strings; dashes in its name do not matter.
#[must_use]
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "password" => true,
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_go_duration(text) || is_duration(text),
        "ipv4" => {
            ip(text).is_some_and(|ip| ip.is_ipv4() || text.contains('.')) && text.contains('.')
        }
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "isbn10" => is_isbn10(&bare(text)),
        "isbn13" => is_isbn13(&bare(text)),
        "isbn" => is_isbn10(&bare(text)) || is_isbn13(&bare(text)),
        "creditcard" => {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            expression("creditcard").is_match(&digits) && luhn(&digits)
        }
        "ssn" => text.len() == 11 && expression("ssn").is_match(text),
        "k8sshortname" => text.len() <= 63 && expression("k8sshortname").is_match(text),
        "k8slongname" => text.len() <= 253 && expression("k8slongname").is_match(text),
        "hostname" => {
            let labels_fit = text.split('.').all(|label| label.len() <= 63);
            text.len() <= 255 && labels_fit && expression("hostname").is_match(text)
        }
        name => expression(name).is_match(text),
    }
}

fn expression(name: &str) -> &'static Regexp {
    let mut expressions = EXPRESSIONS.iter();
    let found = expressions.find(|(known, _)| *known == name);
    &found
        .expect("supported formats have an expression or a rule")
        .1
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

/// Go's own durations: `-1.5h30m`.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number =
            rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let digits = &rest[..rest.len() - number.len()];
        let dots = digits.bytes().filter(|byte| *byte == b'.').count();
        if dots > 1 || digits.len() == dots {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let unit_end = number.find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = number.split_at(unit_end.unwrap_or(number.len()));
        if !units.contains(&unit) {
            return false;
        }
        rest = after;
    }
    true
}

/// Durations in words, such as `3 days`: one part that is understood is enough.
fn is_duration(text: &str) -> bool {
    let words = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    let stems = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    DURATION_PART.captures_iter(text).any(|part| {
        let unit = part[2].to_lowercase();
        words.contains(&unit.as_str()) || stems.iter().any(|stem| unit.starts_with(stem))
    })
}

/// An address; numbers of IPv4 may begin with zeros.
fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let parts: Vec<&str> = text.split('.').collect();
    let number = |part: &&str| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part.parse::<u8>().ok()?;
        (digits && part.len() <= 3).then_some(number)
    };
    let bytes: Option<Vec<u8>> = parts.iter().map(number).collect();
    let bytes: [u8; 4] = bytes?.try_into().ok()?;
    Some(bytes.into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let max = match ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    digits && length.parse::<u32>().is_ok_and(|length| length <= max)
}

/// Six, eight or twenty bytes, in pairs or in groups of four digits.
fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let groups: Vec<&str> = text.split(separator).collect();
        let hex = |group: &&str| {
            group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        groups.iter().all(hex) && matches!(groups.len() * digits / 2, 6 | 8 | 20)
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

/// An absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let scheme_end = text.find(|letter: char| {
        !(letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
    });
    let rest = match scheme_end {
        Some(end) if end > 0 && text[end..].starts_with(':') => {
            if !text.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                return false;
            }
            &text[end + 1..]
        }
        _ if text.starts_with('/') => text,
        _ => return false,
    };
    if !rest.starts_with('/') {
        // An opaque URI, such as `mailto:a@b`.
        return rest.len() < text.len();
    }
    let (path, _query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match path.strip_prefix("//") {
        Some(rest) if rest.len() < text.len() && scheme_end.is_some_and(|end| end > 0) => {
            let slash = rest.find('/').unwrap_or(rest.len());
            rest.split_at(slash)
        }
        _ => ("", path),
    };
    is_host(host) && is_escaped(path)
}

fn is_host(host: &str) -> bool {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = if let Some(inner) = host.strip_prefix('[') {
        let Some((address, rest)) = inner.split_once(']') else {
            return false;
        };
        return !address.is_empty()
            && (rest.is_empty() || rest.strip_prefix(':').is_some_and(port));
    } else {
        match host.rsplit_once(':') {
            Some((name, digits)) if port(digits) => name,
            Some(_) => return false,
            None => host,
        }
    };
    !name.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}', '[', ']'])
}

/// Whether each percent sign is followed by two digits.
fn is_escaped(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// An address as mail has it, with or without a name: `Name <user@host>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text
        .strip_suffix('>')
        .and_then(|rest| rest.rsplit_once('<'))
    {
        Some((_, address)) => address,
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|part| !part.is_empty())
            && !text.contains(|letter: char| {
                letter.is_whitespace() || "()<>[]:;@\\,\"".contains(letter)
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (atom(local) || quoted) && (atom(domain) || domain.starts_with('['))
}

/// A number without the spaces and dashes in it.
fn bare(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_whitespace() && *letter != '-')
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let value = |(index, byte): (usize, u8)| match byte {
        b'0'..=b'9' => Some((index + 1) * usize::from(byte - b'0')),
        b'X' if index == 9 => Some(100),
        _ => None,
    };
    let sum: Option<usize> = text.bytes().enumerate().map(value).sum();
    text.len() == 10 && sum.is_some_and(|sum| sum % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let weight = |(index, byte): (usize, u8)| {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        Some(if index % 2 == 0 { digit } else { 3 * digit })
    };
    let sum: Option<usize> = text.bytes().enumerate().map(weight).sum();
    text.len() == 13 && sum.is_some_and(|sum| sum % 10 == 0)
}

fn luhn(digits: &str) -> bool {
    let value = |(index, byte): (usize, u8)| {
        let digit = u32::from(byte - b'0');
        match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        }
    };
    digits.bytes().rev().enumerate().map(value).sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_and_refuses() {
        for (format, good, bad) in [
            ("date", "2024-02-28", "2024-02-30"),
            ("date-time", "2024-01-02T03:04:05Z", "yesterday"),
            (
                "date-time",
                "2024-01-02t03:04:05.5+01:00",
                "2024-01-02T24:04:05Z",
            ),
            ("duration", "1h30m", "1 fortnight"),
            ("duration", "3 days", "x"),
            ("ipv4", "010.0.0.1", "10.0.0.256"),
            ("ipv6", "fe80::1", "fe80::g"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:11:22:33:44:55", "00:11:22"),
            ("mac", "0011.2233.4455", "0011.2233"),
            ("uuid", "123E4567e89b12d3a456426614174000", "123e4567"),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("hostname", "a.example.com", "-a-"),
            ("email", "Somebody <a@example.com>", "nobody"),
            ("uri", "https://example.com/x", "not a uri"),
            ("uri", "/path", "path"),
            ("byte", "aGVsbG8=", "%%%"),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("isbn10", "0321751043", "0321751044"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "123-45-6789", "123456789"),
            ("hexcolor", "#FFFFFF", "#FFFF"),
            ("rgbcolor", "rgb(0, 10, 255)", "rgb(0,10,256)"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("k8s-short-name", "ab-c", "AB_c"),
            ("k8s-long-name", "a.b", "A.b"),
        ] {
            assert!(matches(format, good), "{format} takes {good}");
            assert!(!matches(format, bad), "{format} refuses {bad}");
            assert!(is_supported("string", format) && !is_supported("object", format));
        }
        assert!(matches("password", "any"));
        assert!(!is_supported("string", "made-up") && is_supported("integer", "int32"));
    }
}
