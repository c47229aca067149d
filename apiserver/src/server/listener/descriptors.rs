//! Descriptors of a listener: how many are left, and why `accept` gave none.

use std::io;

use tokio::net::TcpStream;

/// The reason why `accept` returned no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The socket does not listen, and never will.
    Listener,
    /// The peer or the network gave up on the connection.
    Peer,
    /// Descriptors or memory ran out; later there may be more.
    Shortage,
}

#[cfg(unix)]
mod system {
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::net::sockopt;
    use rustix::process::{Resource, getrlimit};

    use super::{Failure, TcpStream, io};

    /// Descriptors that connections leave to the server's own use, such as calls of webhooks.
    const RESERVE_MAX: u64 = 16;

    /// Times of TCP's keep-alive probes as upstream's listener sets them.
    const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(180);
    const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
    const KEEP_ALIVE_COUNT: u32 = 9;

    pub(in super::super) fn failure(error: &io::Error) -> Failure {
        match Errno::from_io_error(error) {
            Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::OPNOTSUPP) => {
                Failure::Listener
            }
            Some(
                Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::PERM
                | Errno::PROTO
                | Errno::TIMEDOUT,
            ) => Failure::Peer,
            _ => Failure::Shortage,
        }
    }

    /// Whether few descriptors are left: that of `stream` was the lowest free one.
    pub(in super::super) fn are_short(stream: &TcpStream) -> bool {
        let Some(limit) = getrlimit(Resource::Nofile).current else {
            return false;
        };
        let used = u64::try_from(stream.as_raw_fd()).unwrap_or(0);
        used + RESERVE_MAX.min(limit / 4) >= limit
    }

    /// Sets what upstream's listener sets; a connection works without any of it.
    pub(in super::super) fn set_options(stream: &TcpStream) {
        // Small answers must not wait for the next packet.
        let _ = stream.set_nodelay(true);
        // A peer that is gone without a word ends its connection at last.
        let _ = sockopt::set_socket_keepalive(stream, true);
        let _ = sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE);
        let _ = sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL);
        let _ = sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_COUNT);
    }
}

#[cfg(not(unix))]
mod system {
    use super::{Failure, TcpStream, io};

    pub(in super::super) fn failure(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::InvalidInput => Failure::Listener,
            io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset => Failure::Peer,
            _ => Failure::Shortage,
        }
    }

    /// No limit is known here; a failed `accept` says when there is one.
    pub(in super::super) fn are_short(_: &TcpStream) -> bool {
        false
    }

    pub(in super::super) fn set_options(stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
    }
}

pub(super) use system::{are_short, failure, set_options};

#[cfg(all(test, unix))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_a_socket_that_does_not_listen_ends_the_listener() {
        let of = |errno: Errno| failure(&io::Error::from(errno));
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::NOBUFS,
            Errno::IO,
        ] {
            assert_eq!(of(errno), Failure::Shortage, "{errno}");
        }
        assert_eq!(of(Errno::CONNABORTED), Failure::Peer);
        assert_eq!(of(Errno::BADF), Failure::Listener);
        assert_eq!(of(Errno::INVAL), Failure::Listener);
        assert_eq!(failure(&io::Error::other("x")), Failure::Shortage);
    }
}
