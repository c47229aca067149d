//! Timers of a program: files that become readable (`timerfd`), alarms (`setitimer`), and those of `timer_create`.

use std::collections::{BTreeMap, BTreeSet};
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
use super::timer::{Timer, spec};

const NOTHING: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1,
};

/// The seconds of the interval of a virtual timer's file, as the kernel has it: it goes off once. The nanoseconds tell files apart.
const MARK_SECONDS: i64 = 4_000_000_000;
/// The number of files at which those are looked for that no process has open.
const FILES_AT_FIRST: usize = 64;

/// All timers of a program and its children that have been set and are not over.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// By the mark that the kernel keeps for each file.
    files: BTreeMap<i64, FileTimer>,
    /// The last mark.
    marked: i64,
    /// The number of files after the last look for those that no process has open.
    kept: usize,
    /// By process.
    alarms: BTreeMap<i32, Timer>,
    pub(super) posix: PosixTimers,
}

/// A timer behind a file, and our own descriptor of it.
#[derive(Debug)]
struct FileTimer {
    /// `None` if it is not set.
    timer: Option<Timer>,
    file: OwnedFd,
    /// The process that has set it last, and its descriptor.
    holder: (i32, i32),
}

impl Timers {
    /// `timerfd_settime`: the file itself is only set when the time has come.
    ///
    /// # Errors
    /// When arguments are wrong, and the kernel then knows the answer; and when the file cannot be shared.
    pub(super) fn set_file(
        &mut self,
        (thread, process): (Pid, i32),
        registers: &Registers,
        clock: &Clock,
    ) -> Result<(), Errno> {
        let (descriptor, flags) = (number(registers.rdi), number(registers.rsi));
        let spec = spec(memory::read(thread, registers.rdx)?, Unit::Nanos)?;
        let (kind, mark) = shown(process, descriptor)?.ok_or(Errno::EINVAL)?;
        let (mark, mut own) = match self.files.remove_entry(&mark) {
            Some(known) => known,
            None => {
                self.marked += 1;
                let file = descriptor_of(process, descriptor).map_err(errno)?;
                let (timer, holder) = (None, (process, descriptor));
                (
                    self.marked,
                    FileTimer {
                        timer,
                        file,
                        holder,
                    },
                )
            }
        };
        arm(&own.file, NOTHING, mark)?;
        let left = own.left(clock);
        own.timer = Timer::set(flags, kind, spec, clock);
        own.holder = (process, descriptor);
        self.files.insert(mark, own);
        memory::write_if_set(thread, registers.r10, &left)
    }

    /// The interval and the remaining time of a file's timer; `None` if it has never been set.
    ///
    /// # Errors
    /// When `/proc` does not show the file.
    pub(super) fn file_left(
        &self,
        process: i32,
        descriptor: i32,
        clock: &Clock,
    ) -> Result<Option<[u8; 32]>, Errno> {
        let shown = shown(process, descriptor)?;
        let own = shown.and_then(|(_, mark)| self.files.get(&mark));
        Ok(own.map(|own| own.left(clock)))
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
    }

    /// The moments at which timers go off.
    pub(super) fn moments(&self) -> impl Iterator<Item = Moment> {
        let files = self.files.values().filter_map(|own| own.timer);
        let files = files.map(|timer| timer.until);
        let alarms = self.alarms.values().map(|alarm| alarm.until);
        files.chain(alarms).chain(self.posix.moments())
    }

    /// Lets the timers go off whose time has come. `processes` are all that there are.
    pub(super) fn go_off(&mut self, clock: &Clock, processes: impl Fn() -> BTreeSet<i32>) {
        let is_over = |timer: &Timer| timer.is_over(clock);
        let is_lost = |(mark, own): (&i64, &FileTimer)| {
            own.timer.is_some_and(|timer| is_over(&timer)) && !own.is_held(*mark)
        };
        if self.files.len() >= FILES_AT_FIRST.max(2 * self.kept) || self.files.iter().any(is_lost) {
            self.keep_open(&processes());
        }
        for (mark, own) in &mut self.files {
            if let Some(timer) = own.timer.filter(is_over) {
                own.timer = timer.next();
                own.go_off(*mark);
            }
        }
        self.alarms.retain(|process, alarm| {
            if !alarm.is_over(clock) {
                return true;
            }
            // A process that has ended needs no alarm.
            let _ = kill(Pid::from_raw(*process), Signal::SIGALRM);
            let next = alarm.next();
            next.inspect(|next| *alarm = *next).is_some()
        });
        self.posix.go_off(clock);
    }

