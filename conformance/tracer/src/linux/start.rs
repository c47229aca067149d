//! The processes between the embedding program and the traced one: the tracer, and the process that becomes the program.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::personality::{self, Persona};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::filter;

/// The first argument of this program when it acts as a tracer.
pub(super) const HELPER: &str = "__kubeproof-tracer";
/// The second argument of a process that follows a program.
pub(super) const FOLLOW: &str = "follow";
/// The second argument of a process that becomes the program.
pub(super) const BECOME: &str = "become";
/// The second argument of either one if the threads of the program take turns.
pub(super) const FOLLOW_IN_TURNS: &str = "follow-in-turns";
pub(super) const BECOME_IN_TURNS: &str = "become-in-turns";
/// The second argument of a process that waits for a timer, and ends.
pub(super) const END: &str = "end";
/// The exit code of a shell for a command that cannot be executed.
pub(super) const EXIT_FAILED: i32 = 126;

/// Whether `main` looks for [`HELPER`] in its arguments.
static LOOKS_FOR_HELPER: AtomicBool = AtomicBool::new(false);

/// Says that `main` looks for [`HELPER`] in its arguments.
pub(super) fn can_be_executed_again() {
    LOOKS_FOR_HELPER.store(true, Ordering::Relaxed);
}

/// This program in one of its roles.
///
/// # Errors
/// When it does not know its own file, or does not look for its role: a program of tests would take it for a filter, and run tests.
pub(super) fn own_program(role: &str) -> io::Result<Command> {
    if !LOOKS_FOR_HELPER.load(Ordering::Relaxed) {
        return Err(io::Error::other(
            "`main` of this program has not called `kubeproof_tracer::helper`",
        ));
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args([HELPER, role]);
    Ok(command)
}

/// The seed of random numbers, and the command after it.
///
/// # Errors
/// When there is no seed.
pub(super) fn seed_and_command(arguments: &[OsString]) -> io::Result<(u64, &[OsString])> {
    let read = arguments.split_first().and_then(|(seed, command)| {
        let seed = seed.to_str()?.parse().ok()?;
        Some((seed, command))
    });
    read.ok_or_else(|| io::Error::other("the seed is missing"))
}

/// What starts the process that becomes the program once it is traced.
///
/// # Errors
/// The errors of [`own_program`].
pub(super) fn program(command: &[OsString], take_turns: bool) -> io::Result<Command> {
    let mut program = own_program(match take_turns {
        true => BECOME_IN_TURNS,
        false => BECOME,
    })?;
    program.args(command);
    Ok(program)
}

/// Says on standard input, which is a socket, that this process is there, waits for a byte on it, and replaces the process with
/// `command`. Returns only with an error.
///
/// # Errors
/// When a step fails; the words say which.
pub(super) fn replace_with(command: &[OsString], take_turns: bool) -> io::Result<i32> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::other("there is no command to run"))?;
    let input = rustix::stdio::stdin();
    let is_there = rustix::io::write(input, b"!").is_ok();
    if !is_there || io::stdin().read_exact(&mut [0]).is_err() {
        // The tracer has failed, and says why.
        return Ok(EXIT_FAILED);
    }
    let nothing = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    filter::install(take_turns).map_err(in_words("system calls cannot be filtered"))?;
    // Equal addresses, as far as a container allows it: hashes and orders may depend on them.
    let _ = personality::get().and_then(|own| personality::set(own | Persona::ADDR_NO_RANDOMIZE));
    let error = Command::new(program).args(arguments).exec();
    Err(in_words(&format!(
        "{} cannot be executed",
        program.display()
    ))(error))
}

/// Waits for a timer behind a file, which takes more permissions than other system calls about time.
///
/// # Errors
/// When there is no such timer.
pub(super) fn wait_for_timer() -> io::Result<i32> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let spec = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        },
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
    rustix::io::read(&timer, &mut [0; 8])?;
    Ok(0)
}

/// Puts `words` before an error.
pub(super) fn in_words<E: std::fmt::Display>(words: &str) -> impl FnOnce(E) -> io::Error {
    move |error| io::Error::other(format!("{words}: {error}"))
}
