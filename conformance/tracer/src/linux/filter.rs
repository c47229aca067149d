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

/// The calls in which a thread may wait, but for `futex` and `fcntl`, which do that in some operations.
const WAITS: [i64; 37] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_splice,
    libc::SYS_sendfile,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_futex_waitv,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_pause,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_yield,
    libc::SYS_flock,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_io_getevents,
];

/// Installs the filter for this thread and all that it starts. Without a tracer the filtered calls fail. If threads take turns, it
/// stops them at all calls in which they may wait, too.
///
/// # Errors
/// When the kernel refuses it.
pub(super) fn install(take_turns: bool) -> io::Result<()> {
    let program = program(take_turns).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn program(take_turns: bool) -> Result<BpfProgram, BackendError> {
    let filter = SeccompFilter::new(
        rules(take_turns)?,
        SeccompAction::Allow,
        SeccompAction::Trace(0),
        TargetArch::x86_64,
    );
    filter?.try_into()
}

/// The conditions of a rule, which all have to be met.
type Conditions = Vec<SeccompCondition>;

/// A system call stops if it meets one of its rules, or has none.
fn rules(take_turns: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut clocks: Vec<Conditions> = Vec::new();
    for clock in virtual_clocks() {
        clocks.push(vec![is(0, clock)?]);
    }
    let mut futexes: Vec<Conditions> = Vec::new();
    for operation in FUTEX_WAITS {
        let is_operation = has_bits(1, 0x7f, operation)?;
        futexes.push(match take_turns {
            true => vec![is_operation],
            false => vec![is_operation, is_set(3)?],
        });
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
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = rules.collect::<Result<_, BackendError>>()?;
    if take_turns {
        rules.extend(WAITS.map(|call| (call, Vec::new())));
        let locks = [libc::F_SETLKW, libc::F_OFD_SETLKW];
        let locks = locks.map(|operation| SeccompRule::new(vec![is(1, operation)?]));
        let locks = locks.into_iter().collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_fcntl, locks);
    }
    Ok(rules)
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
        let length = |take_turns| super::program(take_turns).unwrap().len();
        let lengths = [20, length(false), length(true), 4_096];
        assert!(lengths.is_sorted(), "{lengths:?}");
    }
}
