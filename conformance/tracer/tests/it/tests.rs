//! The tests: each runs one of the programs, or one of the shell, and compares what it has printed.

use std::error::Error;
use std::ffi::OsStr;
use std::io::Read as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use kubeproof_tracer::{Threads, Time, Tracee, Waiting};
use libtest_mimic::{Failed, Trial};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::other_calls;
use crate::programs::ROLE;

pub(crate) type Tested = Result<(), Box<dyn Error>>;
type Test = fn() -> Tested;

/// How often a program may be seen to run before it waits or ends: for a minute.
const RUNS_MAX: u32 = 1_200;
const DAY: u64 = 86_400;
const NANOS: u64 = 1_000_000_000;

/// All tests, by name.
pub(crate) fn all() -> Vec<Trial> {
    let tests: [(&str, Test); 36] = [
        ("it_works_here", it_works_here),
        (
            "clocks_show_virtual_time_and_no_two_readings_are_equal",
            clocks,
        ),
        ("sleeps_last_as_long_as_they_say", sleeps),
        ("threads_wake_in_the_order_of_their_sleeps", threads),
        ("waits_for_locks_end_early_or_on_time", locks),
        ("tasks_and_sockets_of_tokio_share_the_time", tokio),
        ("timers_of_files_go_off", timers),
        ("polls_end_with_their_limit_or_before", polls),
        ("children_are_traced_too", children),
        ("processes_that_end_at_once_are_not_waited_for", short_lives),
        ("a_loop_that_reads_the_clock_ends", spins),
        ("a_loop_that_waits_for_short_sleeps_ends", takes_turns),
        ("other_sleeps_outlast_what_a_thread_computes", computes),
        ("threads_that_take_turns_race_in_the_same_way", races),
        (
            "a_thread_that_computes_lets_others_have_their_turns",
            spins_for_another,
        ),
        ("programs_in_turns_live_as_others_do", in_turns),
        ("a_signal_ends_a_sleep", a_signal),
        ("a_handler_runs_during_a_sleep", a_handler),
        ("a_stopped_program_goes_on_later", a_stopped_program),
        (
            "a_signal_at_the_beginning_of_a_program_is_kept",
            a_signal_at_the_beginning,
        ),
        ("stopped_threads_go_on_together", stopped_threads),
        ("a_program_that_stops_itself_stays_stopped", stops_itself),
        ("a_signal_to_the_group_spares_the_tracer", a_signal_to_all),
        (
            "many_threads_are_watched_or_the_error_says_why",
            many_threads,
        ),
        ("it_is_said_if_files_cannot_be_shared", denied),
        ("timers_of_closed_files_end", closed_timers),
        ("a_timer_outlives_its_first_descriptor", passed_on),
        ("other_calls_about_time", other_calls::waits),
        ("timers_of_other_calls", other_calls::timers),
        ("clocks_of_bash", other_calls::bash),
        (
            "wrong_arguments_have_the_errors_of_the_kernel",
            other_calls::errors,
        ),
        ("a_lock_is_waited_for_after_a_signal", other_calls::lock),
        ("exit_codes_are_kept", exit_codes),
        ("a_timer_of_another_program_ends_it", a_timer),
        ("random_numbers_follow_from_the_seed", random_numbers),
        ("a_program_that_is_traced_traces_nothing", traces),
    ];
    let trial = |(name, test): (&str, Test)| {
        Trial::test(name, move || {
            test().map_err(|error| Failed::from(error.to_string()))
        })
    };
    tests.into_iter().map(trial).collect()
}

/// The output of a program, its exit code, and the seconds that have passed.
pub(crate) type Lived = (String, Option<i32>, u64);

/// A program that runs.
pub(crate) struct Running {
    tracee: Tracee,
    tracer: Child,
    time: Time,
    output: Option<ChildStdout>,
}

impl Running {
    pub(crate) fn start(command: &[&str]) -> Result<Self, Box<dyn Error>> {
        Self::seeded(command, 7)
    }

