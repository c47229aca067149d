//! The addresses and ports that services can have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// The addresses and node ports that services are given, or may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    /// The first address of the network, with zeros beyond the prefix.
    network: IpAddr,
    /// The length of the prefix in bits.
    prefix: u32,
    first_port: i64,
    last_port: i64,
}

impl ServiceRanges {
    /// The ranges of kube-apiserver without flags: 10.0.0.0/24, and ports from 30000 to 32767.
    pub const DEFAULT: Self = Self {
        network: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)),
        prefix: 24,
        first_port: 30_000,
        last_port: 32_767,
    };

    /// These ranges with another network: an address in it, and the length of its prefix in bits.
    ///
    /// Returns `None` for a prefix longer than an address, and for a network of less than 8 addresses.
    #[must_use]
    pub fn with_network(self, address: IpAddr, prefix: u32) -> Option<Self> {
        let free = bits(address)
            .checked_sub(prefix)
            .filter(|free| *free >= 3)?;
        let mask = u128::MAX.checked_shl(free).unwrap_or(0);
        Some(Self {
            network: address_of(number(address) & mask, address),
            prefix,
            ..self
        })
    }

    /// These ranges with other node ports.
    #[must_use]
    pub fn with_node_ports(self, ports: RangeInclusive<i64>) -> Self {
        Self {
            first_port: *ports.start(),
            last_port: *ports.end(),
            ..self
        }
    }

    /// The address of the service `kubernetes`, the first of the network.
    #[must_use]
    pub fn kubernetes(&self) -> IpAddr {
        address_of(number(self.network) + 1, self.network)
    }

    /// The network as a CIDR.
    #[must_use]
    pub fn cidr(&self) -> String {
        format!("{}/{}", self.network, self.prefix)
    }

    /// The family of the network, and the other one.
    #[must_use]
    pub fn families(&self) -> [&'static str; 2] {
        match self.network {
            IpAddr::V4(_) => ["IPv4", "IPv6"],
            IpAddr::V6(_) => ["IPv6", "IPv4"],
        }
    }

    /// The node ports.
    #[must_use]
    pub fn node_ports(&self) -> RangeInclusive<i64> {
        self.first_port..=self.last_port
    }

    /// Whether the network has the address, free or not.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        let last = number(self.network) | self.rest();
        address.is_ipv4() == self.network.is_ipv4()
            && (number(self.network)..=last).contains(&number(address))
    }

    /// Whether a service can have the address: not the first of the network, nor the broadcast address of IPv4.
    pub(super) fn gives(&self, address: IpAddr) -> bool {
        self.has(address) && (1..=self.last()).contains(&(number(address) - number(self.network)))
    }

    /// The addresses that services are given, without that of `kubernetes`.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let network = self.network;
        (2..=self.last()).map(move |own| address_of(number(network) + own, network))
    }

    /// The offset of the last address that a service can have.
    fn last(&self) -> u128 {
        match self.network {
            IpAddr::V4(_) => self.rest() - 1,
            IpAddr::V6(_) => self.rest(),
        }
    }

    /// The offset of the last address of the network.
    fn rest(&self) -> u128 {
        let free = bits(self.network) - self.prefix;
        !u128::MAX.checked_shl(free).unwrap_or(0)
    }
}

fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of a number, in the family of `like`.
fn address_of(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => {
            let number = u32::try_from(number & u128::from(u32::MAX));
            IpAddr::V4(Ipv4Addr::from_bits(number.expect("it is masked")))
        }
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(address: &str, prefix: u32) -> Option<ServiceRanges> {
        ServiceRanges::DEFAULT.with_network(address.parse().unwrap(), prefix)
    }

    #[test]
    fn a_network_has_an_address_for_kubernetes_and_others_for_services() {
        for (address, prefix, cidr, kubernetes, first, last) in [
            (
                "10.0.0.0",
                24,
                "10.0.0.0/24",
                "10.0.0.1",
                "10.0.0.2",
                "10.0.0.254",
            ),
            (
                "10.96.7.1",
                12,
                "10.96.0.0/12",
                "10.96.0.1",
                "10.96.0.2",
                "10.111.255.254",
            ),
            (
                "10.0.0.8",
                29,
                "10.0.0.8/29",
                "10.0.0.9",
                "10.0.0.10",
                "10.0.0.14",
            ),
            (
                "fd00::8",
                125,
                "fd00::8/125",
                "fd00::9",
                "fd00::a",
                "fd00::f",
            ),
        ] {
            let ranges = ranges(address, prefix).unwrap();
            assert_eq!(ranges.cidr(), cidr);
            assert_eq!(ranges.kubernetes().to_string(), kubernetes);
            assert_eq!(ranges.addresses().next().unwrap().to_string(), first);
            let last: IpAddr = last.parse().unwrap();
            assert!(ranges.gives(last));
            let beyond = address_of(number(last) + 1, last);
            assert!(!ranges.gives(beyond), "{beyond}");
        }
        let own = ranges("10.0.0.0", 24).unwrap();
        assert!(own.has("10.0.0.0".parse().unwrap()) && !own.gives("10.0.0.0".parse().unwrap()));
        assert!(own.has("10.0.0.255".parse().unwrap()) && !own.has("10.0.1.0".parse().unwrap()));
        assert!(
            !own.has("::a00:1".parse().unwrap()),
            "it is of another family"
        );
        assert_eq!(own, ServiceRanges::DEFAULT);
    }

    #[test]
    fn a_network_that_is_too_small_or_none_is_refused() {
        assert_eq!(ranges("10.0.0.0", 30), None);
        assert_eq!(ranges("10.0.0.0", 33), None);
        assert_eq!(ranges("fd00::", 126), None);
        assert!(ranges("0.0.0.0", 0).is_some());
    }
}
