//! System calls that are answered without the kernel: readings of clocks, timers, random numbers.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::clock::{Clock, Kind, SECOND};
use super::memory::{self, Unit, time_bytes};
use super::random::{AT_ONCE, Random};
use super::registers::{Registers, number};
use super::timers::Timers;

/// What answers come from.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) clock: Clock,
    pub(super) timers: Timers,
    pub(super) random: Random,
}

/// Answers the call of a thread of `process`. `None` for a call that is no such one.
///
/// # Errors
/// When arguments are wrong, or the kernel has to answer; it then knows what.
pub(super) fn answer(
    by: (Pid, i32),
    registers: &Registers,
    sources: &mut Sources,
) -> Result<Option<i64>, Errno> {
    let Sources {
        clock,
        timers,
        random,
    } = sources;
    let answer = match registers.orig_rax.cast_signed() {
        libc::SYS_clock_gettime | libc::SYS_gettimeofday | libc::SYS_time => {
            read_clock(by.0, registers, clock)
        }
        libc::SYS_timerfd_settime | libc::SYS_timerfd_gettime => {
            file_timer(by, registers, timers, clock)
        }
        libc::SYS_setitimer | libc::SYS_getitimer | libc::SYS_alarm => {
            alarm(by, registers, timers, clock)
        }
        libc::SYS_timer_create
        | libc::SYS_timer_settime
        | libc::SYS_timer_gettime
        | libc::SYS_timer_getoverrun
        | libc::SYS_timer_delete => posix_timer(by, registers, timers, clock),
        libc::SYS_getrandom => fill(by, registers, random),
        _ => return Ok(None),
    };
    answer.map(Some)
}

fn read_clock(thread: Pid, registers: &Registers, clock: &mut Clock) -> Result<i64, Errno> {
    let Registers { rdi, rsi, .. } = *registers;
    match registers.orig_rax.cast_signed() {
        libc::SYS_clock_gettime => {
            let kind = Kind::of(number(rdi)).ok_or(Errno::EINVAL)?;
            let time = time_bytes(clock.read(kind), Unit::Nanos);
            memory::write(thread, rsi, &time)?;
            Ok(0)
        }
        libc::SYS_gettimeofday => {
            let time = time_bytes(clock.read(Kind::Realtime), Unit::Micros);
            memory::write_if_set(thread, rdi, &time)?;
            memory::write_if_set(thread, rsi, &[0; 8])?;
            Ok(0)
        }
        _ => {
            let seconds = clock.read(Kind::Realtime).div_euclid(SECOND);
            memory::write_if_set(thread, rdi, &seconds.to_le_bytes())?;
            Ok(seconds)
        }
    }
}

fn file_timer(
    (thread, process): (Pid, i32),
    registers: &Registers,
    timers: &mut Timers,
    clock: &Clock,
) -> Result<i64, Errno> {
    match registers.orig_rax.cast_signed() {
        libc::SYS_timerfd_settime => timers.set_file((thread, process), registers, clock)?,
        _ => {
            let left = timers.file_left(process, number(registers.rdi), clock)?;
            memory::write(thread, registers.rsi, &left.ok_or(Errno::EINVAL)?)?;
        }
    }
    Ok(0)
}

fn alarm(
    (thread, process): (Pid, i32),
    registers: &Registers,
    timers: &mut Timers,
    clock: &Clock,
) -> Result<i64, Errno> {
    let Registers { rdi, rsi, rdx, .. } = *registers;
    match registers.orig_rax.cast_signed() {
        libc::SYS_setitimer => {
            let new = match rsi {
                0 => [0; 32],
                rsi => memory::read(thread, rsi)?,
            };
            let left = timers.set_alarm(process, new, clock)?;
            memory::write_if_set(thread, rdx, &left)?;
            Ok(0)
        }
        libc::SYS_getitimer => {
            memory::write(thread, rsi, &timers.alarm_left(process, clock))?;
            Ok(0)
        }
        _ => {
            let mut new = [0; 32];
            new[16..20].copy_from_slice(&number(rdi).to_le_bytes());
            let left = timers.set_alarm(process, new, clock)?;
            Ok(whole_seconds(left))
        }
    }
}

fn posix_timer(
    (thread, process): (Pid, i32),
    registers: &Registers,
    timers: &mut Timers,
    clock: &Clock,
) -> Result<i64, Errno> {
    let id = number(registers.rdi);
    let timers = &mut timers.posix;
    match registers.orig_rax.cast_signed() {
        libc::SYS_timer_create => timers.create((thread, process), registers)?,
        libc::SYS_timer_settime => timers.set((thread, process), registers, clock)?,
        libc::SYS_timer_gettime => {
            let left = timers.left(process, id, clock)?;
            memory::write(thread, registers.rsi, &left)?;
        }
        libc::SYS_timer_delete => timers.delete(process, id)?,
        // Time passes up to the next timer, so none goes off twice before it is seen.
        _ => drop(timers.left(process, id, clock)?),
    }
    Ok(0)
}

fn fill(
    (thread, process): (Pid, i32),
    registers: &Registers,
    random: &mut Random,
) -> Result<i64, Errno> {
    let wanted = usize::try_from(registers.rsi).map_err(|_| Errno::EFAULT)?;
    let mut bytes = vec![0; wanted.min(AT_ONCE)];
    random.fill(process, &mut bytes);
    memory::write(thread, registers.rdi, &bytes)?;
    i64::try_from(bytes.len()).map_err(|_| Errno::EFAULT)
}

/// The seconds that `alarm` returns for the remaining time: at least one, if there is any.
fn whole_seconds(left: [u8; 32]) -> i64 {
    let mut value = [0; 16];
    value.copy_from_slice(&left[16..]);
    let nanos = memory::time_of(value, Unit::Micros).unwrap_or(0);
    let rounded = (nanos + SECOND / 2) / SECOND;
    rounded.max(i64::from(nanos > 0))
}
