//! URLs, read as Go reads those of requests.

use std::{collections::BTreeMap, fmt};

use percent_encoding::percent_decode_str;

/// The parts of a URL.
#[derive(Clone, Debug)]
pub(in crate::cel) struct Url {
    text: String,
    pub scheme: String,
    /// Host and port.
    pub host: String,
    pub path: String,
    query: String,
}

impl Url {
    /// Reads an absolute URL or an absolute path.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let fault = |detail: &str| format!("parse {text:?}: {detail}");
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(fault("net/url: invalid control character in URL"));
        }
        if text.is_empty() {
            return Err(fault("empty url"));
        }
        if text == "*" {
            return Ok(Self {
                text: text.into(),
                scheme: String::new(),
                host: String::new(),
                path: text.into(),
                query: String::new(),
            });
        }
        let (scheme, rest) = scheme(text).map_err(|detail| fault(&detail))?;
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            let relative = scheme.is_empty();
            if relative {
                return Err(fault("invalid URI for request"));
            }
            return Ok(Self {
                text: text.into(),
                scheme: scheme.to_ascii_lowercase(),
                host: String::new(),
                path: String::new(),
                query: query.into(),
            });
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            _ => ("", rest),
        };
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        host_fault(host).map_or(Ok(()), |detail| Err(fault(&detail)))?;
        for part in [path, fragment.unwrap_or_default()] {
            escape_fault(part).map_or(Ok(()), |detail| Err(fault(&detail)))?;
        }
        Ok(Self {
            text: text.into(),
            scheme: scheme.to_ascii_lowercase(),
            host: host.into(),
            path: path.into(),
            query: query.into(),
        })
    }

    /// The host without its port and brackets.
    pub(super) fn hostname(&self) -> &str {
        let host = &self.host[..self.host.len() - self.port_with_colon().len()];
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    pub(super) fn port(&self) -> &str {
        self.port_with_colon().trim_start_matches(':')
    }

    fn port_with_colon(&self) -> &str {
        let after_brackets = self.host.rfind(']').map_or(0, |at| at + 1);
        let colon = self.host[after_brackets..]
            .rfind(':')
            .map(|at| at + after_brackets);
        colon.map_or("", |at| &self.host[at..])
    }

    /// The values of each key of the query.
    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            escape_fault(text)
                .is_none()
                .then(|| percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
        };
        for pair in self
            .query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (decode(key), decode(value)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }

    /// The path with what needs it escaped.
    pub(super) fn escaped_path(&self) -> String {
        let valid =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/%[]".contains(&byte);
        self.path.bytes().fold(String::new(), |mut escaped, byte| {
            if valid(byte) {
                escaped.push(char::from(byte));
            } else {
                escaped.push_str(&format!("%{byte:02X}"));
            }
            escaped
        })
    }
}

/// What keeps a reference, which may be relative, from being read as a URL.
pub(crate) fn reference_fault(text: &str) -> Option<String> {
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let fault = if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        Some("net/url: invalid control character in URL".to_owned())
    } else {
        match scheme(text) {
            Err(fault) => Some(fault),
            Ok((_, rest)) => {
                let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
                let (authority, path) = match rest.strip_prefix("//") {
                    Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
                    None => ("", rest),
                };
                let host = authority.rsplit_once('@');
                host_fault(host.map_or(authority, |(_, host)| host))
                    .or_else(|| escape_fault(path))
                    .or_else(|| escape_fault(fragment))
            }
        }
    };
    fault.map(|detail| format!("parse {text:?}: {detail}"))
}

/// The scheme and what follows it.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    if let Some((first, _)) = text.split_once('/')
        && first.contains(':')
    {
        return Err("first path segment in URL cannot contain colon".to_owned());
    }
    Ok(("", text))
}

fn host_fault(host: &str) -> Option<String> {
    let after_name = if host.starts_with('[') {
        match host.rfind(']') {
            Some(end) => &host[end + 1..],
            None => return Some("missing ']' in host".to_owned()),
        }
    } else {
        // Colons of a name without brackets are of a port, of which there is one.
        host.find(':').map_or("", |colon| &host[colon..])
    };
    let port = after_name.strip_prefix(':').unwrap_or(after_name);
    let valid = after_name.is_empty()
        || after_name.starts_with(':') && port.bytes().all(|byte| byte.is_ascii_digit());
    if !valid {
        return Some(format!("invalid port {after_name:?} after host"));
    }
    let odd = host.chars().find(|c| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c)
    });
    odd.map(|letter| format!("invalid character {:?} in host name", letter.to_string()))
}

fn escape_fault(part: &str) -> Option<String> {
    let bytes = part.as_bytes();
    let at = (0..bytes.len()).find(|at| {
        bytes[*at] == b'%'
            && !(bytes.len() > at + 2
                && bytes[at + 1].is_ascii_hexdigit()
                && bytes[at + 2].is_ascii_hexdigit())
    })?;
    let shown = String::from_utf8_lossy(&bytes[at..(at + 3).min(bytes.len())]).into_owned();
    Some(format!("invalid URL escape {shown:?}"))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
