//! The tracer process: follows a program and all that it starts, answers its system calls about time, and says when all of its threads
//! wait.
//!
//! It has one thread, as `ptrace` demands, and sleeps until a thread of the program stops or a message comes. Only while it is to say that
//! all threads wait does it look at them from time to time: a thread stops for the tracer at calls about time alone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::process::{
    Resource, Rlimit, WaitOptions, WaitStatus, getrlimit, setrlimit, wait as wait_for_child,
};

use super::answers::Sources;
use super::calls::{Treatment, treat};
use super::clock::Clock;
use super::computing::Computing;
use super::memory;
use super::message::Request;
use super::pages::Pages;
use super::random::Random;
use super::registers::{Registers, answered, bits};
use super::start::{self, in_words};
use super::threads::{Beginning, Thread, Threads, goes_on_again, handles};
use super::timers::Timers;
use super::turns::{Resumption, Step, Turns};
use super::vdso::Functions;
use super::waking::{Woken, receive, wait};
use crate::{Threads as Answer, Waiting};

/// A program that still runs after this time is said to run.
const SETTLE_MAX: Duration = Duration::from_millis(50);
/// The shortest period of looks at threads that run, and the longest: looks take processor time from those that compute.
const LOOK_PERIODS: (Duration, Duration) = (Duration::from_micros(30), Duration::from_millis(1));
/// The part of the time since the last stop or message after which threads are looked at again.
const LOOK_PART: u32 = 8;
/// The tracer stays awake for this long after an answer: waking takes longer than most questions.
const SPIN: Duration = Duration::from_micros(150);
/// The period of looks at a program that a signal has stopped.
const STOPPED_PERIOD: Duration = Duration::from_millis(5);
/// The code segment of 64-bit programs.
const LONG_MODE: u64 = 0x33;
/// The length of a page.
const PAGE: u64 = 4_096;
/// The bit in the signal of a stop at a system call (`PTRACE_O_TRACESYSGOOD`).
const SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;

/// Follows the command after the seed in `arguments` until it ends; returns its exit code. The other end of the socket, which is standard input, says what time it is.
/// `take_turns` says whether one thread runs at a time.
///
/// # Errors
/// When the program cannot be started or traced.
pub(super) fn follow(arguments: &[OsString], take_turns: bool) -> io::Result<i32> {
    let (seed, command) = start::seed_and_command(arguments)?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Short waits are otherwise as long as the kernel likes.
    nix::sys::prctl::set_timerslack(1)?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let Some(Request::Advance(time)) = receive(&socket)? else {
        return Ok(0);
    };
    let mut tracer = Tracer {
        root: start(command, take_turns)?,
        sources: Sources {
            clock: Clock::new(time),
            timers: Timers::default(),
            random: Random::seeded(seed),
        },
        threads: Threads::default(),
        pages: Pages::default(),
        computing: Computing::default(),
        turns: take_turns.then(Turns::default),
        next: None,
        continued: BTreeSet::new(),
        stops: 0,
        ended: None,
    };
    // Signals to the process group are for the program.
    SigSet::all().thread_block()?;
    tracer.threads.add(tracer.root)?;
    tracer.run(&socket, &children)
}

/// Starts the process that becomes the program, and begins to trace it.
fn start(command: &[OsString], take_turns: bool) -> io::Result<Pid> {
    let (mut own, other) = UnixStream::pair()?;
    let child = start::program(command, take_turns)?
        .stdin(Stdio::from(OwnedFd::from(other)))
        .spawn()?;
    let id = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let options = Options::PTRACE_O_EXITKILL
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEVFORK;
    let options = match take_turns {
        true => options | Options::PTRACE_O_TRACEVFORKDONE,
        false => options,
    };
    // Traced earlier, it would be seen to begin.
    own.read_exact(&mut [0])?;
    ptrace::seize(id, options).map_err(in_words("a process cannot be traced"))?;
    own.write_all(b"!")?;
    // Each thread takes three files here. The program has its own limit already.
    let files = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: files.maximum,
        ..files
    };
    // Too many threads are an error later.
    let _ = setrlimit(Resource::Nofile, most);
    Ok(id)
}

