//! IP addresses, read as Go's `netip.ParseAddr` reads them.

use std::net::IpAddr;

/// Reads an address and its zone, which is empty without a `%`.
///
/// # Errors
///
/// Go's fault, in its words.
pub(super) fn parse_addr(text: &str) -> Result<(IpAddr, &str), String> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) if address.contains(':') && !zone.is_empty() => (address, zone),
        _ => (text, ""),
    };
    let parsed = address.parse();
    parsed
        .map(|address| (address, zone))
        .map_err(|_| fault(text))
}

/// A fault, and the rest of the text where it was found.
type Fault<'t> = (&'static str, &'t str);

fn fault(text: &str) -> String {
    let first = text.find(['.', ':', '%']);
    let found = match first.map(|at| text.as_bytes()[at]) {
        None => Some(("unable to parse IP", "")),
        Some(b'.') => ipv4_fault(text),
        Some(b'%') => Some(("missing IPv6 address", "")),
        Some(_) => ipv6_fault(text),
    };
    // Go's parser and that of the standard library take the same addresses.
    let (what, rest) = found.unwrap_or(("unable to parse IP", ""));
    match rest {
        "" => format!("ParseAddr({text:?}): {what}"),
        rest => format!("ParseAddr({text:?}): {what} (at {rest:?})"),
    }
}

fn ipv4_fault(text: &str) -> Option<Fault<'_>> {
    let (mut value, mut digits, mut dots) = (0, 0, 0);
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' if digits == 1 && value == 0 => {
                return Some(("IPv4 field has octet with leading zero", ""));
            }
            b'0'..=b'9' => {
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Some(("IPv4 field has value >255", ""));
                }
            }
            b'.' if at == 0 || at == bytes.len() - 1 || bytes[at - 1] == b'.' => {
                return Some(("IPv4 field must have at least one digit", &text[at..]));
            }
            b'.' if dots == 3 => return Some(("IPv4 address too long", "")),
            b'.' => {
                dots += 1;
                (value, digits) = (0, 0);
            }
            _ => return Some(("unexpected character", &text[at..])),
        }
    }
    (dots < 3).then_some(("IPv4 address too short", ""))
}

fn ipv6_fault(text: &str) -> Option<Fault<'_>> {
    let mut rest = text;
    if let Some((address, zone)) = text.split_once('%') {
        rest = address;
        if zone.is_empty() {
            return Some(("zone must be a non-empty string", ""));
        }
    }
    let mut has_ellipsis = false;
    if let Some(after) = rest.strip_prefix("::") {
        has_ellipsis = true;
        rest = after;
        if rest.is_empty() {
            return None;
        }
    }
    let mut bytes = 0;
    while bytes < 16 {
        let after = rest.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
        match rest.len() - after.len() {
            0 => {
                return Some((
                    "each colon-separated field must have at least one digit",
                    rest,
                ));
            }
            1..=4 => {}
            _ => return Some(("each group must have 4 or less digits", rest)),
        }
        if after.starts_with('.') {
            if !has_ellipsis && bytes != 12 {
                let what = "embedded IPv4 address must replace the final 2 fields of the address";
                return Some((what, rest));
            }
            if bytes + 4 > 16 {
                let what = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Some((what, rest));
            }
            if let Some(fault) = ipv4_fault(rest) {
                return Some(fault);
            }
            rest = "";
            bytes += 4;
            break;
        }
        bytes += 2;
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Some(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Some(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if has_ellipsis {
                return Some(("multiple :: in address", rest));
            }
            has_ellipsis = true;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    match (rest, bytes) {
        ("", ..16) if !has_ellipsis => Some(("address string too short", "")),
        ("", 16..) if has_ellipsis => {
            Some(("the :: must expand to at least one field of zeros", ""))
        }
        ("", _) => None,
        (rest, _) => Some(("trailing garbage after address", rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_those_of_go() {
        for (text, want) in [
            ("x", "unable to parse IP"),
            ("%en0", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            (
                "1..2.3",
                "IPv4 field must have at least one digit (at \".2.3\")",
            ),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.02.3.4", "IPv4 field has octet with leading zero"),
            ("1.256.3.4", "IPv4 field has value >255"),
            ("1.2.3.x", "unexpected character (at \"x\")"),
            ("fe80::1%", "zone must be a non-empty string"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("1:2", "address string too short"),
            (
                "1:2:3:4:5:6:7:8:9",
                "trailing garbage after address (at \"9\")",
            ),
            (
                "::12345",
                "each group must have 4 or less digits (at \"12345\")",
            ),
            (
                ":1",
                "each colon-separated field must have at least one digit (at \":1\")",
            ),
            ("1:", "colon must be followed by more characters (at \":\")"),
            ("1g::", "unexpected character, want colon (at \"g::\")"),
            ("::1.2", "IPv4 address too short"),
        ] {
            let want = format!("ParseAddr({text:?}): {want}");
            assert_eq!(parse_addr(text), Err(want), "{text}");
        }
        let loopback = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(parse_addr("::1%en0"), Ok((loopback, "en0")));
    }
}
