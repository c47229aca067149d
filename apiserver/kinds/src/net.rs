//! Addresses, ranges of addresses and ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::unstructured::text;
use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};

pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const LOOPBACK: &str = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
const LINK_LOCAL: &str = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
const LINK_LOCAL_MULTICAST: &str =
    "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";

/// The bits of an address from the top, whether it is an IPv6 address, and how many bits count.
struct Range {
    bits: u128,
    v6: bool,
    length: u32,
}

impl Range {
    /// The bits that the length leaves.
    fn kept(&self) -> u128 {
        match self.length {
            0 => 0,
            length => self.bits >> (128 - length) << (128 - length),
        }
    }
}

/// Parses an address as Kubernetes always did: leading zeros are allowed, and an IPv4-mapped IPv6
/// address is an IPv4 address.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        return octets(text).map(IpAddr::V4);
    }
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(':') {
        parts.push(match part.contains('.') {
            true => octets(part)?.to_string(),
            false => without_zeros(part).to_owned(),
        });
    }
    let address: Ipv6Addr = parts.join(":").parse().ok()?;
    Some(IpAddr::V6(address).to_canonical())
}

/// A number without the zeros that lead it.
fn without_zeros(digits: &str) -> &str {
    match digits.trim_start_matches('0') {
        "" if !digits.is_empty() => "0",
        rest => rest,
    }
}

fn octets(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| without_zeros(part).parse::<u8>().ok())?
    };
    let parts: Option<Vec<u8>> = text.split('.').map(number).collect();
    let parts: [u8; 4] = parts?.try_into().ok()?;
    Some(parts.into())
}

fn parse_cidr(text: &str) -> Option<Range> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let length = length.parse().ok()?;
    // The length of a range depends on the spelling of its address.
    let v6 = address.contains(':');
    let (bits, most) = match (parse_ip(address)?, v6) {
        (IpAddr::V4(own), false) => (u128::from(own.to_bits()) << 96, 32),
        (IpAddr::V4(own), true) => (own.to_ipv6_mapped().to_bits(), 128),
        (IpAddr::V6(own), _) => (own.to_bits(), 128),
    };
    (length <= most).then_some(Range { bits, v6, length })
}

/// Returns the fault of an address that other parsers may read differently.
fn ambiguity(address: &str, zeros: &'static str, mapped: &'static str) -> Option<&'static str> {
    match address.parse::<IpAddr>() {
        Err(_) => Some(zeros),
        Ok(IpAddr::V6(own)) if own.to_ipv4_mapped().is_some() => Some(mapped),
        Ok(_) => None,
    }
}

/// Whether `value` can be read as a range of addresses; a fault if not, or if it is ambiguous.
pub(super) fn validate_cidr(value: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let Some(range) = parse_cidr(text(value)) else {
        errors.invalid(path, value, CIDR);
        return false;
    };
    let (address, length) = text(value).split_once('/').unwrap_or_default();
    const ZEROS: &str = "must not have leading 0s in IP or prefix length";
    const MAPPED: &str = "must not have an IPv4-mapped IPv6 address";
    if without_zeros(length) != length {
        errors.invalid(path, value, ZEROS);
    } else if let Some(fault) = ambiguity(address, ZEROS, MAPPED) {
        errors.invalid(path, value, fault);
    } else if range.kept() != range.bits {
        let detail = "must not have bits set beyond the prefix length";
        errors.invalid(path, value, detail);
    }
    true
}

/// The one form in which Go writes a range.
fn canonical_cidr(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/')?;
    Some(format!("{}/{length}", parse_ip(address)?))
}

/// Whether `value` is a range in the one form that Go writes it in; a fault if not.
pub(super) fn validate_strict_cidr(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut own = FieldErrors::new();
    validate_cidr(value, path, &mut own);
    if own.is_empty()
        && let Some(canonical) = canonical_cidr(text(value)).filter(|own| own != text(value))
    {
        let detail = format!("must be in canonical form ({canonical:?})");
        own.invalid(path, value, &detail);
    }
    errors.extend(own);
}