struct Tracer {
    root: Pid,
    sources: Sources,
    threads: Threads,
    pages: Pages,
    computing: Computing,
    /// `None` if all threads run at once.
    turns: Option<Turns>,
    /// The earliest monotonic time, on the program's clock, at which a wait or a timer ends, or an earlier time.
    next: Option<u64>,
    /// The processes that have taken the signal that lets them go on. Threads of theirs that were stopped earlier may be reported later.
    continued: BTreeSet<i32>,
    /// The number of stops so far.
    stops: u64,
    /// The exit code of the program.
    ended: Option<i32>,
}

impl Tracer {
    fn run(&mut self, mut socket: &UnixStream, children: &SignalFd) -> io::Result<i32> {
        // The time by which an answer is due, once it was asked for.
        let mut due: Option<Instant> = None;
        let mut spins_until = Instant::now();
        let mut woken_at = Instant::now();
        loop {
            self.take_stops()?;
            if let Some(code) = self.ended {
                return Ok(code);
            }
            self.let_go_on()?;
            if self.pass_turns()? {
                woken_at = Instant::now();
            }
            let is_turn_due = self.turns.as_ref().is_some_and(Turns::are_waited_for);
            let period = match due.is_some() || is_turn_due {
                true => {
                    let (shortest, longest) = LOOK_PERIODS;
                    Some((woken_at.elapsed() / LOOK_PART).clamp(shortest, longest))
                }
                false => (!self.threads.stopped().is_empty()).then_some(STOPPED_PERIOD),
            };
            let mut answer = None;
            let woken = match Instant::now() < spins_until && due.is_none() {
                // The next message comes soon.
                true => wait(socket, children, Some(Duration::ZERO))?,
                false => wait(socket, children, period)?,
            };
            if !matches!(woken, Woken::Not) {
                woken_at = Instant::now();
            }
            match (woken, due) {
                (Woken::ByStop, None) | (Woken::Not, None) => {}
                (Woken::ByStop, Some(by)) => {
                    answer = (Instant::now() >= by).then_some(Answer::Run);
                }
                // Nothing has stopped for a while.
                (Woken::Not, Some(by)) => {
                    let seen = self.look()?;
                    let is_due = seen != Answer::Run || Instant::now() >= by;
                    answer = is_due.then_some(seen);
                }
                (Woken::ByMessage, _) => match receive(socket)? {
                    None => return Ok(0),
                    Some(Request::Advance(time)) => {
                        self.pages.collect(&mut self.sources.clock);
                        self.sources.clock.set(time);
                        self.pages.publish_to_all(&self.sources.clock);
                        self.end_waits();
                        answer = Some(Answer::Run);
                    }
                    Some(request @ (Request::Settle | Request::Look)) => {
                        self.take_stops()?;
                        if let Some(code) = self.ended {
                            return Ok(code);
                        }
                        let seen = self.look()?;
                        match request == Request::Settle && seen == Answer::Run {
                            true => due = Some(Instant::now() + SETTLE_MAX),
                            false => answer = Some(seen),
                        }
                    }
                },
            }
            if let Some(answer) = answer {
                due = None;
                socket.write_all(&answer.encode())?;
                spins_until = Instant::now() + SPIN;
            }
        }
    }

    /// Looks at the threads.
    fn look(&mut self) -> io::Result<Answer> {
        self.let_go_on()?;
        self.pages.collect(&mut self.sources.clock);
        self.end_waits();
        let Some(asleep) = self.threads.asleep() else {
            self.let_time_pass();
            return Ok(Answer::Run);
        };
        self.computing.ends();
        Ok(Answer::Wait(Waiting {
            until: self.next,
            ran: asleep.wrapping_add(self.stops),
        }))
    }

