//! The formats of names, label keys and label values, with upstream's texts for their faults.
//!
//! Each function answers every fault of the value; nothing when it is well formed.

use std::net::IpAddr;

/// The rule that names of a resource follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most resources.
    DnsSubdomain,
    /// As [`DnsSubdomain`](Self::DnsSubdomain), but a prefix is left to the rule of names that are made of it: DeviceClasses and
    /// ReplicationControllers, whose names upstream declares as long names.
    LongName,
    /// RFC 1123 label: namespaces, services of v1.36.
    DnsLabel,
    /// RFC 1035 label: a label that starts with a letter.
    Dns1035Label,
    /// Anything that fits one segment of a path: RBAC and custom storage names.
    PathSegment,
    /// Any name: CertificateSigningRequests. It is then checked as a segment of a path, as all names are.
    Any,
    /// An IP address as Go writes it.
    IpAddress,
}

impl NameRule {
    /// Returns the faults of `name`; `prefix` if the name is a `generateName`.
    #[must_use]
    pub fn faults(self, name: &str, prefix: bool) -> Vec<String> {
        let masked = if prefix {
            mask_trailing_dash(name)
        } else {
            name.to_owned()
        };
        match self {
            Self::Any => Vec::new(),
            Self::LongName if prefix => Vec::new(),
            Self::DnsSubdomain | Self::LongName => dns1123_subdomain(&masked),
            Self::DnsLabel => dns1123_label(&masked),
            Self::Dns1035Label => dns1035_label(&masked),
            Self::PathSegment if prefix => path_segment_prefix(name),
            Self::PathSegment => path_segment_name(name),
            Self::IpAddress => ip_address(name),
        }
    }
}

/// An IP address, in the one form that Go writes it in.
fn ip_address(value: &str) -> Vec<String> {
    let without_zeros = || {
        let parts = value
            .split('.')
            .map(|part| match part.trim_start_matches('0') {
                "" if !part.is_empty() => "0",
                rest => rest,
            });
        parts.collect::<Vec<_>>().join(".")
    };
    let fault = match value.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address".to_owned()
        }
        Ok(address) if address.to_string() != value => {
            format!("must be in canonical form (\"{address}\")")
        }
        Ok(_) => return Vec::new(),
        Err(_) if without_zeros().parse::<IpAddr>().is_ok() => {
            "must not have leading 0s".to_owned()
        }
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned(),
    };
    vec![fault]
}

/// A prefix may end in a dash, since characters follow. Upstream drops the character before the
/// dash as well, which only matters for a prefix one character too long.
fn mask_trailing_dash(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut chars = rest.chars();
            chars.next_back();
            format!("{}a", chars.as_str())
        }
        _ => name.to_owned(),
    }
}

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_FAULT: &str = "must consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character";

/// The text for a value that does not match `pattern`.
fn pattern_fault(what: &str, pattern: &str, examples: &[&str]) -> String {
    let mut text = format!("{what} (");
    for (index, example) in examples.iter().enumerate() {
        text.push_str(if index == 0 { "e.g. " } else { " or " });
        text.push_str(&format!("'{example}', "));
    }
    text.push_str(&format!("regex used for validation is '{pattern}')"));
    text
}

/// First and last character satisfy `edge`, those between `edge` or `extra`.
fn is_word(value: &str, edge: fn(u8) -> bool, extra: &[u8]) -> bool {
    let bytes = value.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => {
            edge(first) && edge(last) && bytes.iter().all(|&b| edge(b) || extra.contains(&b))
        }
        _ => false,
    }
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_subdomain(value: &str) -> bool {
    value
        .split('.')
        .all(|label| is_word(label, is_lower_alphanumeric, b"-"))
}

/// RFC 1123 subdomain, at most 253 characters.
#[must_use]
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain_in(value, "characters")
}

/// Upstream counts the same length in `characters` or in `bytes`, depending on the caller.
/// A subdomain of any one label, `*.example.com`.
pub fn wildcard_subdomain(value: &str) -> Vec<String> {
    let is_valid = value.strip_prefix("*.").is_some_and(is_subdomain);
    match is_valid {
        true => Vec::new(),
        false => vec![pattern_fault(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
             which must consist of lower case alphanumeric characters, '-' or '.' and end with an \
             alphanumeric character",
            &format!(r"\*\.{DNS1123_SUBDOMAIN}"),
            &["*.example.com"],
        )],
    }
}

