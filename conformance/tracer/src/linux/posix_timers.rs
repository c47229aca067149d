//! Timers that send signals (`timer_create`).

use std::collections::BTreeMap;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::clock::{Clock, Kind, Moment};
use super::memory::{self, Unit};
use super::registers::{Registers, number};
use super::timer::{Timer, spec};

/// The ids of virtual timers begin here; those of the kernel are far below.
pub(super) const FIRST_ID: i32 = 0x4000_0000;

/// The kinds of `sigevent` that send a signal.
const SIGNALS: [i32; 2] = [libc::SIGEV_SIGNAL, libc::SIGEV_THREAD_ID];

/// The timers of all processes, by process and id.
#[derive(Debug, Default)]
pub(super) struct PosixTimers {
    all: BTreeMap<(i32, i32), PosixTimer>,
    made: i32,
}

#[derive(Debug)]
struct PosixTimer {
    kind: Kind,
    /// `None` for a timer that is only looked at.
    signal: Option<Signal>,
    /// `None` if it is not set.
    timer: Option<Timer>,
}

impl PosixTimers {
    /// `timer_create`; returns the id.
    ///
    /// # Errors
    /// For a timer that counts processor time or sends a real-time signal, which is left to the kernel.
    pub(super) fn create(
        &mut self,
        (thread, process): (Pid, i32),
        registers: &Registers,
    ) -> Result<(), Errno> {
        let kind = Kind::of(number(registers.rdi)).ok_or(Errno::EINVAL)?;
        let signal = match registers.rsi {
            0 => Some(Signal::SIGALRM),
            event => signal_of(memory::read(thread, event)?)?,
        };
        let id = FIRST_ID + self.made;
        memory::write(thread, registers.rdx, &id.to_le_bytes())?;
        self.made += 1;
        let timer = PosixTimer {
            kind,
            signal,
            timer: None,
        };
        self.all.insert((process, id), timer);
        Ok(())
    }

    /// `timer_settime`.
    ///
    /// # Errors
    /// When there is no such timer, or arguments are wrong.
    pub(super) fn set(
        &mut self,
        (thread, process): (Pid, i32),
        registers: &Registers,
        clock: &Clock,
    ) -> Result<(), Errno> {
        let id = number(registers.rdi);
        let spec = spec(memory::read(thread, registers.rdx)?, Unit::Nanos)?;
        let left = self.left(process, id, clock)?;
        let own = self.all.get_mut(&(process, id)).ok_or(Errno::EINVAL)?;
        own.timer = Timer::set(number(registers.rsi), own.kind, spec, clock);
        memory::write_if_set(thread, registers.r10, &left)
    }

    /// The interval and the remaining time of a timer, as `timer_gettime` writes them.
    ///
    /// # Errors
    /// When there is no such timer.
    pub(super) fn left(&self, process: i32, id: i32, clock: &Clock) -> Result<[u8; 32], Errno> {
        let own = self.all.get(&(process, id)).ok_or(Errno::EINVAL)?;
        let timer = own.timer.as_ref();
        Ok(timer.map_or([0; 32], |timer| timer.left(clock, Unit::Nanos)))
    }

    /// `timer_delete`.
    ///
    /// # Errors
    /// When there is no such timer.
    pub(super) fn delete(&mut self, process: i32, id: i32) -> Result<(), Errno> {
        self.all
            .remove(&(process, id))
            .map(drop)
            .ok_or(Errno::EINVAL)
    }

    /// Forgets the timers of a process that has ended or has executed another program.
    pub(super) fn forget(&mut self, process: i32) {
        self.all.retain(|(owner, _), _| *owner != process);
    }

    /// The moments at which timers go off.
    pub(super) fn moments(&self) -> impl Iterator<Item = Moment> {
        let timers = self.all.values().filter_map(|own| own.timer.as_ref());
        timers.map(|timer| timer.until)
    }

    /// Lets the timers go off whose time has come.
    pub(super) fn go_off(&mut self, clock: &Clock) {
        for ((process, _), own) in &mut self.all {
            let Some(timer) = own.timer.filter(|timer| timer.is_over(clock)) else {
                continue;
            };
            own.timer = timer.next();
            if let Some(signal) = own.signal {
                // A process that has ended needs no signal.
                let _ = kill(Pid::from_raw(*process), signal);
            }
        }
    }
}

/// The signal in a `sigevent`: a value, the signal, and how it tells.
fn signal_of(event: [u8; 16]) -> Result<Option<Signal>, Errno> {
    let number = |bytes: &[u8]| bytes.try_into().map(i32::from_le_bytes);
    let (Ok(signal), Ok(how)) = (number(&event[8..12]), number(&event[12..])) else {
        return Err(Errno::EFAULT);
    };
    match how {
        libc::SIGEV_NONE => Ok(None),
        how if SIGNALS.contains(&how) => Signal::try_from(signal).map(Some),
        _ => Err(Errno::EINVAL),
    }
}
