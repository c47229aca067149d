//! Addresses, ranges of addresses and ports.

use std::net::IpAddr;

use serde_json::Value;

use super::checks::text;
use crate::status::{FieldErrors, FieldPath};

pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The bits of an address from the top, whether it is an IPv6 address, and how many bits count.
struct Range {
    bits: u128,
    v6: bool,
    length: u32,
}

fn parse_cidr(text: &str) -> Option<Range> {
    let (address, length) = text.split_once('/')?;
    let length = length.parse().ok()?;
    let (bits, v6, most) = match address.parse().ok()? {
        IpAddr::V4(own) => (u128::from(own.to_bits()) << 96, false, 32),
        IpAddr::V6(own) => (own.to_bits(), true, 128),
    };
    (length <= most).then_some(Range { bits, v6, length })
}

/// Whether `value` is a range of addresses; a fault if not.
pub(super) fn validate_cidr(value: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let valid = parse_cidr(text(value)).is_some();
    if !valid {
        errors.invalid(path, value, CIDR);
    }
    valid
}

/// Whether `value` is a range in the one form that Go writes it in; a fault if not.
pub(super) fn validate_strict_cidr(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if !validate_cidr(value, path, errors) {
        return;
    }
    let (own, given) = match parse_cidr(text(value)).zip(text(value).split_once('/')) {
        Some((own, (address, _))) => (own, address.parse::<IpAddr>().ok()),
        None => return,
    };
    let kept = match own.length {
        0 => 0,
        length => own.bits >> (128 - length) << (128 - length),
    };
    let is_mapped = matches!(given, Some(IpAddr::V6(own)) if own.to_ipv4_mapped().is_some());
    if is_mapped {
        errors.invalid(path, value, "must not have an IPv4-mapped IPv6 address");
    } else if kept != own.bits {
        errors.invalid(
            path,
            value,
            "must not have bits set beyond the prefix length",
        );
    } else if let Some(address) = given {
        let canonical = format!("{address}/{}", own.length);
        if canonical != text(value) {
            let detail = format!("must be in canonical form ({canonical:?})");
            errors.invalid(path, value, &detail);
        }
    }
}

/// Whether `value` is an address; a fault if not.
pub(super) fn validate_ip(
    value: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Option<IpAddr> {
    let address = text(value).parse().ok();
    if address.is_none() {
        errors.invalid(path, value, IP);
    }
    address
}

/// Whether range `inner` is smaller than `outer` and within it.
pub(super) fn is_subset(inner: &str, outer: &str) -> bool {
    let (Some(inner), Some(outer)) = (parse_cidr(inner), parse_cidr(outer)) else {
        return false;
    };
    let kept = |bits: u128| bits.checked_shr(128 - outer.length).unwrap_or(0);
    inner.v6 == outer.v6 && inner.length > outer.length && kept(inner.bits) == kept(outer.bits)
}

/// What is wrong with the name of a port.
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
