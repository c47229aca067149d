//! The addresses that a cloud gives away.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// The addresses of one or more networks. Its text is that of the networks, separated by commas:
///
/// ```
/// # use kubeproof_controller::AddressPool;
/// let pool: AddressPool = "192.0.2.0/24,2001:db8::/112".parse()?;
/// assert_eq!(pool.to_string(), "192.0.2.0/24,2001:db8::/112");
/// # Ok::<(), kubeproof_controller::InvalidPool>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPool {
    networks: Vec<IpNet>,
}

/// The reason why a text is no [`AddressPool`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPool {
    /// A part is not the address of a network and the length of its prefix.
    #[error("{0:?} is not a network, such as 192.0.2.0/24")]
    NotANetwork(String),
    /// The first address is for Ingresses and Gateways, so a network of one address leaves none for services.
    #[error("{0} has one address; a pool needs at least two")]
    TooSmall(IpNet),
}

impl AddressPool {
    /// The address of each family that all Ingresses and Gateways share: the first one of the family.
    pub(super) fn shared(&self) -> Vec<IpAddr> {
        let first = |is_v4: bool| {
            let mut own = self.networks.iter();
            let network = own.find(|network| is_ipv4(network) == is_v4)?;
            network.hosts().next()
        };
        [true, false].into_iter().filter_map(first).collect()
    }

    /// Whether a service may have `address`.
    pub(super) fn offers(&self, address: IpAddr) -> bool {
        let mut networks = self.networks.iter();
        let is_in_pool = networks.any(|network| network.contains(&address));
        is_in_pool && !self.shared().contains(&address)
    }

    /// Returns the lowest address of the IP family, `IPv4` or `IPv6`, that is neither in `taken` nor for those.
    pub(super) fn free(&self, family: &str, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        let of_family = self.networks.iter();
        let of_family = of_family.filter(|network| is_ipv4(network) == (family != "IPv6"));
        let reserved = self.shared();
        let mut addresses = of_family.flat_map(IpNet::hosts);
        addresses.find(|address| !taken.contains(address) && !reserved.contains(address))
    }
}

fn is_ipv4(network: &IpNet) -> bool {
    matches!(network, IpNet::V4(_))
}

impl FromStr for AddressPool {
    type Err = InvalidPool;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let networks = text.split(',').map(|part| {
            let network = IpNet::from_str(part.trim());
            let network = network.map_err(|_| InvalidPool::NotANetwork(part.to_owned()))?;
            match network.hosts().nth(1) {
                Some(_) => Ok(network),
                None => Err(InvalidPool::TooSmall(network)),
            }
        });
        let networks = networks.collect::<Result<_, _>>()?;
        Ok(Self { networks })
    }
}

impl std::fmt::Display for AddressPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, network) in self.networks.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{network}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(text: &str) -> AddressPool {
        text.parse().unwrap()
    }

    fn taken(addresses: &[&str]) -> BTreeSet<IpAddr> {
        addresses.iter().map(|one| one.parse().unwrap()).collect()
    }

    #[test]
    fn the_lowest_free_address_after_that_of_ingresses_is_given() {
        let pool = pool("192.0.2.0/29, 2001:db8::/126");
        let free = |family: &str, used: &[&str]| {
            let free = pool.free(family, &taken(used));
            free.map(|address| address.to_string())
        };
        assert_eq!(
            pool.shared(),
            ["192.0.2.1", "2001:db8::"].map(|one| one.parse::<IpAddr>().unwrap())
        );
        assert_eq!(free("IPv4", &[]).as_deref(), Some("192.0.2.2"));
        assert_eq!(free("IPv4", &["192.0.2.2"]).as_deref(), Some("192.0.2.3"));
        assert_eq!(free("IPv4", &["192.0.2.3"]).as_deref(), Some("192.0.2.2"));
        let all = [
            "192.0.2.2",
            "192.0.2.3",
            "192.0.2.4",
            "192.0.2.5",
            "192.0.2.6",
        ];
        assert_eq!(free("IPv4", &all), None);
        assert_eq!(free("IPv6", &all).as_deref(), Some("2001:db8::1"));
    }

    #[test]
    fn a_family_without_a_network_has_no_addresses() {
        let pool = pool("192.0.2.0/24");
        assert_eq!(pool.free("IPv6", &BTreeSet::new()), None);
        assert_eq!(pool.shared().len(), 1);
    }

    #[test]
    fn what_is_no_network_of_several_addresses_is_refused() {
        let error = |text: &str| text.parse::<AddressPool>().unwrap_err().to_string();
        assert_eq!(
            error("here"),
            "\"here\" is not a network, such as 192.0.2.0/24"
        );
        assert_eq!(
            error("192.0.2.0/33"),
            "\"192.0.2.0/33\" is not a network, such as 192.0.2.0/24"
        );
        assert_eq!(error(""), "\"\" is not a network, such as 192.0.2.0/24");
        assert_eq!(
            error("192.0.2.0/24,192.0.3.1/32"),
            "192.0.3.1/32 has one address; a pool needs at least two"
        );
    }
}