    fn seeded(command: &[&str], seed: u64) -> Result<Self, Box<dyn Error>> {
        let command: Vec<&OsStr> = command.iter().map(AsRef::as_ref).collect();
        Self::begin(Tracee::of(&command, seed)?)
    }

    /// Starts a program whose threads take turns.
    fn in_turns(command: &[&str]) -> Result<Self, Box<dyn Error>> {
        let command: Vec<&OsStr> = command.iter().map(AsRef::as_ref).collect();
        Self::begin(Tracee::in_turns(&command, 7)?)
    }

    fn begin((tracee, mut tracer): (Tracee, Command)) -> Result<Self, Box<dyn Error>> {
        use std::os::unix::process::CommandExt as _;
        let tracer = tracer.stdout(Stdio::piped()).process_group(0);
        let mut tracer = tracer.spawn()?;
        let time = Time::default();
        tracee.begin(time)?;
        let output = tracer.stdout.take();
        Ok(Self {
            tracee,
            tracer,
            time,
            output,
        })
    }

    /// Waits until all threads wait; `None` when the program has ended.
    fn settle(&self) -> Result<Option<Waiting>, Box<dyn Error>> {
        for _ in 0..RUNS_MAX {
            match self.tracee.settle()? {
                None => return Ok(None),
                Some(Threads::Run) => {}
                Some(Threads::Wait(waiting)) => return Ok(Some(waiting)),
            }
        }
        Err("it runs all the time".into())
    }

    fn pass(&mut self, time: Duration) -> Tested {
        let passed = u64::try_from(time.as_nanos())?;
        self.time = self.time.at(self.time.monotonic + passed);
        Ok(self.tracee.advance(self.time)?)
    }

    /// Lets time pass until the program ends or waits forever; returns what it has printed, its exit code, and the seconds that have
    /// passed.
    pub(crate) fn live(self) -> Result<Lived, Box<dyn Error>> {
        let (lived, _) = self.live_counted()?;
        Ok(lived)
    }

    /// Lets it live in the same way; returns the number of moments at which something happened, too.
    fn live_counted(mut self) -> Result<(Lived, u32), Box<dyn Error>> {
        let (began, mut moments) = (self.time.monotonic, 0);
        while let Some(waiting) = self.settle()? {
            let until = waiting.until.ok_or("it waits forever")?;
            self.time = self.time.at(until);
            self.tracee.advance(self.time)?;
            moments += 1;
        }
        let mut printed = String::new();
        self.output
            .take()
            .ok_or("no output")?
            .read_to_string(&mut printed)?;
        let code = self.tracer.wait()?.code();
        let passed = (self.time.monotonic - began) / NANOS;
        Ok(((printed, code, passed), moments))
    }

    /// Lets a program live that was stopped, once it is seen to go on.
    fn live_after_stop(self) -> Result<Lived, Box<dyn Error>> {
        while self
            .settle()?
            .is_some_and(|waiting| waiting.until.is_none())
        {}
        self.live()
    }

    fn signal(&self, signal: Signal) -> Tested {
        let group = Pid::from_child(&self.tracer);
        Ok(kill_process_group(group, signal)?)
    }
}

/// Starts one of our programs.
fn start(program: &str) -> Result<Running, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    Running::start(&[own.to_str().ok_or("a path in UTF-8")?, ROLE, program])
}

/// Lets one of our programs live.
pub(crate) fn live(program: &str) -> Result<Lived, Box<dyn Error>> {
    start(program)?.live()
}