    /// Forgets the files that none of the processes has open any more.
    fn keep_open(&mut self, processes: &BTreeSet<i32>) {
        let mut open = BTreeMap::new();
        for process in processes {
            let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fdinfo")) else {
                // It has ended.
                continue;
            };
            let names = descriptors.flatten().map(|entry| entry.file_name());
            for descriptor in names.filter_map(|name| name.to_str()?.parse().ok()) {
                if let Ok(Some((_, mark))) = shown(*process, descriptor) {
                    open.insert(mark, (*process, descriptor));
                }
            }
        }
        self.files.retain(|mark, own| {
            let holder = open.get(mark);
            holder.inspect(|holder| own.holder = **holder).is_some()
        });
        self.kept = self.files.len();
    }
}

impl FileTimer {
    /// The interval and the remaining time.
    fn left(&self, clock: &Clock) -> [u8; 32] {
        let left = |timer: Timer| timer.left(clock, Unit::Nanos);
        self.timer.map_or([0; 32], left)
    }

    /// Whether the descriptor that was used last is still that of the file with this mark.
    fn is_held(&self, mark: i64) -> bool {
        let (process, descriptor) = self.holder;
        shown(process, descriptor).is_ok_and(|shown| shown.is_some_and(|(_, own)| own == mark))
    }

    /// Makes the file readable.
    fn go_off(&self, mark: i64) {
        if arm(&self.file, AT_ONCE, mark).is_err() {
            return;
        }
        // It takes the kernel some microseconds. Then the interval begins.
        let is_over = |left: Itimerspec| left.it_value.tv_sec > 0;
        while timerfd_gettime(&self.file).is_ok_and(|left| !is_over(left)) {
            std::hint::spin_loop();
        }
    }
}

/// Lets the timer of a file go off once after a real time, and marks the file.
fn arm(file: &OwnedFd, after: Timespec, mark: i64) -> Result<(), Errno> {
    let spec = Itimerspec {
        it_interval: Timespec {
            tv_sec: MARK_SECONDS,
            tv_nsec: mark,
        },
        it_value: after,
    };
    let set = timerfd_settime(file.as_fd(), TimerfdTimerFlags::empty(), &spec);
    set.map(drop).map_err(errno)
}

/// The clock and the mark of a timer's file; the mark is zero for a file without one. `None` if the descriptor belongs to no timer.
///
/// # Errors
/// `EBADF` if there is no such descriptor; and when `/proc` does not show it.
fn shown(process: i32, descriptor: i32) -> Result<Option<(Kind, i64)>, Errno> {
    let text = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}"));
    let text = match text.map_err(|error| error.raw_os_error().map(Errno::from_raw)) {
        Ok(text) => text,
        Err(Some(Errno::ENOENT) | None) => return Err(Errno::EBADF),
        Err(Some(error)) => return Err(error),
    };
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name));
    let clock = field("clockid:").and_then(|clock| Kind::of(clock.trim().parse().ok()?));
    let mark = field("it_interval:").and_then(mark_of);
    Ok(clock.map(|clock| (clock, mark.unwrap_or(0))))
}

/// The mark in the interval `(seconds, nanoseconds)`.
fn mark_of(interval: &str) -> Option<i64> {
    let interval = interval.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (seconds, nanos) = interval.split_once(", ")?;
    let is_mark = seconds.parse() == Ok(MARK_SECONDS);
    is_mark.then(|| nanos.parse().ok()).flatten()
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
