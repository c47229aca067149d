//! What wakes the tracer: messages, and stops of threads.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;

use super::message::Request;

/// Receives a message; `None` when the other end is closed.
///
/// # Errors
/// When the socket fails, and when a message is not valid.
pub(super) fn receive(mut socket: &UnixStream) -> io::Result<Option<Request>> {
    let mut bytes = [0; Request::LENGTH];
    match socket.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
        Ok(()) => match Request::decode(bytes) {
            None => Err(io::ErrorKind::InvalidData.into()),
            request => Ok(request),
        },
    }
}

/// The end of a wait.
pub(super) enum Woken {
    ByMessage,
    ByStop,
    Not,
}

/// Waits for a message or for a stop of a thread, for `period` at most.
///
/// # Errors
/// When the kernel refuses to wait.
pub(super) fn wait(
    socket: &UnixStream,
    children: &SignalFd,
    period: Option<Duration>,
) -> io::Result<Woken> {
    let mut files = [
        PollFd::new(socket.as_fd(), PollFlags::POLLIN),
        PollFd::new(children.as_fd(), PollFlags::POLLIN),
    ];
    match ppoll(&mut files, period.map(TimeSpec::from), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_ready = |file: &PollFd<'_>| file.revents().is_some_and(|found| !found.is_empty());
    let (has_message, has_stop) = (is_ready(&files[0]), is_ready(&files[1]));
    if has_stop {
        // One stands for all stops until it is read.
        children.read_signal()?;
    }
    // Stops are taken after a message, too.
    Ok(match (has_message, has_stop) {
        (true, _) => Woken::ByMessage,
        (false, true) => Woken::ByStop,
        (false, false) => Woken::Not,
    })
}
