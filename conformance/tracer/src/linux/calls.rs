//! What becomes of a system call about time or random numbers.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::answers::{Sources, answer};
use super::registers::Registers;
use super::waits::{self, Begun, Wait};

/// What becomes of a system call.
#[derive(Debug)]
pub(super) enum Treatment {
    /// The kernel runs it as it is.
    Pass,
    /// It returns this without the kernel.
    Answer(i64),
    /// The kernel runs it with these registers, in which it has no limit, until the time has come.
    Wait(Box<(Registers, Wait)>),
}

/// Decides what becomes of the call that a thread of `process` makes. `interrupted` is the wait of this thread that a signal has
/// interrupted, and which the call may continue.
///
/// # Errors
/// When arguments are wrong; the kernel then knows the answer.
pub(super) fn treat(
    (thread, process): (Pid, i32),
    registers: Registers,
    interrupted: Option<&Wait>,
    sources: &mut Sources,
) -> Result<Treatment, Errno> {
    if let Some(result) = answer((thread, process), &registers, sources)? {
        return Ok(Treatment::Answer(result));
    }
    let begun = waits::begin(thread, registers, interrupted, &sources.clock)?;
    Ok(match begun {
        Begun::HasNoLimit => Treatment::Pass,
        Begun::Over => Treatment::Answer(0),
        Begun::Waits(with) => Treatment::Wait(with),
    })
}
