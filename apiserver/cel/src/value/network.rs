//! IP addresses and ranges of them.

use std::{fmt, net::IpAddr};

use super::parse_addr::parse_addr;

/// A range: an address and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub bits: u8,
}

/// Reads an address.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let (address, zone) = parse_addr(text).map_err(|fault| {
        format!("IP Address {text:?} parse error during conversion from string: {fault}")
    })?;
    if !zone.is_empty() {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(address)
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Whether an address is of the kind that a function tests; `None` for other functions.
pub(crate) fn is(function: &str, address: IpAddr) -> Option<bool> {
    let link_local_multicast = match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    let link_local_unicast = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    Some(match function {
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => link_local_multicast,
        "isLinkLocalUnicast" => link_local_unicast,
        "isGlobalUnicast" => {
            !(address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || link_local_unicast
                || broadcast)
        }
        _ => return None,
    })
}

impl Cidr {
    /// Reads a range.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let error = |detail: &str| {
            format!(
                "network address parse error during conversion from string: \
                 netip.ParsePrefix({text:?}): {detail}"
            )
        };
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| error("no '/'"))?;
        let (address, _) = parse_addr(address).map_err(|fault| error(&fault))?;
        let plain = bits.bytes().all(|byte| byte.is_ascii_digit())
            && !bits.is_empty()
            && (bits.len() == 1 || !bits.starts_with('0'));
        if !plain {
            return Err(error(&format!("bad bits after slash: {bits:?}")));
        }
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= max);
        let bits = bits.ok_or_else(|| error("prefix length out of range"))?;
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Ok(Self { address, bits })
    }

    /// The first bits of an address of the same family.
    fn prefix(&self, of: IpAddr) -> Option<u128> {
        let cut = |value: u128, width: u32| {
            value
                .checked_shr(width - u32::from(self.bits))
                .unwrap_or_default()
        };
        match (self.address, of) {
            (IpAddr::V4(_), IpAddr::V4(v4)) => Some(cut(u32::from(v4).into(), 32)),
            (IpAddr::V6(_), IpAddr::V6(v6)) => Some(cut(v6.into(), 128)),
            _ => None,
        }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.prefix(address)
            .is_some_and(|prefix| Some(prefix) == self.prefix(self.address))
    }

    pub(crate) fn contains_range(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }

    /// The range with the bits that do not count cleared.
    pub(crate) fn masked(&self) -> Self {
        let keep = |width: u32| -> u128 {
            let host = width - u32::from(self.bits);
            u128::MAX.checked_shl(host).unwrap_or_default()
        };
        let address = match self.address {
            IpAddr::V4(v4) => {
                let kept = u128::from(u32::from(v4)) & keep(32);
                IpAddr::V4(u32::try_from(kept).unwrap_or_default().into())
            }
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & keep(128)).into()),
        };
        Self { address, ..*self }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}
