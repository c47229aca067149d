//! Tracing on Linux.

mod answers;
mod calls;
mod clock;
mod computing;
mod control;
mod filter;
mod memory;
mod message;
mod pages;
mod posix_timers;
mod random;
mod registers;
mod sleeping;
mod start;
mod threads;
mod timer;
mod timers;
mod tracer;
mod turns;
mod vdso;
mod waits;
mod waking;

pub use control::{Tracee, check, helper};
pub use sleeping::{Observed, OwnThread};
