//! Threads in `/proc`: whether they sleep, and how much they have run.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// How much a thread has run: its processor time, and how often it was given a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    bytes: [u8; 64],
}

impl Observed {
    /// The text of the kernel.
    pub(super) fn bytes(&self) -> &[u8; 64] {
        &self.bytes
    }
}

/// The files of a thread.
#[derive(Debug)]
pub(super) struct Files {
    stat: File,
    call: File,
    schedule: File,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for something that is not a disk.
    Sleeps(Observed),
    /// It has ended.
    Ended,
    /// It runs, waits for a processor or a disk, or is about to stop for the tracer.
    Runs,
    /// It is stopped, by the tracer or by a signal.
    Stopped,
}

impl Files {
    pub(super) fn open(process: i32, thread: i32) -> io::Result<Self> {
        let open = |name| File::open(format!("/proc/{process}/task/{thread}/{name}"));
        Ok(Self {
            stat: open("stat")?,
            call: open("syscall")?,
            schedule: open("schedstat")?,
        })
    }

    /// Looks at the thread.
    pub(super) fn state(&self) -> State {
        // What has run is read last. A thread that sleeps and has run no more since an earlier observation was not even woken
        // before this one; read the other way around, it could be woken before and sleep again after.
        //
        // A thread that has looked for something to wait for, and not found it, sleeps in name before it gives up the processor.
        // The kernel tells the call of a thread only when that is over; of one that has stopped, too, which is seen next.
        let is_inactive = beginning::<8>(&self.call).is_some_and(|text| !is_running(&text));
        let state = beginning::<64>(&self.stat);
        let state = state.as_ref().and_then(|text| letter(text));
        match state {
            Some(b'S') if is_inactive => State::Sleeps(Observed {
                bytes: beginning(&self.schedule).unwrap_or([0; 64]),
            }),
            None | Some(b'Z' | b'X') => State::Ended,
            Some(b't' | b'T') => State::Stopped,
            Some(_) => State::Runs,
        }
    }

    /// The time on a processor so far; zero when the thread has ended.
    pub(super) fn processor_time(&self) -> Duration {
        let text = beginning::<64>(&self.schedule);
        text.as_ref().map_or(Duration::ZERO, |text| first(text))
    }
}

/// The first bytes of a file.
fn beginning<const N: usize>(file: &File) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.read_at(&mut bytes, 0).ok().filter(|read| *read > 0)?;
    Some(bytes)
}

/// The time in `NANOSECONDS …`, the text of `schedstat`.
fn first(text: &[u8]) -> Duration {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let nanos = digits.fold(0_u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Duration::from_nanos(nanos)
}

/// Whether the text of `syscall` is that of a thread that runs.
fn is_running(text: &[u8]) -> bool {
    text.starts_with(b"running")
}

/// The letter of the state in `17 (name) S …`. The name may have brackets.
fn letter(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
}

/// A thread of this process.
#[derive(Debug)]
pub struct OwnThread(Files);

impl OwnThread {
    /// The thread that calls this.
    ///
    /// # Errors
    /// When `/proc` does not show it.
    pub fn current() -> io::Result<Self> {
        let process = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        Files::open(process, nix::unistd::gettid().as_raw()).map(Self)
    }

    /// Returns how much the thread has run, if it sleeps now.
    ///
    /// If two observations of several threads are equal, all of them have slept at one moment in between.
    #[must_use]
    pub fn asleep(&self) -> Option<Observed> {
        match self.0.state() {
            State::Sleeps(observed) => Some(observed),
            State::Runs | State::Stopped | State::Ended => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_name() {
        assert_eq!(letter(b"17 (sleep) S 1 17"), Some(b'S'));
        assert_eq!(letter(b"17 (a) R (b) t 1 17"), Some(b't'));
        assert_eq!(letter(b"17 (sleep"), None);
    }

    #[test]
    fn processor_time_is_the_first_number() {
        let mut text = [0; 64];
        assert_eq!(first(&text), Duration::ZERO);
        text[..16].copy_from_slice(b"51446777 663 12\n");
        assert_eq!(first(&text), Duration::from_nanos(51_446_777));
    }

    #[test]
    fn a_thread_that_looks_at_itself_runs() {
        assert_eq!(OwnThread::current().unwrap().asleep(), None);
    }

    #[test]
    fn a_thread_that_waits_sleeps() {
        let (tell, told) = std::sync::mpsc::sync_channel(0);
        let (end, ended) = std::sync::mpsc::sync_channel::<()>(0);
        let other = std::thread::spawn(move || {
            tell.send(OwnThread::current().unwrap()).unwrap();
            ended.recv().unwrap();
        });
        let thread = told.recv().unwrap();
        let first = loop {
            if let Some(observed) = thread.asleep() {
                break observed;
            }
        };
        assert_eq!(thread.asleep(), Some(first));
        end.send(()).unwrap();
        other.join().unwrap();
    }
}
