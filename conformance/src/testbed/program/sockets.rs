//! The sockets of this process, at which it speaks with programs.

use std::io;

/// Acknowledges everything that sockets of this process have received and read. Kernels wait up to 40 ms with that, and the kernel of the
/// other end may hold back what follows for as long.
///
/// # Errors
/// When the sockets are not known.
#[cfg(target_os = "linux")]
pub(super) fn acknowledge() -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    use socket2::SockRef;

    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    for file in std::fs::read_dir("/proc/self/fd")? {
        let file = file?;
        // Sockets that are closed meanwhile, or of another protocol, have nothing to acknowledge.
        let kind = std::fs::read_link(file.path());
        let is_socket = kind.is_ok_and(|kind| kind.as_os_str().as_bytes().starts_with(b"socket:"));
        let name = file.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|_| is_socket)
            && let Ok(socket) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty())
        {
            let _ = SockRef::from(&socket).set_tcp_quickack(true);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn acknowledge() -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_the_kernel_holds_back_comes_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // After an exchange the kernel takes its time.
        for _ in 0..2 {
            client.write_all(b"1").unwrap();
            server.read_exact(&mut [0]).unwrap();
            server.write_all(b"2").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        client.write_all(b"3").unwrap();
        client.write_all(b"4").unwrap();
        server.read_exact(&mut [0]).unwrap();
        acknowledge().unwrap();
        server.set_nonblocking(true).unwrap();
        // Much less than 40 ms.
        let comes = (0..5_000).any(|_| server.read_exact(&mut [0]).is_ok());
        assert!(comes);
    }
}
