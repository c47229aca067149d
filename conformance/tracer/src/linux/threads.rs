//! The threads of a program and of all that it has started.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::time::Duration;

use nix::unistd::Pid;

use super::clock::Moment;
use super::memory::Vdso;
use super::registers::Registers;
use super::sleeping::{Files, State};
use super::start::in_words;
use super::vdso::Functions;
use super::waits::Wait;

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    /// The place of the thread in the order in which threads began.
    number: u64,
    /// The id of its process.
    pub(super) process: i32,
    /// `None` if it ended before it was seen.
    files: Option<Files>,
    /// The wait in which it is.
    pub(super) wait: Option<Wait>,
    /// The last wait, if a signal has interrupted it.
    pub(super) interrupted: Option<Wait>,
    /// Whether a signal has stopped its process.
    pub(super) is_stopped: bool,
    /// Whether it waits for a child that shares its memory.
    pub(super) is_in_vfork: bool,
    /// The beginning of its program, while it maps a page for its clocks.
    pub(super) beginning: Option<Beginning>,
}

/// A program that is about to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    /// The registers with which it begins.
    pub(super) registers: Registers,
    pub(super) vdso: Vdso,
    pub(super) functions: Functions,
}

/// All threads, by id.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: BTreeMap<i32, Thread>,
    /// The number of threads that have begun.
    begun: u64,
    /// The one that went on last, which is the likeliest to run.
    last: i32,
}

impl Threads {
    /// Adds a thread, if it is new and has not ended: its parent may be seen to begin it after it was seen to end.
    ///
    /// # Errors
    /// When it exists and `/proc` does not show it.
    pub(super) fn add(&mut self, id: Pid) -> io::Result<()> {
        let Entry::Vacant(place) = self.all.entry(id.as_raw()) else {
            return Ok(());
        };
        let Some(process) = process_of(id)? else {
            return Ok(());
        };
        self.begun += 1;
        place.insert(Thread {
            number: self.begun,
            process,
            files: unless_ended(Files::open(process, id.as_raw()))?,
            wait: None,
            interrupted: None,
            is_stopped: false,
            is_in_vfork: false,
            beginning: None,
        });
        Ok(())
    }

    /// Removes a thread that has ended; returns the id of its process if it was the last one.
    pub(super) fn remove(&mut self, id: Pid) -> Option<i32> {
        let process = self.all.remove(&id.as_raw())?.process;
        let mut others = self.all.values();
        (!others.any(|other| other.process == process)).then_some(process)
    }

    /// Removes all threads of the process but the one with its id, which has executed another program.
    ///
    /// # Errors
    /// When the process exists and `/proc` does not show it.
    pub(super) fn executed(&mut self, process: Pid) -> io::Result<()> {
        let own = process.as_raw();
        self.all.retain(|_, thread| thread.process != own);
        self.add(process)
    }

    /// The ids of all processes.
    pub(super) fn processes(&self) -> BTreeSet<i32> {
        self.all.values().map(|thread| thread.process).collect()
    }

    pub(super) fn get(&mut self, id: Pid) -> Option<&mut Thread> {
        self.all.get_mut(&id.as_raw())
    }

    /// The ids of all threads.
    pub(super) fn ids(&self) -> impl Iterator<Item = Pid> {
        self.all.keys().map(|id| Pid::from_raw(*id))
    }

    /// The place of a thread in the order in which threads began.
    pub(super) fn number(&self, id: Pid) -> Option<u64> {
        self.all.get(&id.as_raw()).map(|thread| thread.number)
    }

    /// Whether a thread runs, or is about to: it does not wait, is not stopped by a signal, and has not ended.
    pub(super) fn runs(&self, id: Pid) -> bool {
        let Some(thread) = self.all.get(&id.as_raw()) else {
            return false;
        };
        if thread.is_in_vfork || thread.is_stopped {
            return false;
        }
        if thread.wait.as_ref().is_some_and(|wait| wait.is_over) {
            return true;
        }
        let state = thread.files.as_ref().map(Files::state);
        matches!(state, Some(State::Runs | State::Stopped))
    }

    /// The processor time of a thread so far.
    pub(super) fn processor_time(&self, id: Pid) -> Duration {
        let files = self
            .all
            .get(&id.as_raw())
            .and_then(|own| own.files.as_ref());
        files.map_or(Duration::ZERO, Files::processor_time)
    }

    /// Notes that the thread goes on.
    pub(super) fn goes_on(&mut self, id: Pid) {
        self.last = id.as_raw();
    }

    /// The threads whose processes signals have stopped, with the ids of these.
    pub(super) fn stopped(&self) -> Vec<(Pid, i32)> {
        let stopped = self.all.iter().filter(|(_, thread)| thread.is_stopped);
        stopped
            .map(|(id, thread)| (Pid::from_raw(*id), thread.process))
            .collect()
    }