    /// Passes turns on from threads that wait to the next ones; returns whether a thread goes on.
    fn pass_turns(&mut self) -> io::Result<bool> {
        let mut goes_on = false;
        while let Some(turns) = &mut self.turns {
            let done = match turns.next(&self.threads) {
                None => break,
                Some(Step::Interrupt(thread)) => ptrace::interrupt(thread),
                Some(Step::GoOn(thread, how)) => {
                    goes_on = true;
                    self.threads.goes_on(thread);
                    resume(thread, how)
                }
            };
            match done {
                // It was killed, and is reported.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(goes_on)
    }

    /// Ends short waits in processes that compute for long.
    fn let_time_pass(&mut self) {
        let clock = &mut self.sources.clock;
        if let Some(time) = self.computing.goes_on(&self.threads, clock) {
            clock.shows_at_least(time);
            self.pages.publish_to_all(clock);
            self.end_waits();
        }
    }

    /// Ends the waits whose time has come, and lets timers go off.
    fn end_waits(&mut self) {
        let clock = &self.sources.clock;
        for thread in self.threads.end_waits(|moment| clock.until(moment) == 0) {
            // A thread that has ended waits no more.
            let _ = ptrace::interrupt(thread);
        }
        let threads = &self.threads;
        self.sources.timers.go_off(clock, || threads.processes());
        let moments = self.threads.moments().chain(self.sources.timers.moments());
        let times = moments.map(|moment| clock.monotonic_at(moment));
        self.next = times.min();
    }

    /// Takes everything that has happened to threads.
    fn take_stops(&mut self) -> io::Result<()> {
        // Threads, and children of children, too.
        let all = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        loop {
            match wait_for_child(WaitOptions::NOHANG | all) {
                Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(Some((id, status))) => {
                    let id = Pid::from_raw(id.as_raw_nonzero().get());
                    self.stops = self.stops.wrapping_add(1);
                    match self.take(id, status) {
                        // The thread was killed in the meantime, and is reported once more.
                        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                            return Err(error);
                        }
                        Ok(()) | Err(_) => {}
                    }
                }
            }
        }
    }

    fn take(&mut self, id: Pid, status: WaitStatus) -> io::Result<()> {
        if status.exited() || status.signaled() {
            if let Some(turns) = &mut self.turns {
                turns.remove(id);
            }
            if let Some(process) = self.threads.remove(id) {
                self.sources.timers.forget(process);
                self.sources.random.forget(process);
                self.pages.forget(process);
            }
            if id == self.root {
                let killed = status.terminating_signal().map(|signal| 128 + signal);
                self.ended = status.exit_status().or(killed);
            }
            return Ok(());
        }
        let Some(signal) = status.stopping_signal() else {
            return Ok(());
        };
        self.threads.add(id)?;
        match status.as_raw() >> 16 {
            libc::PTRACE_EVENT_SECCOMP => self.at_call(id),
            libc::PTRACE_EVENT_EXEC => {
                if let Some(turns) = &mut self.turns {
                    turns.executed(id, &mut self.threads);
                }
                self.threads.executed(id)?;
                self.sources.timers.posix.forget(id.as_raw());
                self.pages.forget(id.as_raw());
                self.at_beginning(id)
            }
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                let child = i32::try_from(ptrace::getevent(id)?);
                let child = Pid::from_raw(child.map_err(|_| Errno::ESRCH)?);
                self.threads.add(child)?;
                let of = |thread: Option<&mut Thread>| thread.map(|thread| thread.process);
                let processes = [id, child].map(|id| of(self.threads.get(id)));
                if let [Some(parent), Some(child)] = processes {
                    self.pages.copy(parent, child);
                }
                self.go_on(id, None)?;
                if status.as_raw() >> 16 == libc::PTRACE_EVENT_VFORK
                    && let Some(turns) = &mut self.turns
                {
                    // It waits in the kernel until the child executes a program or ends.
                    turns.end(id);
                    if let Some(thread) = self.threads.get(id) {
                        thread.is_in_vfork = true;
                    }
                }
                Ok(())
            }
            libc::PTRACE_EVENT_VFORK_DONE => {
                if let Some(thread) = self.threads.get(id) {
                    thread.is_in_vfork = false;
                }
                self.go_on(id, None)
            }
            libc::PTRACE_EVENT_STOP => match signal {
                libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => {
                    // It stays where it is until the process is continued.
                    if let Some(thread) = self.threads.get(id) {
                        thread.is_stopped = true;
                    }
                    Ok(())
                }
                _ => {
                    if let Some(turns) = &mut self.turns {
                        turns.has_stopped(id);
                    }
                    self.go_on(id, None)
                }
            },
            0 if signal == SYSTEM_CALL => self.at_return(id),
            0 => self.at_signal(id, signal),
            _ => self.go_on(id, None),
        }
    }

