//! The embedding program's side: starts tracers and asks them.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;

use super::message::Request;
use super::start::{
    self, BECOME, BECOME_IN_TURNS, END, EXIT_FAILED, FOLLOW, FOLLOW_IN_TURNS, HELPER,
};
use super::tracer;
use crate::{Threads, Time, Unavailable, Waiting};

/// The time in which an answer is expected.
pub(super) const SOON: Duration = Duration::from_micros(100);

/// A program under virtual time, through its tracer. The program ends when this is dropped.
#[derive(Clone, Debug)]
pub struct Tracee {
    socket: Arc<Mutex<UnixStream>>,
}

impl Tracee {
    /// Returns the program that `command` describes (a name or path, and its arguments), and what starts its tracer. The tracer ends
    /// as the program does: with its exit code, or with 128 and the number of the signal that killed it. The program has no input;
    /// everything else, such as the environment, output and process group, it has from the tracer. It starts with
    /// [`begin`](Self::begin). The random numbers that it asks the system for follow from `seed`.
    ///
    /// Drop the command after spawning the tracer: it holds the tracer's end of the socket.
    ///
    /// # Errors
    /// When there is no socket, this program does not know its own file, or `main` has not called [`helper`].
    pub fn of(command: &[&OsStr], seed: u64) -> io::Result<(Self, Command)> {
        Self::follow(FOLLOW, command, seed)
    }

    /// Returns the same for a program whose threads take turns: one of them runs at a time, until it waits, ends, calls `sched_yield` or
    /// has computed for 20 ms; the next one follows in the order in which threads began.
    ///
    /// # Errors
    /// The errors of [`of`](Self::of).
    pub fn in_turns(command: &[&OsStr], seed: u64) -> io::Result<(Self, Command)> {
        Self::follow(FOLLOW_IN_TURNS, command, seed)
    }

    fn follow(role: &str, command: &[&OsStr], seed: u64) -> io::Result<(Self, Command)> {
        let (own, other) = UnixStream::pair()?;
        let mut tracer = start::own_program(role)?;
        tracer
            .arg(seed.to_string())
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(other)));
        let socket = Arc::new(Mutex::new(own));
        Ok((Self { socket }, tracer))
    }

    /// Lets the program begin at this time.
    ///
    /// # Errors
    /// When the socket fails; not when the program has ended.
    pub fn begin(&self, time: Time) -> io::Result<()> {
        send(&mut self.socket.lock(), Request::Advance(time)).map(drop)
    }

    /// Sets the time, and returns once the program sees it: waits that are over by then have ended. The monotonic clock is never set
    /// back.
    ///
    /// # Errors
    /// When the socket fails; not when the program has ended.
    pub fn advance(&self, time: Time) -> io::Result<()> {
        self.ask(Request::Advance(time)).map(drop)
    }

    /// Waits until all threads of the program wait, for 50 ms of real time at most. `None` when the program has ended.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn settle(&self) -> io::Result<Option<Threads>> {
        self.ask(Request::Settle)
    }

    /// Says what the threads of the program do. `None` when it has ended.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn look(&self) -> io::Result<Option<Threads>> {
        self.ask(Request::Look)
    }

    fn ask(&self, request: Request) -> io::Result<Option<Threads>> {
        let mut socket = self.socket.lock();
        if !send(&mut socket, request)? {
            return Ok(None);
        }
        spin_until_ready(&socket)?;
        let mut answer = [0; Threads::LENGTH];
        match socket.read_exact(&mut answer) {
            Err(error) if is_end(&error) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Threads::decode(answer)
                .map(Some)
                .ok_or_else(|| io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Returns false when the tracer has ended.
fn send(socket: &mut UnixStream, request: Request) -> io::Result<bool> {
    match socket.write_all(&request.encode()) {
        Err(error) if is_end(&error) => Ok(false),
        sent => sent.map(|()| true),
    }
}

/// Waits for an answer that comes soon, without giving up the processor: waking one takes longer than most answers.
fn spin_until_ready(socket: &UnixStream) -> io::Result<()> {
    let began = Instant::now();
    while began.elapsed() < SOON {
        let mut files = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut files, PollTimeout::ZERO)? > 0 {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    Ok(())
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Acts as a tracer, if the arguments of this process (with its name as the first) ask for that; returns the exit code then.
///
/// `main` has to call `helper` before it starts threads. A program without that call cannot start tracers.
pub fn helper(arguments: impl IntoIterator<Item = OsString>) -> Option<i32> {
    start::can_be_executed_again();
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != HELPER {
        return None;
    }
    let role = arguments.next()?;
    let command: Vec<OsString> = arguments.collect();
    let ended = match role.to_str() {
        Some(FOLLOW) => tracer::follow(&command, false),
        Some(FOLLOW_IN_TURNS) => tracer::follow(&command, true),
        Some(BECOME) => start::replace_with(&command, false),
        Some(BECOME_IN_TURNS) => start::replace_with(&command, true),
        Some(END) => start::wait_for_timer(),
        _ => return None,
    };
    Some(ended.unwrap_or_else(|error| {
        eprintln!("{error}");
        EXIT_FAILED
    }))
}

/// Runs a program that waits for a timer under virtual time, to see whether that is possible here.
///
/// # Errors
/// [`Unavailable`] with the reason.
pub fn check() -> Result<(), Unavailable> {
    let tried = || {
        let own = std::env::current_exe()?;
        let program = [own.as_ref(), HELPER.as_ref(), END.as_ref()];
        let (tracee, mut command) = Tracee::of(&program, 0)?;
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = child.spawn()?;
        drop(command);
        tracee.begin(Time::default())?;
        let mut time = Time::default();
        while let Some(threads) = tracee.settle()? {
            if let Threads::Wait(Waiting { until, .. }) = threads {
                let until = until.ok_or_else(|| io::Error::other("a timer never goes off"))?;
                time = time.at(until);
                tracee.advance(time)?;
            }
        }
        child.wait_with_output()
    };
    let reason = match tried() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Unavailable(reason))
}
