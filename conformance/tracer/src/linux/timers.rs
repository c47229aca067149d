//! Timers of a program: files that become readable (`timerfd`), alarms (`setitimer`), and those of `timer_create`.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_gettime, timerfd_settime};

use super::clock::{Clock, Kind, Moment};
use super::memory::{self, Unit};
use super::posix_timers::PosixTimers;
use super::registers::{Registers, number};
use super::timer::{AT_MOMENT, Timer, spec};

const NOTHING: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1,
};

/// All timers of a program and its children that have been set and are not over.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// By process and number of the file.
    files: BTreeMap<(i32, i32), FileTimer>,
    /// By process.
    alarms: BTreeMap<i32, Timer>,
    pub(super) posix: PosixTimers,
}

/// A timer behind a file, and our own descriptor of it.
#[derive(Debug)]
struct FileTimer {
    timer: Timer,
    file: OwnedFd,
}

impl Timers {
    /// `timerfd_settime`: the file itself is only set when the time has come.
    ///
    /// # Errors
    /// When arguments are wrong; the kernel then knows the answer.
    pub(super) fn set_file(
        &mut self,
        (thread, process): (Pid, i32),
        registers: &Registers,
        clock: &Clock,
    ) -> Result<(), Errno> {
        let (descriptor, flags) = (number(registers.rdi), number(registers.rsi));
        let (interval, value) = spec(memory::read(thread, registers.rdx)?, Unit::Nanos)?;
        let kind = clock_of(process, descriptor).ok_or(Errno::EINVAL)?;
        let until = match flags & AT_MOMENT {
            0 => clock.now(Kind::Monotonic).later(value),
            _ => Moment { kind, nanos: value },
        };
        let file = descriptor_of(process, descriptor).map_err(errno)?;
        arm(&file, NOTHING)?;
        let key = (process, descriptor);
        let before = self.files.remove(&key);
        let left = before.map_or([0; 32], |before| before.timer.left(clock, Unit::Nanos));
        memory::write(thread, registers.r10, &left)?;
        if value > 0 {
            let timer = Timer { until, interval };
            self.files.insert(key, FileTimer { timer, file });
        }
        Ok(())
    }

    /// The interval and the remaining time of a file's timer; `None` if it is not set.
    pub(super) fn file_left(
        &self,
        process: i32,
        descriptor: i32,
        clock: &Clock,
    ) -> Option<[u8; 32]> {
        let own = self.files.get(&(process, descriptor))?;
        Some(own.timer.left(clock, Unit::Nanos))
    }

    /// Sets the alarm of a process; returns the interval and remaining time of the one before.
    ///
    /// # Errors
    /// When the times are wrong.
    pub(super) fn set_alarm(
        &mut self,
        process: i32,
        new: [u8; 32],
        clock: &Clock,
    ) -> Result<[u8; 32], Errno> {
        let (interval, value) = spec(new, Unit::Micros)?;
        let left = self.alarm_left(process, clock);
        self.alarms.remove(&process);
        if value > 0 {
            let until = clock.now(Kind::Monotonic).later(value);
            self.alarms.insert(process, Timer { until, interval });
        }
        Ok(left)
    }

    /// The interval and the remaining time of the alarm of a process.
    pub(super) fn alarm_left(&self, process: i32, clock: &Clock) -> [u8; 32] {
        let alarm = self.alarms.get(&process);
        alarm.map_or([0; 32], |alarm| alarm.left(clock, Unit::Micros))
    }

    /// Forgets the timers of a process that has ended.
    pub(super) fn forget(&mut self, process: i32) {
        self.alarms.remove(&process);
        self.posix.forget(process);
        self.files.retain(|(owner, _), _| *owner != process);
    }

    /// The moments at which timers go off.
    pub(super) fn moments(&self) -> impl Iterator<Item = Moment> {
        let files = self.files.values().map(|own| own.timer.until);
        let alarms = self.alarms.values().map(|alarm| alarm.until);
        files.chain(alarms).chain(self.posix.moments())
    }

    /// Lets the timers go off whose time has come.
    pub(super) fn go_off(&mut self, clock: &Clock) {
        self.files.retain(|_, own| {
            if !own.timer.is_over(clock) {
                return true;
            }
            if arm(&own.file, AT_ONCE).is_ok() {
                // Until the file is readable, which takes the kernel some microseconds.
                while timerfd_gettime(&own.file).is_ok_and(|left| left.it_value != NOTHING) {
                    std::hint::spin_loop();
                }
            }
            let next = own.timer.next();
            own.timer = next.unwrap_or(own.timer);
            next.is_some()
        });
        self.alarms.retain(|process, alarm| {
            if !alarm.is_over(clock) {
                return true;
            }
            // A process that has ended needs no alarm.
            let _ = kill(Pid::from_raw(*process), Signal::SIGALRM);
            let next = alarm.next();
            *alarm = next.unwrap_or(*alarm);
            next.is_some()
        });
        self.posix.go_off(clock);
    }
}

/// Lets the timer of a file go off once after a real time.
fn arm(file: &OwnedFd, after: Timespec) -> Result<(), Errno> {
    let spec = Itimerspec {
        it_interval: NOTHING,
        it_value: after,
    };
    let set = timerfd_settime(file.as_fd(), TimerfdTimerFlags::empty(), &spec);
    set.map(drop).map_err(errno)
}

/// The clock of a timer; `None` if the descriptor is not one.
fn clock_of(process: i32, descriptor: i32) -> Option<Kind> {
    let text = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("clockid:"))?;
    Kind::of(number.trim().parse().ok()?)
}

/// A descriptor of our own for a file of the process.
fn descriptor_of(process: i32, descriptor: i32) -> rustix::io::Result<OwnedFd> {
    let process = rustix::process::Pid::from_raw(process).ok_or(rustix::io::Errno::SRCH)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}