    /// A program is about to begin. Its clocks are to be read from a page, which it has to map itself.
    fn at_beginning(&mut self, id: Pid) -> io::Result<()> {
        let registers = ptrace::getregs(id)?;
        if registers.cs != LONG_MODE {
            // The filter ends it at its first call.
            return self.go_on(id, None);
        }
        let mut random = [0; 16];
        self.sources.random.fill(id.as_raw(), &mut random);
        if let Some(vdso) = memory::prepare(id, registers.rsp, random)? {
            let Some(functions) = Functions::find(id, vdso.code) else {
                vdso.hide(id)?;
                return self.go_on(id, None);
            };
            let map = Registers {
                rip: functions.write_map(id)?,
                rdi: 0,
                rsi: PAGE,
                rdx: bits(libc::PROT_READ | libc::PROT_WRITE),
                r10: bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
                r8: u64::MAX,
                r9: 0,
                ..registers
            };
            ptrace::setregs(id, map)?;
            if let Some(thread) = self.threads.get(id) {
                thread.beginning = Some(Beginning {
                    registers,
                    vdso,
                    functions,
                });
            }
        }
        self.go_on(id, None)
    }

    /// A program that is about to begin has mapped the page for its clocks.
    fn has_mapped(&mut self, id: Pid, beginning: Beginning) -> io::Result<()> {
        let Beginning {
            registers,
            vdso,
            functions,
        } = beginning;
        let page = ptrace::getregs(id)?.rax;
        match page.cast_signed() {
            1.. => {
                functions.replace(id, page)?;
                let (pages, clock) = (&mut self.pages, &self.sources.clock);
                pages.add(id.as_raw(), page, clock);
            }
            _ => vdso.hide(id)?,
        }
        ptrace::setregs(id, answered(registers, 0))?;
        self.go_on(id, None)
    }

    /// A thread is about to enter a system call about time.
    fn at_call(&mut self, id: Pid) -> io::Result<()> {
        let Some(thread) = self.threads.get(id) else {
            return Ok(());
        };
        let (process, interrupted) = (thread.process, thread.interrupted.take());
        let registers = ptrace::getregs(id)?;
        let sources = &mut self.sources;
        self.pages.collect_from(process, &mut sources.clock);
        if let Some(turns) = &mut self.turns
            && registers.orig_rax.cast_signed() == libc::SYS_sched_yield
        {
            turns.end(id);
        }
        match treat((id, process), registers, interrupted.as_ref(), sources) {
            // If arguments are wrong, the kernel says so.
            Ok(Treatment::Pass) | Err(Errno::EBADF | Errno::EFAULT | Errno::EINVAL) => {
                let stops_at_return = self.turns.is_some();
                self.resume(id, None, stops_at_return)?;
            }
            Err(error) => {
                // It may have been killed in the meantime.
                ptrace::getregs(id)?;
                return Err(in_words("a system call about time cannot be answered")(
                    error,
                ));
            }
            Ok(Treatment::Answer(result)) => {
                // A clock may have been read.
                self.pages.publish(process, &self.sources.clock);
                ptrace::setregs(id, answered(registers, result))?;
                self.go_on(id, None)?;
            }
            Ok(Treatment::Wait(with)) => {
                let (registers, wait) = *with;
                ptrace::setregs(id, registers)?;
                let until = self.sources.clock.monotonic_at(wait.until);
                self.next = Some(self.next.map_or(until, |next| next.min(until)));
                if let Some(thread) = self.threads.get(id) {
                    thread.wait = Some(wait);
                }
                self.resume(id, None, true)?;
            }
        }
        // A thread that reads a clock again and again lets time pass for the others.
        let now = self.sources.clock.now(super::clock::Kind::Monotonic).nanos;
        if self.next.is_some_and(|next| next <= now.cast_unsigned()) {
            self.end_waits();
        }
        Ok(())
    }