fn subdomain_in(value: &str, unit: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 253 {
        faults.push(format!("must be no more than 253 {unit}"));
    }
    if !is_subdomain(value) {
        faults.push(pattern_fault(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    faults
}

/// RFC 1123 label, at most 63 characters.
#[must_use]
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push("must be no more than 63 characters".to_owned());
    }
    if !is_word(value, is_lower_alphanumeric, b"-") {
        faults.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern_fault(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                 or '-', and must start and end with an alphanumeric character",
                DNS1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    faults
}

/// RFC 1035 label, at most 63 characters.
#[must_use]
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push("must be no more than 63 characters".to_owned());
    }
    let starts_with_letter = value.starts_with(|c: char| c.is_ascii_lowercase());
    if !starts_with_letter || !is_word(value, is_lower_alphanumeric, b"-") {
        faults.push(pattern_fault(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    faults
}

/// One segment of a path: neither `.` nor `..`, without `/` and `%`.
#[must_use]
pub fn path_segment_name(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        vec![format!("may not be '{name}'")]
    } else {
        path_segment_prefix(name)
    }
}

/// The start of a path segment: without `/` and `%`.
#[must_use]
pub fn path_segment_prefix(name: &str) -> Vec<String> {
    ['/', '%']
        .iter()
        .filter(|&&c| name.contains(c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// Qualified name: an optional subdomain and `/`, then a name of at most 63 bytes. Label keys,
/// annotation keys in lower case, finalizers, condition types.
#[must_use]
pub fn qualified_name(value: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut faults = Vec::new();
    let name = match value.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                let of_prefix = subdomain_in(prefix, "bytes");
                faults.extend(of_prefix.iter().map(|fault| format!("prefix part {fault}")));
            }
            *name
        }
        _ => {
            let what = pattern_fault(LABEL_KEY_FAULT, LABEL_KEY, &examples);
            return vec![format!(
                "a valid label key {what} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name, is_alphanumeric, b"-_.") {
        let what = pattern_fault(LABEL_KEY_FAULT, LABEL_KEY, &examples);
        faults.push(format!("name part {what}"));
    }
    faults
}

/// Label value: empty or at most 63 bytes of a name.
#[must_use]
pub fn label_value(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_word(value, is_alphanumeric, b"-_.") {
        faults.push(pattern_fault(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character",
            &format!("({LABEL_KEY})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// Key of a `ConfigMap` or `Secret`.
#[must_use]
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 253 {
        faults.push("must be no more than 253 characters".to_owned());
    }
    let is_key_char = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if value.is_empty() || !value.bytes().all(is_key_char) {
        faults.push(pattern_fault(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match value {
        "." | ".." => faults.push(format!("must not be '{value}'")),
        _ if value.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&str) -> Vec<String>;

    #[test]
    fn well_formed_values_have_no_faults() {
        let long_label = "a".repeat(63);
        let long_key = format!("example.com/{long_label}");
        let cases: &[(Check, &[&str])] = &[
            (dns1123_subdomain, &["a", "a.b", "1-2.c", "0", &long_label]),
            (dns1123_label, &["a", "1-2", &long_label]),
            (dns1035_label, &["a", "a-2", &long_label]),
            (path_segment_name, &["", "A:b", "...", "system:node"]),
            (
                qualified_name,
                &["a", "A_b.c-d", "example.com/x", &long_key],
            ),
            (label_value, &["", "a", "A_b.c-1", &long_label]),
            (config_map_key, &["a", ".a", "-", "A_b.txt"]),
        ];
        for (check, values) in cases {
            for value in *values {
                assert_eq!(check(value), Vec::<String>::new(), "{value:?}");
            }
        }
    }

    #[test]
    fn malformed_values_name_their_faults() {
        let long = "a".repeat(64);
        let long_prefix = format!("{}/k", "a".repeat(254));
        let cases: &[(Check, &str, &[&str])] = &[
            (dns1123_subdomain, "", &["a lowercase RFC 1123 subdomain"]),
            (
                dns1123_subdomain,
                "a..b",
                &["a lowercase RFC 1123 subdomain"],
            ),
            (dns1123_subdomain, "A", &["a lowercase RFC 1123 subdomain"]),
            (dns1123_label, "has.dot", &["must not contain dots"]),
            (dns1123_label, "Bad.Dot", &["a lowercase RFC 1123 label"]),
            (
                dns1123_label,
                &long,
                &["must be no more than 63 characters"],
            ),
            (dns1035_label, "1a", &["a DNS-1035 label"]),
            (path_segment_name, "..", &["may not be '..'"]),
            (
                path_segment_name,
                "a/%",
                &["may not contain '/'", "may not contain '%'"],
            ),
            (
                qualified_name,
                "",
                &["name part must be non-empty", "name part must consist"],
            ),
            (qualified_name, "/k", &["prefix part must be non-empty"]),
            (qualified_name, "a/b/c", &["a valid label key must consist"]),
            (
                qualified_name,
                &long_prefix,
                &["prefix part must be no more than 253 bytes"],
            ),
            (label_value, "-x", &["a valid label must be"]),
            (label_value, &long, &["must be no more than 63 bytes"]),
            (config_map_key, "..", &["must not be '..'"]),
            (config_map_key, "a b", &["a valid config key"]),
        ];
        for (check, value, starts) in cases {
            let faults = check(value);
            assert_eq!(faults.len(), starts.len(), "{value:?}: {faults:?}");
            for (fault, start) in faults.iter().zip(*starts) {
                assert!(fault.starts_with(start), "{value:?}: {fault}");
            }
        }
    }

    #[test]
    fn texts_are_upstreams() {
        assert_eq!(
            dns1123_label("Bad.Name"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                 '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
                 '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(
            qualified_name("a/b/c"),
            [
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  \
                 or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix \
                 and '/' (e.g. 'example.com/MyName')"
            ]
        );
        assert_eq!(
            label_value("bad value!"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, \
                 '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }

    #[test]
    fn a_prefix_may_end_in_a_dash_a_name_may_not() {
        for rule in [
            NameRule::DnsSubdomain,
            NameRule::DnsLabel,
            NameRule::Dns1035Label,
        ] {
            assert!(rule.faults("web-", true).is_empty());
            assert!(!rule.faults("web-", false).is_empty());
            assert!(!rule.faults("-", true).is_empty());
        }
        assert!(NameRule::PathSegment.faults("..", true).is_empty());
        assert!(!NameRule::PathSegment.faults("..", false).is_empty());
    }
}
