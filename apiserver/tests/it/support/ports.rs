//! Ports that no server answers on.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of loopback that refuses connections.
///
/// The socket is bound and does not listen. The server of another test could get a port that was
/// closed again.
pub(crate) struct RefusingPort {
    pub(crate) address: SocketAddr,
    _socket: TcpSocket,
}

impl RefusingPort {
    /// Any port that is free.
    pub(crate) fn bind() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    /// The port of a server that has stopped.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // The server's connections may not be forgotten yet.
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        Self {
            address: socket.local_addr().unwrap(),
            _socket: socket,
        }
    }
}
