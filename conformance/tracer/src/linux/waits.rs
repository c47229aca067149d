//! Waits with a limit: the kernel runs them without it, and the tracer interrupts them when their time has come.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::clock::{Clock, Kind, Moment};
use super::memory::{self, Unit, read_time, time_bytes};
use super::registers::{Registers, number};

/// Results with which the kernel says that it runs a call again, or returns `EINTR`, depending on a handler of the signal.
const RESTARTS: [i64; 4] = [-512, RESTART_ALWAYS, RESTART_WITHOUT_HANDLER, -516];
/// The one of them that runs the call again in any case.
const RESTART_ALWAYS: i64 = -513;
/// The one of them that runs the whole call again unless a handler runs.
const RESTART_WITHOUT_HANDLER: i64 = -514;
const MILLISECOND: i64 = 1_000_000;
/// Waits of this length, in nanoseconds, are short: those by which runtimes of languages pass on turns.
const SHORT: u64 = 10_000_000;

/// The beginning of a wait.
#[derive(Debug)]
pub(super) enum Begun {
    /// It is no wait, or one without a limit: the kernel runs it as it is.
    HasNoLimit,
    /// The time of the wait has come already.
    Over,
    /// The kernel runs the call with these registers, in which it has no limit.
    Waits(Box<(Registers, Wait)>),
}

/// A wait with a limit.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    /// The registers of the call as the program made it.
    called: Registers,
    pub(super) until: Moment,
    /// Whether it was short at its beginning.
    pub(super) is_short: bool,
    /// Whether the time has come, and the thread was interrupted.
    pub(super) is_over: bool,
    /// The result when the time has come.
    result: i64,
    /// The memory that is then zero, by address and length.
    cleared: Vec<(u64, usize)>,
    /// Where a sleep that a signal has interrupted leaves the remaining time; zero for nowhere.
    remaining: u64,
}

/// The end of a wait.
#[derive(Debug)]
pub(super) struct End {
    /// The registers with which the thread goes on.
    pub(super) registers: Registers,
    /// The wait goes on if the kernel runs the call again.
    pub(super) may_go_on: bool,
}

/// When a wait ends.
#[derive(Clone, Copy)]
enum Limit {
    In(i64),
    At(Moment),
}

/// A call that may wait.
struct Call<'a> {
    thread: Pid,
    registers: Registers,
    interrupted: Option<&'a Wait>,
}

/// Begins the wait of a thread that makes a call with these registers. `interrupted` is a wait of the thread that a signal has
/// interrupted: if the kernel runs that call again, its time stays the same.
///
/// # Errors
/// When arguments are wrong; the kernel then knows the answer.
pub(super) fn begin(
    thread: Pid,
    registers: Registers,
    interrupted: Option<&Wait>,
    clock: &Clock,
) -> Result<Begun, Errno> {
    let call = Call {
        thread,
        registers,
        interrupted,
    };
    match registers.orig_rax.cast_signed() {
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => call.sleep(clock),
        libc::SYS_futex => call.futex(registers.r10, clock),
        _ => call.poll(clock),
    }
}