/// Warns of a valid range that is not in canonical form.
pub(super) fn warn_of_cidr(value: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let own = text(value);
    let canonical = canonical_cidr(own).filter(|_| own.contains(':'));
    if let Some(canonical) = canonical.filter(|canonical| canonical != own) {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {own:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
}

/// Whether `value` can be read as an address; a fault if not, or if it is ambiguous.
pub(super) fn validate_ip(
    value: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Option<IpAddr> {
    let Some(address) = parse_ip(text(value)) else {
        errors.invalid(path, value, IP);
        return None;
    };
    const ZEROS: &str = "must not have leading 0s";
    const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";
    if let Some(fault) = ambiguity(text(value), ZEROS, MAPPED) {
        errors.invalid(path, value, fault);
        return None;
    }
    Some(address)
}

/// Reads `value` like [`validate_ip`], and requires the canonical form, as Go writes it.
pub(super) fn validate_strict_ip(
    value: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Option<IpAddr> {
    let address = validate_ip(value, path, errors)?;
    let canonical = address.to_string();
    if canonical != text(value) {
        let detail = format!("must be in canonical form ({canonical:?})");
        errors.invalid(path, value, &detail);
        return None;
    }
    Some(address)
}

/// Warns of a valid address that is not in canonical form.
pub(super) fn warn_of_ip(value: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let own = text(value);
    let canonical = parse_ip(own).filter(IpAddr::is_ipv6);
    if let Some(canonical) = canonical.filter(|canonical| canonical.to_string() != own) {
        let canonical = canonical.to_string();
        warnings.push(format!(
            "{path}: IPv6 address {own:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
}

/// Faults of addresses that endpoints and clients cannot use: unspecified, loopback, link-local.
pub(super) fn validate_reachable(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(ip) = parse_ip(text(value)) else {
        return errors.invalid(path, value, "must be a valid IP address");
    };
    if ip.is_unspecified() {
        let detail = format!("may not be unspecified ({})", text(value));
        errors.invalid(path, value, &detail);
    }
    if ip.is_loopback() {
        errors.invalid(path, value, LOOPBACK);
    }
    let (link_local, multicast) = match ip {
        IpAddr::V4(own) => (own.is_link_local(), own.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(own) => {
            // Go checks only the scope of a multicast address.
            let scope = own.segments()[0] & 0xff0f;
            (own.is_unicast_link_local(), scope == 0xff02)
        }
    };
    if link_local {
        errors.invalid(path, value, LINK_LOCAL);
    }
    if multicast {
        errors.invalid(path, value, LINK_LOCAL_MULTICAST);
    }
}

/// Whether range `inner` is smaller than `outer` and within it.
pub(super) fn is_subset(inner: &str, outer: &str) -> bool {
    let (Some(inner), Some(outer)) = (parse_cidr(inner), parse_cidr(outer)) else {
        return false;
    };
    let kept = |bits: u128| bits.checked_shr(128 - outer.length).unwrap_or(0);
    inner.v6 == outer.v6 && inner.length > outer.length && kept(inner.bits) == kept(outer.bits)
}

/// Returns the faults of the name of a port.
pub(super) fn port_name_faults(name: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if name.len() > 15 {
        faults.push("must be no more than 15 characters");
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(allowed) {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen");
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(of: impl Fn(&mut FieldErrors)) -> Vec<String> {
        let mut errors = FieldErrors::new();
        of(&mut errors);
        let shown = |own: &str| own.rsplit_once("\": ").map(|(_, detail)| detail.to_owned());
        let causes = errors.causes().iter();
        causes.filter_map(|own| shown(&own.message)).collect()
    }

    #[test]
    fn what_somebody_could_read_otherwise_is_refused() {
        let path = FieldPath::new("a");
        for (own, want) in [
            ("10.0.0.1", vec![]),
            ("2001:DB8::0001", vec![]),
            ("010.0.0.1", vec!["must not have leading 0s"]),
            (
                "::ffff:1.2.3.4",
                vec!["must not be an IPv4-mapped IPv6 address"],
            ),
            ("1.2.3", vec![IP]),
            ("fe80::1%eth0", vec![IP]),
        ] {
            let found = faults(|errors| {
                validate_ip(&own.into(), &path, errors);
            });
            assert_eq!(found, want, "{own}");
        }
        const ZEROS: &str = "must not have leading 0s in IP or prefix length";
        for (own, want) in [
            ("10.0.0.0/8", vec![]),
            ("0.0.0.0/0", vec![]),
            (
                "10.0.0.1/8",
                vec!["must not have bits set beyond the prefix length"],
            ),
            ("10.0.0.0/08", vec![ZEROS]),
            ("010.0.0.0/8", vec![ZEROS]),
            (
                "::ffff:1.2.3.0/120",
                vec!["must not have an IPv4-mapped IPv6 address"],
            ),
            ("10.0.0.0/+8", vec![CIDR]),
            ("10.0.0.0/33", vec![CIDR]),
        ] {
            let found = faults(|errors| {
                validate_cidr(&own.into(), &path, errors);
            });
            assert_eq!(found, want, "{own}");
        }
    }

    #[test]
    fn what_is_not_as_go_writes_it_is_warned_of() {
        let path = FieldPath::new("a");
        let mut warnings = Vec::new();
        for own in ["10.0.0.1", "fd00::1", "FD00::01"] {
            warn_of_ip(&own.into(), &path, &mut warnings);
        }
        for own in ["10.0.0.0/8", "fd00::/64", "fd00:0::/64"] {
            warn_of_cidr(&own.into(), &path, &mut warnings);
        }
        assert_eq!(
            warnings,
            [
                "a: IPv6 address \"FD00::01\" should be in RFC 5952 canonical format (\"fd00::1\")",
                "a: IPv6 CIDR value \"fd00:0::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")",
            ]
        );
    }

    #[test]
    fn some_addresses_are_nobody_s() {
        let path = FieldPath::new("a");
        for (own, want) in [
            ("10.0.0.1", vec![]),
            ("0.0.0.0", vec!["may not be unspecified (0.0.0.0)"]),
            ("::1", vec![LOOPBACK]),
            ("169.254.0.1", vec![LINK_LOCAL]),
            ("224.0.0.1", vec![LINK_LOCAL_MULTICAST]),
            ("ff02::1", vec![LINK_LOCAL_MULTICAST]),
            ("224.0.1.1", vec![]),
        ] {
            let found = faults(|errors| validate_reachable(&own.into(), &path, errors));
            assert_eq!(found, want, "{own}");
        }
    }

    #[test]
    fn a_subset_is_smaller_and_within() {
        let table = [
            ("10.1.0.0/16", true),
            ("10.0.0.0/8", false),
            ("11.0.0.0/16", false),
            ("fd00::/64", false),
        ];
        for (inner, want) in table {
            assert_eq!(is_subset(inner, "10.0.0.0/8"), want, "{inner}");
        }
    }
}