/// What one of our programs prints that is not traced itself, on both outputs.
fn alone(program: &str) -> Result<(String, String), Box<dyn Error>> {
    let mut own = Command::new(std::env::current_exe()?);
    let output = own.args([ROLE, program]).output()?;
    Ok((
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

/// Runs one of our programs, and compares what it prints.
#[track_caller]
fn prints(program: &str, expected: &str) -> Tested {
    let (printed, code, _) = live(program)?;
    assert_eq!(printed, expected);
    assert_eq!(code, Some(0));
    Ok(())
}

fn it_works_here() -> Tested {
    Ok(kubeproof_tracer::check()?)
}

fn clocks() -> Tested {
    prints("clocks", "1767225600\ntrue\n86400\n86400\n")
}

fn sleeps() -> Tested {
    prints("sleeps", "0\n3600\n90000\n")
}

fn threads() -> Tested {
    let expected = "1 after 3600\n2 after 7200\n3 after 10800\nnothing true after 97200\n";
    prints("threads", expected)
}

fn locks() -> Tested {
    prints("locks", "false 3600\ntrue 90000\ntrue 90060\n")
}

fn tokio() -> Tested {
    prints("tokio", "false 1800\ntrue 5400\n")
}

fn timers() -> Tested {
    let expected =
        "1 86400\nleft 30 7200\n1 90000\n1 97200\n1 104400\nbefore 119\nready 0 190800\n";
    prints("timers", expected)
}

fn polls() -> Tested {
    prints("polls", "0 0\n0 3600\n1 7200\n")
}

fn children() -> Tested {
    prints("children", "true 86400\n")
}

fn spins() -> Tested {
    prints("spins", "true\n")
}

/// Shells that fork all the time keep each other from the processors, so a child may end before its parent is seen to go on.
fn short_lives() -> Tested {
    let forks = "i=0; while [ $i -lt 500 ]; do (:); i=$((i + 1)); done";
    let script = format!("for j in 1 2 3 4; do ({forks}) & done; wait; sleep 1h");
    let (_, code, passed) = Running::start(&["sh", "-c", &script])?.live()?;
    assert_eq!((code, passed), (Some(0), 3_600));
    Ok(())
}

fn takes_turns() -> Tested {
    prints("takes-turns", "20\n")
}

fn computes() -> Tested {
    prints("computes", "true true\n")
}

/// One of our programs, whose threads take turns.
fn lives_in_turns(program: &str) -> Result<Lived, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let own = own.to_str().ok_or("a path in UTF-8")?;
    Running::in_turns(&[own, ROLE, program])?.live()
}

fn races() -> Tested {
    let (first, ..) = lives_in_turns("races")?;
    assert_eq!(first.len(), 401);
    for _ in 0..5 {
        let (again, code, _) = lives_in_turns("races")?;
        assert_eq!((again, code), (first.clone(), Some(0)));
    }
    Ok(())
}

fn spins_for_another() -> Tested {
    let (printed, code, _) = lives_in_turns("spins-for-another")?;
    assert_eq!((printed.as_str(), code), ("enough\n", Some(0)));
    Ok(())
}

fn in_turns() -> Tested {
    for program in [
        "clocks",
        "sleeps",
        "threads",
        "locks",
        "tokio",
        "timers",
        "polls",
        "children",
        "spins",
        "takes-turns",
        "computes",
        "sleepers",
    ] {
        assert_eq!(lives_in_turns(program)?, live(program)?, "{program}");
    }
    // Shells start programs with `vfork`, and wait for them, for pipes and for signals.
    let script = "trap 'echo got' USR1; for i in 1 2 3; do (date +%H; sleep 1h) | cat; done; kill -USR1 $$; (sleep 1d &) ; wait";
    let (printed, code, passed) = Running::in_turns(&["sh", "-c", script])?.live()?;
    assert_eq!(
        (printed.as_str(), code, passed),
        ("00\n01\n02\ngot\n", Some(0), 10_800)
    );
    Ok(())
}

fn a_signal() -> Tested {
    let mut running = Running::start(&["sleep", "1d"])?;
    running.settle()?.ok_or("it sleeps")?;
    running.pass(Duration::from_secs(3_600))?;
    let waiting = running.settle()?.ok_or("it still sleeps")?;
    let until = waiting.until.ok_or("it sleeps")? - running.time.monotonic;
    assert!(
        (23 * 3_600 * NANOS..23 * 3_601 * NANOS).contains(&until),
        "{until}"
    );
    running.signal(Signal::TERM)?;
    let (_, code, passed) = running.live()?;
    assert_eq!((code, passed), (Some(128 + 15), 0));
    Ok(())
}

fn a_handler() -> Tested {
    let script = "trap 'date -u +%H:%M' USR1; sleep 1d & wait; wait; date -u +%d";
    let mut running = Running::start(&["sh", "-c", script])?;
    running.settle()?.ok_or("it sleeps")?;
    running.pass(Duration::from_secs(3_600))?;
    running.settle()?.ok_or("it sleeps")?;
    // The shell alone: the other one would end.
    let shell = child_of(running.tracer.id())?;
    rustix::process::kill_process(shell, Signal::USR1)?;
    let (printed, code, _) = running.live()?;
    assert_eq!((printed.as_str(), code), ("01:00\n02\n", Some(0)));
    Ok(())
}

/// A child sends signals again and again while its parent executes another program.
fn a_signal_at_the_beginning() -> Tested {
    let script =
        "trap 'exec date -u +%d' WINCH; (while kill -WINCH $$; do :; done) 2>/dev/null & wait";
    for _ in 0..5 {
        let (printed, code, _) = Running::start(&["sh", "-c", script])?.live()?;
        assert_eq!((printed.as_str(), code), ("01\n", Some(0)));
    }
    Ok(())
}

/// The child of the tracer, which is the program.
fn child_of(tracer: u32) -> Result<Pid, Box<dyn Error>> {
    let children = std::fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children"))?;
    let child = children.split_whitespace().next().ok_or("a child")?;
    Ok(Pid::from_raw(child.parse()?).ok_or("a process")?)
}

fn a_stopped_program() -> Tested {
    let script = "sleep 60; date -u +%H:%M; sleep 60; date -u +%H:%M";
    let mut running = Running::start(&["sh", "-c", script])?;
    running.settle()?.ok_or("it sleeps")?;
    let shell = child_of(running.tracer.id())?;
    rustix::process::kill_process(shell, Signal::STOP)?;
    // The sleep ends, but the shell that waits for it is stopped.
    running.pass(Duration::from_secs(DAY / 2))?;
    let waiting = running.settle()?.ok_or("it is stopped")?;
    assert_eq!(waiting.until, None);
    rustix::process::kill_process(shell, Signal::CONT)?;
    let (printed, code, passed) = running.live_after_stop()?;
    assert_eq!((printed.as_str(), code), ("12:00\n12:01\n", Some(0)));
    assert_eq!(passed, 60);
    Ok(())
}

fn stops_itself() -> Tested {
    for _ in 0..20 {
        let script = "kill -CONT $$; kill -STOP $$; date -u +%H:%M";
        let mut running = Running::start(&["sh", "-c", script])?;
        let waiting = running.settle()?.ok_or("it is stopped")?;
        assert_eq!(waiting.until, None);
        running.pass(Duration::from_secs(DAY / 2))?;
        rustix::process::kill_process(child_of(running.tracer.id())?, Signal::CONT)?;
        let (printed, code, _) = running.live_after_stop()?;
        assert_eq!((printed.as_str(), code), ("12:00\n", Some(0)));
    }
    Ok(())
}

fn stopped_threads() -> Tested {
    // To the process, and to its last thread alone.
    for to_thread in [false, true] {
        let mut running = start("sleepers")?;
        running.settle()?.ok_or("it sleeps")?;
        let program = child_of(running.tracer.id())?;
        rustix::process::kill_process(program, Signal::STOP)?;
        running.pass(Duration::from_secs(DAY / 2))?;
        let waiting = running.settle()?.ok_or("it is stopped")?;
        assert_eq!(waiting.until, None);
        if to_thread {
            let thread = last_thread(program)?;
            let sent = "syscall(234, 0 + $ARGV[0], 0 + $ARGV[1], 18) == 0 or die $!";
            let process = program.as_raw_nonzero().to_string();
            if !other_calls::perl(&[sent, &process, &thread])? {
                return Ok(());
            }
        } else {
            rustix::process::kill_process(program, Signal::CONT)?;
        }
        let (printed, code, _) = running.live_after_stop()?;
        assert_eq!((printed.as_str(), code), ("43200\n", Some(0)));
    }
    Ok(())
}

/// The id of the youngest thread.
fn last_thread(process: Pid) -> Result<String, Box<dyn Error>> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()))?;
    let names = threads.map(|thread| thread.map(|thread| thread.file_name()));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let ids = names
        .iter()
        .filter_map(|name| name.to_str()?.parse::<i32>().ok());
    Ok(ids.max().ok_or("a thread")?.to_string())
}

