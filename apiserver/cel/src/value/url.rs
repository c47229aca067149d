//! URLs, read as Go's `net/url` reads them.

mod authority;

use std::{collections::BTreeMap, fmt};

use percent_encoding::percent_decode_str;

/// The parts of a URL.
#[derive(Clone, Debug)]
pub struct Url {
    pub scheme: String,
    /// The text after the scheme of a URL without a path.
    opaque: String,
    user: Option<String>,
    has_authority: bool,
    /// Host and port.
    pub host: String,
    /// As it is written, escapes included.
    path: String,
    query: Option<String>,
    fragment: String,
}

impl Url {
    /// Reads an absolute URL or an absolute path. Go checks the whole text as the URL of a
    /// request, which has no fragment, and then reads it with one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        request_fault(text).map_or(Ok(()), Err)?;
        Self::reference(text)
    }

    /// Reads a reference, which may be relative.
    fn reference(text: &str) -> Result<Self, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url =
            parts(before, false).map_err(|detail| format!("parse {before:?}: {detail}"))?;
        escape_fault(fragment).map_or(Ok(()), |detail| Err(format!("parse {text:?}: {detail}")))?;
        fragment.clone_into(&mut url.fragment);
        Ok(url)
    }

    /// The host without its port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let host = &self.host[..self.host.len() - self.port_with_colon().len()];
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    pub(crate) fn port(&self) -> &str {
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
    pub(crate) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            escape_fault(text)
                .is_none()
                .then(|| percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
        };
        let query = self.query.as_deref().unwrap_or_default();
        for pair in query
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

    /// Returns the path as written if all its characters are valid, or else escaped again.
    pub(crate) fn escaped_path(&self) -> String {
        let valid =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/%[]".contains(&byte);
        if self.path.bytes().all(valid) {
            return self.path.clone();
        }
        escaped(&decoded(&self.path), b"-_.~$&+,/:;=@")
    }
}

/// Returns the fault of a text that is not the URL of a request.
fn request_fault(text: &str) -> Option<String> {
    let fault = parts(text, true).err();
    fault.map(|detail| format!("parse {text:?}: {detail}"))
}

/// Returns the fault of a reference, absolute or relative, that is not a URL.
pub fn reference_fault(text: &str) -> Option<String> {
    Url::reference(text).err()
}

/// Reads a text without a fragment, either as the URL of a request or as a reference.
fn parts(text: &str, is_request: bool) -> Result<Url, String> {
    let mut url = Url {
        scheme: String::new(),
        opaque: String::new(),
        user: None,
        has_authority: false,
        host: String::new(),
        path: String::new(),
        query: None,
        fragment: String::new(),
    };
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && is_request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        text.clone_into(&mut url.path);
        return Ok(url);
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query.to_owned())),
        None => (rest, None),
    };
    url.query = query;
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if is_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest
            .split('/')
            .next()
            .is_some_and(|first| first.contains(':'))
        {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let may_have_authority = !scheme.is_empty() || !is_request && !rest.starts_with("///");
    let mut path = rest;
    if let Some(rest) = rest.strip_prefix("//").filter(|_| may_have_authority) {
        let (authority, after) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        path = after;
        url.has_authority = true;
        (url.user, url.host) = authority::parse(&url.scheme, authority)?;
    }
    escape_fault(path).map_or(Ok(()), Err)?;
    path.clone_into(&mut url.path);
    Ok(url)
}

/// Splits the scheme off. It is empty where the text has none.
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
    Ok(("", text))
}

fn escape_fault(part: &str) -> Option<String> {
    let bytes = part.as_bytes();
    let mut starts = (0..bytes.len()).filter(|at| bytes[*at] == b'%');
    let at = starts.find(|at| escaped_byte(&bytes[*at..]).is_none())?;
    Some(invalid_escape(&bytes[at..]))
}

/// Returns the byte of the escape at the beginning of a text.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digits = text.get(1..3)?;
    let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

fn invalid_escape(text: &[u8]) -> String {
    let escape = String::from_utf8_lossy(&text[..text.len().min(3)]);
    format!("invalid URL escape {escape:?}")
}

fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// Escapes all bytes but letters, digits and those of `plain`.
fn escaped(bytes: &[u8], plain: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || plain.contains(byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
        escaped
    })
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            let is_shown = !self.host.is_empty() || !self.path.is_empty() || self.user.is_some();
            if self.has_authority && is_shown {
                f.write_str("//")?;
            }
            if let Some(user) = &self.user {
                let (name, password) = match user.split_once(':') {
                    Some((name, password)) => (name, Some(password)),
                    None => (user.as_str(), None),
                };
                let escaped = |text: &str| escaped(&decoded(text), b"-_.~$&+,;=");
                f.write_str(&escaped(name))?;
                if let Some(password) = password {
                    write!(f, ":{}", escaped(password))?;
                }
                f.write_str("@")?;
            }
            let host = escaped(self.host.as_bytes(), b"-_.~!$&'()*+,;=:[]<>\"");
            write!(f, "{host}{}", self.escaped_path())?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.fragment)?;
        }
        Ok(())
    }
}