    /// The threads that wait for a time which `is_over` accepts; their waits are over from now on.
    pub(super) fn end_waits(&mut self, is_over: impl Fn(Moment) -> bool) -> Vec<Pid> {
        let mut ended = Vec::new();
        for (id, thread) in &mut self.all {
            let wait = thread.wait.as_mut().filter(|wait| !wait.is_over);
            if let Some(wait) = wait.filter(|wait| is_over(wait.until)) {
                wait.is_over = true;
                ended.push(Pid::from_raw(*id));
            }
        }
        ended
    }

    /// The moments for which threads wait.
    pub(super) fn moments(&self) -> impl Iterator<Item = Moment> {
        let waits = self.all.values().filter_map(|thread| thread.wait.as_ref());
        waits.map(|wait| wait.until)
    }

    /// The short waits that are not over, with their processes.
    pub(super) fn short_waits(&self) -> impl Iterator<Item = (i32, Moment)> {
        self.all.values().filter_map(|thread| {
            let wait = thread.wait.as_ref()?;
            (wait.is_short && !wait.is_over).then_some((thread.process, wait.until))
        })
    }

    /// The processor time of each process so far, without threads that have ended.
    pub(super) fn processor_times(&self) -> BTreeMap<i32, Duration> {
        let mut times = BTreeMap::new();
        for thread in self.all.values() {
            if let Some(files) = &thread.files {
                *times.entry(thread.process).or_default() += files.processor_time();
            }
        }
        times
    }

    /// A digest of how much all threads have run; `None` if one runs, or has ended and is not removed yet.
    pub(super) fn asleep(&self) -> Option<u64> {
        let last = self.all.get_key_value(&self.last);
        if last.is_some_and(|(id, last)| self.ran(*id, last).is_none()) {
            return None;
        }
        let mut digest = DefaultHasher::new();
        for (id, thread) in &self.all {
            digest.write_i32(*id);
            digest.write(&self.ran(*id, thread)?);
        }
        Some(digest.finish())
    }

    /// How much a thread has run; `None` if it runs, or has ended and is not removed yet.
    fn ran(&self, id: i32, thread: &Thread) -> Option<[u8; 64]> {
        if thread.wait.as_ref().is_some_and(|wait| wait.is_over) {
            return None;
        }
        let state = thread.files.as_ref().map(Files::state);
        match state.unwrap_or(State::Ended) {
            State::Sleeps(observed) => Some(*observed.bytes()),
            State::Stopped => thread.is_stopped.then_some([0; 64]),
            // The end of a first thread is told with that of the last one.
            State::Ended => {
                let is_other = |(own, other): (&i32, &Thread)| *own != id && other.process == id;
                self.all.iter().any(is_other).then_some([0; 64])
            }
            State::Runs => None,
        }
    }
}

/// The process of a traced thread; `None` if it was seen to end. Until its parent asks how, `/proc` shows it without a tracer.
fn process_of(thread: Pid) -> io::Result<Option<i32>> {
    let status = status_of(thread.as_raw())?;
    let status = status.filter(|status| field(status, "TracerPid:") != Some("0"));
    let process = status.as_deref().and_then(|status| field(status, "Tgid:"));
    Ok(process.and_then(|process| process.parse().ok()))
}

/// Whether a thread or its process has got the signal that lets the process go on, and has not taken it yet.
///
/// # Errors
/// When `/proc` does not show it.
pub(super) fn goes_on_again(thread: Pid) -> io::Result<bool> {
    Ok(has_signal(thread.as_raw(), "SigPnd:", libc::SIGCONT)?
        || has_signal(thread.as_raw(), "ShdPnd:", libc::SIGCONT)?)
}

/// Whether the process has a handler for the signal.
///
/// # Errors
/// When `/proc` does not show it.
pub(super) fn handles(process: i32, signal: i32) -> io::Result<bool> {
    has_signal(process, "SigCgt:", signal)
}

fn has_signal(id: i32, set: &str, signal: i32) -> io::Result<bool> {
    let status = status_of(id)?;
    let set = status.as_deref().and_then(|status| field(status, set));
    let set = set.and_then(|set| u64::from_str_radix(set, 16).ok());
    Ok(set.is_some_and(|set| set & (1 << (signal - 1)) != 0))
}

fn status_of(id: i32) -> io::Result<Option<String>> {
    unless_ended(std::fs::read_to_string(format!("/proc/{id}/status")))
}

/// What `/proc` shows of a thread; `None` if it has ended.
fn unless_ended<T>(shown: io::Result<T>) -> io::Result<Option<T>> {
    match shown {
        Ok(shown) => Ok(Some(shown)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Ok(None),
            _ => Err(in_words("a thread cannot be watched")(error)),
        },
    }
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_not_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = Pid::from_raw(child.id().cast_signed());
        let mut threads = Threads::default();
        // Nobody traces it, and its parent has not asked for its end.
        threads.add(id).unwrap();
        child.wait().unwrap();
        threads.add(id).unwrap();
        assert!(threads.get(id).is_none());
        assert!(threads.asleep().is_some());
    }
}