impl Call<'_> {
    /// A sleep becomes a wait for nothing without a limit.
    fn sleep(&self, clock: &Clock) -> Result<Begun, Errno> {
        let Registers {
            orig_rax,
            rdi,
            rsi,
            rdx,
            r10,
            ..
        } = self.registers;
        let time = |address| read_time(self.thread, address, Unit::Nanos);
        let (limit, remaining) = match orig_rax.cast_signed() {
            libc::SYS_nanosleep => (Limit::In(time(rdi)?), rsi),
            _ => {
                let kind = Kind::of(number(rdi)).ok_or(Errno::EINVAL)?;
                let nanos = time(rdx)?;
                match number(rsi) & libc::TIMER_ABSTIME {
                    0 => (Limit::In(nanos), r10),
                    _ => (Limit::At(Moment { kind, nanos }), 0),
                }
            }
        };
        let without_limit = Registers {
            orig_rax: libc::SYS_ppoll.cast_unsigned(),
            rdi: 0,
            rsi: 0,
            rdx: 0,
            r10: 0,
            ..self.registers
        };
        let mut wait = self.wait(limit, clock);
        wait.remaining = remaining;
        if clock.until(wait.until) == 0 {
            return Ok(Begun::Over);
        }
        Ok(Begun::Waits(Box::new((without_limit, wait))))
    }

    fn futex(&self, limit: u64, clock: &Clock) -> Result<Begun, Errno> {
        let operation = number(self.registers.rsi);
        let nanos = read_time(self.thread, limit, Unit::Nanos)?;
        let is_realtime = operation & libc::FUTEX_CLOCK_REALTIME != 0;
        let kind = match operation & !libc::FUTEX_CLOCK_REALTIME & !libc::FUTEX_PRIVATE_FLAG {
            libc::FUTEX_LOCK_PI => Kind::Realtime,
            _ if is_realtime => Kind::Realtime,
            _ => Kind::Monotonic,
        };
        let limit = match operation & !libc::FUTEX_CLOCK_REALTIME & !libc::FUTEX_PRIVATE_FLAG {
            libc::FUTEX_WAIT => Limit::In(nanos),
            _ => Limit::At(Moment { kind, nanos }),
        };
        let mut wait = self.wait(limit, clock);
        wait.result = failure(Errno::ETIMEDOUT);
        let without_limit = Registers {
            r10: 0,
            ..self.registers
        };
        Ok(Begun::Waits(Box::new((without_limit, wait))))
    }

    /// Waits for files, signals and several futexes.
    fn poll(&self, clock: &Clock) -> Result<Begun, Errno> {
        let mut without = self.registers;
        let Registers { rdx, r10, r8, .. } = self.registers;
        let time = |address, unit| read_time(self.thread, address, unit).map(Limit::In);
        let milliseconds = |limit| Limit::In(i64::from(number(limit)) * MILLISECOND);
        let (mut result, mut cleared) = (0, Vec::new());
        let limit = match self.registers.orig_rax.cast_signed() {
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
                without.r10 = u64::MAX;
                milliseconds(r10)
            }
            libc::SYS_epoll_pwait2 => {
                without.r10 = 0;
                time(r10, Unit::Nanos)?
            }
            libc::SYS_poll => {
                without.rdx = u64::MAX;
                milliseconds(rdx)
            }
            libc::SYS_ppoll => {
                without.rdx = 0;
                cleared.push((rdx, 16));
                time(rdx, Unit::Nanos)?
            }
            call @ (libc::SYS_select | libc::SYS_pselect6) => {
                without.r8 = 0;
                cleared = self.file_sets();
                cleared.push((r8, 16));
                match call {
                    libc::SYS_select => time(r8, Unit::Micros)?,
                    _ => time(r8, Unit::Nanos)?,
                }
            }
            libc::SYS_rt_sigtimedwait => {
                without.rdx = 0;
                result = failure(Errno::EAGAIN);
                time(rdx, Unit::Nanos)?
            }
            libc::SYS_futex_waitv => {
                without.r10 = 0;
                result = failure(Errno::ETIMEDOUT);
                let kind = Kind::of(number(r8)).ok_or(Errno::EINVAL)?;
                let nanos = read_time(self.thread, r10, Unit::Nanos)?;
                Limit::At(Moment { kind, nanos })
            }
            _ => return Ok(Begun::HasNoLimit),
        };
        let is_poll = matches!(limit, Limit::In(..=0));
        if is_poll {
            return Ok(Begun::HasNoLimit);
        }
        let wait = Wait {
            result,
            cleared,
            ..self.wait(limit, clock)
        };
        Ok(Begun::Waits(Box::new((without, wait))))
    }

    /// The sets of files of `select`, which are empty when its time has come.
    fn file_sets(&self) -> Vec<(u64, usize)> {
        let Registers {
            rdi, rsi, rdx, r10, ..
        } = self.registers;
        let files = usize::try_from(number(rdi)).unwrap_or(0);
        let length = files.div_ceil(64) * 8;
        [rsi, rdx, r10].map(|set| (set, length)).to_vec()
    }

    /// A wait that returns zero at its end. If this call is one that a signal has interrupted, its end stays the same.
    fn wait(&self, limit: Limit, clock: &Clock) -> Wait {
        let same = self.interrupted.filter(|wait| wait.is_of(&self.registers));
        let until = match (same, limit) {
            (Some(wait), _) => wait.until,
            (None, Limit::At(moment)) => moment,
            (None, Limit::In(nanos)) => clock.now(Kind::Monotonic).later(nanos),
        };
        Wait {
            called: self.registers,
            until,
            is_short: clock.until(until) <= SHORT,
            is_over: false,
            result: 0,
            cleared: Vec::new(),
            remaining: 0,
        }
    }
}

impl Wait {
    /// Whether these are the registers of the same call.
    fn is_of(&self, registers: &Registers) -> bool {
        let call = |own: &Registers| {
            (
                (own.rip, own.rsp, own.orig_rax),
                [own.rdi, own.rsi, own.rdx, own.r10, own.r8, own.r9],
            )
        };
        call(&self.called) == call(registers)
    }

    /// Ends the wait at the return of the call: the registers are those of the program again.
    pub(super) fn end(&self, thread: Pid, returned: Registers, clock: &Clock) -> End {
        let mut registers = Registers {
            rax: returned.rax,
            ..self.called
        };
        let result = returned.rax.cast_signed();
        let is_interrupted = result == failure(Errno::EINTR) || RESTARTS.contains(&result);
        if !is_interrupted {
            return End {
                registers,
                may_go_on: false,
            };
        }
        if self.is_over {
            registers.rax = self.result.cast_unsigned();
            for (address, length) in &self.cleared {
                // The kernel does not complain either.
                let _ = memory::write_if_set(thread, *address, &vec![0; *length]);
            }
            return End {
                registers,
                may_go_on: false,
            };
        }
        let left = i64::try_from(clock.until(self.until)).unwrap_or(i64::MAX);
        let left = time_bytes(left, Unit::Nanos);
        let _ = memory::write_if_set(thread, self.remaining, &left);
        let may_go_on = RESTARTS.contains(&result);
        // Other calls return EINTR after a handler if they have a limit, which the kernel does not see.
        if may_go_on && result != RESTART_ALWAYS {
            registers.rax = RESTART_WITHOUT_HANDLER.cast_unsigned();
        }
        End {
            registers,
            may_go_on,
        }
    }
}

fn failure(error: Errno) -> i64 {
    -i64::from(error as i32)
}
