//! The part of a URL before its path: user, host and port.

use percent_encoding::percent_decode_str;

use super::{escape_fault, escaped_byte, invalid_escape};
use crate::value::parse_addr::parse_addr;

/// Reads `[user@]host[:port]`, and returns the user as it is written and the host unescaped.
///
/// # Errors
///
/// Go's fault, in its words.
pub(super) fn parse(scheme: &str, authority: &str) -> Result<(Option<String>, String), String> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Ok((None, parse_host(scheme, authority)?));
    };
    let host = parse_host(scheme, host)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let fault = escape_fault(name).or_else(|| escape_fault(password));
    fault.map_or(Ok((Some(user.to_owned()), host)), Err)
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => return parse_literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    if let Some(first) = host.find(':') {
        // Database URLs have lists of hosts with ports; an HTTP URL has one host.
        let is_http = matches!(scheme, "http" | "https");
        let last = host.rfind(':').unwrap_or(first);
        check_port(&host[if is_http { first } else { last }..])?;
    }
    unescaped(host, false)
}

/// Reads an address in brackets, with its port.
fn parse_literal(host: &str) -> Result<String, String> {
    let Some(end) = host.rfind(']') else {
        return Err("missing ']' in host".to_owned());
    };
    let port = &host[end + 1..];
    check_port(port)?;
    let port = unescaped(port, false)?;
    let address = &host[1..end];
    // An escaped percent sign introduces the zone, in which other ASCII may be escaped.
    let address = match address.find("%25") {
        Some(at) => unescaped(&address[..at], false)? + &unescaped(&address[at..], true)?,
        None => unescaped(address, false)?,
    };
    let (parsed, _) = parse_addr(&address).map_err(|fault| format!("invalid host: {fault}"))?;
    if parsed.is_ipv4() {
        return Err("invalid IP-literal".to_owned());
    }
    Ok(format!("[{address}]{port}"))
}

fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':');
    let is_valid = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if port.is_empty() || digits.is_some_and(is_valid) {
        return Ok(());
    }
    Err(format!("invalid port {port:?} after host"))
}

/// Removes the escapes of a host, or of the zone of an address.
fn unescaped(text: &str, is_zone: bool) -> Result<String, String> {
    let is_plain = |byte: u8| {
        byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
    };
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if letter != '%' {
            if letter.is_ascii() && !is_plain(letter as u8) {
                let letter = letter.to_string();
                return Err(format!("invalid character {letter:?} in host name"));
            }
            rest = &rest[letter.len_utf8()..];
            continue;
        }
        let is_allowed = |byte: &u8| match (*byte, is_zone) {
            (b'%', _) => true,
            (byte, true) => byte == b' ' || byte < 0x80 && is_plain(byte),
            (byte, false) => byte >= 0x80,
        };
        let byte = escaped_byte(rest.as_bytes()).filter(is_allowed);
        byte.ok_or_else(|| invalid_escape(rest.as_bytes()))?;
        rest = &rest[3..];
    }
    Ok(percent_decode_str(text).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_taken_and_refused_as_by_go() {
        for (authority, want) in [
            ("h", Ok("h")),
            ("h:80", Ok("h:80")),
            ("h:", Ok("h:")),
            ("u:p@h", Ok("h")),
            ("%C3%A9", Ok("é")),
            ("é", Ok("é")),
            ("[::1]:80", Ok("[::1]:80")),
            ("[fe80::1%25en%200]", Ok("[fe80::1%en 0]")),
            ("h:8200#f", Err("invalid port \":8200#f\" after host")),
            ("h#f", Err("invalid character \"#\" in host name")),
            ("a:1:2", Err("invalid port \":1:2\" after host")),
            ("[fe80::1%en0]", Err("invalid URL escape \"%en\"")),
            ("[::1", Err("missing ']' in host")),
            ("a[::1]", Err("invalid IP-literal")),
            ("[1.2.3.4]", Err("invalid IP-literal")),
            (
                "[x]",
                Err("invalid host: ParseAddr(\"x\"): unable to parse IP"),
            ),
            ("[::1]x", Err("invalid port \"x\" after host")),
            ("%41", Err("invalid URL escape \"%41\"")),
            ("%zz", Err("invalid URL escape \"%zz\"")),
            ("%4", Err("invalid URL escape \"%4\"")),
            ("u^@h", Err("net/url: invalid userinfo")),
            ("u%@h", Err("invalid URL escape \"%\"")),
            ("a b", Err("invalid character \" \" in host name")),
        ] {
            let parsed = parse("https", authority).map(|(_, host)| host);
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(parsed, want, "{authority}");
        }
        assert_eq!(
            parse("postgres", "a:1,b:2").map(|(_, host)| host),
            Ok("a:1,b:2".to_owned())
        );
    }
}
