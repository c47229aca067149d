//! Services whose programs run outside of the cluster.

use std::net::{SocketAddr, ToSocketAddrs};

use kubeproof::testbed::ServedService;
use kubeproof_apiserver::ApiServerBuilder;

use crate::cli::program;

/// A port of a service, and who answers there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Service {
    At {
        namespace: String,
        name: String,
        port: u16,
        address: SocketAddr,
    },
    OfProgram(ServedService),
}

impl Service {
    /// Returns `builder` with the address of the service, unless that is a program's.
    pub(super) fn resolved(&self, builder: ApiServerBuilder) -> ApiServerBuilder {
        match self {
            Self::At {
                namespace,
                name,
                port,
                address,
            } => builder.resolve_service(namespace, name, *port, *address),
            Self::OfProgram(_) => builder,
        }
    }

    /// The service, if a program answers for it.
    pub(super) fn of_program(&self) -> Option<ServedService> {
        match self {
            Self::At { .. } => None,
            Self::OfProgram(service) => Some(service.clone()),
        }
    }
}

/// Reads `NAMESPACE/NAME[:PORT]=HOST:PORT` or `NAMESPACE/NAME[:PORT][=NUMBER]`.
pub(super) fn read(text: &str) -> Result<Service, String> {
    let (service, place) = text.split_once('=').unwrap_or((text, "1"));
    let of_program = |number| program::service(&format!("{service}={number}"));
    let parsed = match place.contains(':') {
        true => {
            let address = place.to_socket_addrs().ok();
            let address = address.and_then(|mut addresses| addresses.next());
            let service = of_program("1").ok();
            service.zip(address).map(|(service, address)| Service::At {
                namespace: service.namespace,
                name: service.name,
                port: service.port,
                address,
            })
        }
        false => of_program(place).ok().map(Service::OfProgram),
    };
    parsed.ok_or_else(|| "expected NAMESPACE/NAME[:PORT][=HOST:PORT|=NUMBER]".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_at_an_address_or_a_program() {
        let at = read("infra/hook:8443=127.0.0.1:9").unwrap();
        assert_eq!(
            at,
            Service::At {
                namespace: "infra".to_owned(),
                name: "hook".to_owned(),
                port: 8443,
                address: ([127, 0, 0, 1], 9).into(),
            }
        );
        let program = |number: usize| {
            Service::OfProgram(ServedService {
                namespace: "infra".to_owned(),
                name: "hook".to_owned(),
                port: 443,
                program: number - 1,
            })
        };
        assert_eq!(read("infra/hook"), Ok(program(1)));
        assert_eq!(read("infra/hook=2"), Ok(program(2)));
        for wrong in ["hook", "infra/hook=0", "infra/hook=:1", "/hook=127.0.0.1:9"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