    /// A thread is about to return from a call in which it waited.
    fn at_return(&mut self, id: Pid) -> io::Result<()> {
        let thread = self.threads.get(id);
        if let Some(thread) = thread
            && let Some(wait) = thread.wait.take()
        {
            let end = wait.end(id, ptrace::getregs(id)?, &self.sources.clock);
            thread.interrupted = end.may_go_on.then_some(wait);
            ptrace::setregs(id, end.registers)?;
        }
        self.go_on(id, None)
    }

    /// A thread is about to get a signal.
    fn at_signal(&mut self, id: Pid, signal: i32) -> io::Result<()> {
        let thread = self.threads.get(id);
        // Other signals may have come before the program begins.
        if signal == libc::SIGTRAP
            && let Some(beginning) = thread.and_then(|thread| thread.beginning.take())
        {
            return self.has_mapped(id, beginning);
        }
        let Ok(signal) = Signal::try_from(signal) else {
            let words =
                format!("the program uses the real-time signal {signal}, so it cannot be traced");
            return Err(io::Error::other(words));
        };
        if let Some(thread) = self.threads.get(id) {
            if thread.interrupted.is_some() && handles(thread.process, signal as i32)? {
                // The call returns EINTR, and is not run again.
                thread.interrupted = None;
            }
            match signal {
                Signal::SIGCONT => drop(self.continued.insert(thread.process)),
                Signal::SIGSTOP | Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU => {
                    self.continued.remove(&thread.process);
                }
                _ => {}
            }
        }
        self.go_on(id, Some(signal))
    }

    /// Lets processes go on that were stopped by a signal and have got another one.
    fn let_go_on(&mut self) -> io::Result<()> {
        let stopped = self.threads.stopped();
        let mut continued = std::mem::take(&mut self.continued);
        // The first thread that goes on takes the signal.
        for (id, process) in &stopped {
            if goes_on_again(*id)? {
                continued.insert(*process);
            }
        }
        for (id, process) in stopped {
            if !continued.contains(&process) {
                continue;
            }
            if let Some(thread) = self.threads.get(id) {
                thread.is_stopped = false;
            }
            // One that was killed is reported.
            let _ = self.go_on(id, None);
        }
        Ok(())
    }

    fn go_on(&mut self, id: Pid, signal: Option<Signal>) -> io::Result<()> {
        self.resume(id, signal, false)
    }

    /// Lets a thread go on, when it is its turn.
    fn resume(&mut self, id: Pid, signal: Option<Signal>, stops_at_return: bool) -> io::Result<()> {
        let how = Resumption {
            signal,
            stops_at_return,
        };
        if let Some(turns) = &mut self.turns
            && !turns.goes_on(id, how)
        {
            return Ok(());
        }
        self.threads.goes_on(id);
        Ok(resume(id, how)?)
    }
}

fn resume(thread: Pid, how: Resumption) -> nix::Result<()> {
    match how.stops_at_return {
        true => ptrace::syscall(thread, how.signal),
        false => ptrace::cont(thread, how.signal),
    }
}
