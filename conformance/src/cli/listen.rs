//! Addresses to listen on.

use std::net::{SocketAddr, ToSocketAddrs};

/// Parses an address, or resolves a host name; `:PORT` is that port on all addresses.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => text.to_owned(),
    };
    let addresses = text.to_socket_addrs();
    let mut addresses = addresses.map_err(|error| format!("expected HOST:PORT: {error}"))?;
    addresses
        .next()
        .ok_or_else(|| "the name has no address".to_owned())
}