fn a_signal_to_all() -> Tested {
    let script = "trap 'date -u +%H:%M' USR1; kill -USR1 0; sleep 60; exit 3";
    let (printed, code, passed) = Running::start(&["sh", "-c", script])?.live()?;
    assert_eq!((printed.as_str(), code, passed), ("00:00\n", Some(3), 60));
    Ok(())
}

fn many_threads() -> Tested {
    let lived = "(\"3600\\n\", Some(0), 3600)\n";
    assert_eq!(alone("limited")?, (lived.to_owned(), String::new()));
    let (printed, said) = alone("limited-for-good")?;
    assert_eq!(printed, "(\"\", Some(126), 0)\n");
    assert_eq!(
        said,
        "a thread cannot be watched: Too many open files (os error 24)\n"
    );
    Ok(())
}

fn denied() -> Tested {
    let (printed, _) = alone("denied")?;
    let reason = "a system call about time cannot be answered: EPERM: Operation not permitted";
    assert_eq!(
        printed,
        format!("programs cannot run under virtual time here: {reason}\n")
    );
    Ok(())
}

fn closed_timers() -> Tested {
    for (program, expected) in [("closes", "0\n"), ("closes-by-executing", "")] {
        let ((printed, code, passed), moments) = start(program)?.live_counted()?;
        assert_eq!((printed.as_str(), code, passed), (expected, Some(0), DAY));
        // The timer is found closed when it is due, and the sleep ends.
        assert!(moments <= 4, "{program}: {moments}");
    }
    Ok(())
}

