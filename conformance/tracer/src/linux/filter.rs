//! The filter that stops a program at system calls about time and random numbers, and nowhere else.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::clock::virtual_clocks;
use super::posix_timers::FIRST_ID;
use super::registers::bits;

/// The operations of `futex` whose fourth argument is a limit.
const FUTEX_WAITS: [i32; 5] = [
    libc::FUTEX_WAIT,
    libc::FUTEX_LOCK_PI,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAIT_REQUEUE_PI,
    libc::FUTEX_LOCK_PI2,
];

/// Installs the filter for this thread and all that it starts. Without a tracer the filtered calls fail.
///
/// # Errors
/// When the kernel refuses it.
pub(super) fn install() -> io::Result<()> {
    let program = program().map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn program() -> Result<BpfProgram, BackendError> {
    let filter = SeccompFilter::new(
        rules()?,
        SeccompAction::Allow,
        SeccompAction::Trace(0),
        TargetArch::x86_64,
    );
    filter?.try_into()
}

/// The conditions of a rule, which all have to be met.
type Conditions = Vec<SeccompCondition>;

/// A system call stops if it meets one of its rules, or has none.
fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut clocks: Vec<Conditions> = Vec::new();
    for clock in virtual_clocks() {
        clocks.push(vec![is(0, clock)?]);
    }
    let mut futexes: Vec<Conditions> = Vec::new();
    for operation in FUTEX_WAITS {
        futexes.push(vec![has_bits(1, 0x7f, operation)?, is_set(3)?]);
    }
    let real = vec![vec![is(0, libc::ITIMER_REAL)?]];
    // Timers of the kernel are not stopped at.
    let id = SeccompCondition::new(0, Length::Dword, Is::Ge, bits(FIRST_ID))?;
    let own = vec![vec![id]];
    let table = [
        (libc::SYS_clock_gettime, clocks),
        (libc::SYS_gettimeofday, Vec::new()),
        (libc::SYS_time, Vec::new()),
        (libc::SYS_nanosleep, Vec::new()),
        (libc::SYS_clock_nanosleep, Vec::new()),
        (libc::SYS_epoll_wait, vec![is_limit(3)?]),
        (libc::SYS_epoll_pwait, vec![is_limit(3)?]),
        (libc::SYS_epoll_pwait2, vec![vec![is_set(3)?]]),
        (libc::SYS_poll, vec![is_limit(2)?]),
        (libc::SYS_ppoll, vec![vec![is_set(2)?]]),
        (libc::SYS_select, vec![vec![is_set(4)?]]),
        (libc::SYS_pselect6, vec![vec![is_set(4)?]]),
        (libc::SYS_futex, futexes),
        (libc::SYS_futex_waitv, vec![vec![is_set(3)?]]),
        (libc::SYS_rt_sigtimedwait, vec![vec![is_set(2)?]]),
        (libc::SYS_timerfd_settime, Vec::new()),
        (libc::SYS_timerfd_gettime, Vec::new()),
        (libc::SYS_setitimer, real.clone()),
        (libc::SYS_getitimer, real),
        (libc::SYS_alarm, Vec::new()),
        (libc::SYS_timer_create, Vec::new()),
        (libc::SYS_timer_settime, own.clone()),
        (libc::SYS_timer_gettime, own.clone()),
        (libc::SYS_timer_getoverrun, own.clone()),
        (libc::SYS_timer_delete, own),
        (libc::SYS_getrandom, Vec::new()),
    ];
    let rules = table.into_iter().map(|(call, rules)| {
        let rules = rules.into_iter().map(SeccompRule::new);
        Ok((call, rules.collect::<Result<_, _>>()?))
    });
    rules.collect()
}

type Condition = Result<SeccompCondition, BackendError>;

/// The number of the argument is `value`.
fn is(argument: u8, value: i32) -> Condition {
    SeccompCondition::new(argument, Length::Dword, Is::Eq, bits(value))
}

/// The argument has the bits of `value` in `mask`.
fn has_bits(argument: u8, mask: u64, value: i32) -> Condition {
    SeccompCondition::new(argument, Length::Dword, Is::MaskedEq(mask), bits(value))
}

/// The argument is a pointer to something.
fn is_set(argument: u8) -> Condition {
    SeccompCondition::new(argument, Length::Qword, Is::Ne, 0)
}

/// The argument is a limit in milliseconds: neither zero nor negative, which means none.
fn is_limit(argument: u8) -> Result<Conditions, BackendError> {
    let not_zero = SeccompCondition::new(argument, Length::Dword, Is::Ne, 0)?;
    Ok(vec![not_zero, has_bits(argument, 1 << 31, 0)?])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_filter_fits_the_kernel() {
        let length = super::program().unwrap().len();
        assert!(length < usize::from(u16::MAX) && length > 20, "{length}");
    }
}
