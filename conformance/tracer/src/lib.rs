//! Runs a program of any language under virtual time: its clocks show, and its waits last, what another program says.
//!
//! A tracer process of its own starts the program, follows everything that the program starts, and answers its system calls about
//! time (`ptrace` with a filter of `seccomp`). The [`Tracee`] is the other end of the tracer's socket:
//!
//! - [`Tracee::begin`] starts the program, and [`Tracee::advance`] sets the time. Waits that are over by then end.
//! - [`Tracee::settle`] waits until every thread of the program waits, and says when the first of them would go on by itself.
//!
//! So one program that knows the earliest time at which anything happens can let several others live through days in seconds.
//!
//! # Virtual
//! - Readings of the clocks of real and of monotonic time. The kernel's code for readings without a system call (the vDSO) is replaced
//!   when the program is executed by code that reads a page of our own. Each reading takes a microsecond, so two are never equal, and a
//!   loop that waits for a clock ends.
//! - Waits with a limit: `nanosleep`, `poll`, `select`, `epoll_wait`, `futex` and `sigtimedwait`, with their variants.
//! - `timerfd`, `setitimer`, `alarm`, and timers of `timer_create` that send ordinary signals.
//!
//! Computing takes no time, but for one thing: a process that has used 50 ms of processor time without waiting lets its waits of at most
//! 10 ms end, no faster than processor time passes. Runtimes of languages need that: Go interrupts a goroutine after 10 ms.
//!
//! With [`Tracee::in_turns`] one thread runs at a time, and they interleave in the same way in each run, as far as only the program itself
//! decides when a thread can go on.
//!
//! Random numbers of the system follow from a seed, for each process in the order in which processes begin.
//!
//! # Not virtual
//! - Processor time, the counter that `rdtsc` reads, times of files, `/proc/uptime`, and `sysinfo`.
//! - Limits of sockets (`SO_RCVTIMEO`), `mq_timedsend`, `mq_timedreceive`, `semtimedop`, `io_getevents` and `io_uring`, and other timers of
//!   `timer_create`.
//! - Programs that are 32-bit or are traced already cannot be run. One that gets a real-time signal ends, with an error of the tracer; the
//!   C library may send them for `pthread_cancel`, and for `setuid` in a program with threads.
//!
//! # Where
//! On Linux for x86-64. [`check`] says whether it works here.
//!
//! ```no_run
//! // First of all in `main`: the tracer is this program, executed again.
//! if let Some(code) = kubeproof_tracer::helper(std::env::args_os()) {
//!     std::process::exit(code);
//! }
//! # #[cfg(all(target_os = "linux", target_arch = "x86_64"))] {
//! use kubeproof_tracer::{Time, Tracee};
//!
//! let (tracee, mut command) = Tracee::of(&["sleep".as_ref(), "3600".as_ref()], 1)?;
//! let mut child = command.spawn()?;
//! drop(command);
//! let mut time = Time::default();
//! tracee.begin(time)?;
//! while let Some(settled) = tracee.settle()? {
//!     if let kubeproof_tracer::Threads::Wait(waiting) = settled {
//!         time = time.at(waiting.until.expect("it sleeps"));
//!         tracee.advance(time)?;
//!     }
//! }
//! assert!(child.wait()?.success());
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```

mod message;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux;

pub use message::{Threads, Time, Waiting};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use linux::{Observed, OwnThread, Tracee, check, helper};

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod elsewhere;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub use elsewhere::{Observed, OwnThread, Tracee, check, helper};

/// Why programs cannot run under virtual time here.
#[derive(Debug)]
pub struct Unavailable(String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "programs cannot run under virtual time here: {}", self.0)
    }
}

impl std::error::Error for Unavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedders_find_the_same_on_every_system() {
        fn is_kept_by_several<T: Clone + std::fmt::Debug + Send + Sync + 'static>() {}
        is_kept_by_several::<Tracee>();
        is_kept_by_several::<Waiting>();
        let observed: fn(&OwnThread) -> Option<Observed> = OwnThread::asleep;
        let thread = OwnThread::current().ok();
        assert_eq!(thread.as_ref().and_then(observed), None);
        // Tests are not their own tracer: executed again, they would run tests.
        let reason = check().unwrap_err().to_string();
        assert!(
            reason.ends_with("has not called `kubeproof_tracer::helper`")
                || reason.ends_with("it takes Linux for x86-64"),
            "{reason}"
        );
        assert_eq!(helper(["program".into()]), None);
    }
}