fn passed_on() -> Tested {
    prints("passes-on", "60\n3600 59\n")
}

fn a_timer() -> Tested {
    let (_, code, passed) = Running::start(&["timeout", "60", "sleep", "1d"])?.live()?;
    assert_eq!((code, passed), (Some(124), 60));
    Ok(())
}

fn random_numbers() -> Tested {
    let own = std::env::current_exe()?;
    let command = [own.to_str().ok_or("a path in UTF-8")?, ROLE, "random"];
    let draw = |seed| Ok::<_, Box<dyn Error>>(Running::seeded(&command, seed)?.live()?.0);
    let first = draw(7)?;
    assert_eq!(draw(7)?, first);
    assert_ne!(draw(8)?, first);
    Ok(())
}

fn traces() -> Tested {
    let reason = "programs cannot run under virtual time here: a process cannot be traced: ";
    prints(
        "traces",
        &format!("{reason}EPERM: Operation not permitted\n"),
    )
}

fn exit_codes() -> Tested {
    for (script, expected) in [("exit 7", 7), ("kill -9 $$", 128 + 9)] {
        let (_, code, _) = Running::start(&["sh", "-c", script])?.live()?;
        assert_eq!(code, Some(expected), "{script}");
    }
    let (_, code, _) = Running::start(&["/nowhere"])?.live()?;
    assert_eq!(code, Some(126));
    Ok(())
}
