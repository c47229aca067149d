//! The virtual time of programs: tokio's paused time, which passes once all programs wait.
//!
//! Tokio advances its time to the next timer when no task can go on. It cannot know what programs do, so a blocking task keeps it from
//! that until all programs wait and nothing is on its way between them and the server. The task looks at every thread twice: those of
//! programs through their tracers, that of the runtime itself. If none has run between the two looks, all have slept at one moment,
//! and only time can wake one. The earliest time at which a program goes on by itself is then a timer of tokio's, among those of
//! server, nodes and controllers.
//!
//! Beside people, who live in real time, it passes no faster than real time, unless it is asked to advance ([`Pace`]).

mod pace;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kubeproof_apiserver::Clock;
use kubeproof_tracer::{OwnThread, Threads, Time, Tracee, Waiting};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::sockets::acknowledge;
pub use pace::Pace;
use pace::RealPace;

/// The pause between looks at threads of which one runs.
const LOOK_PERIOD: Duration = Duration::from_micros(20);

thread_local! {
    /// The time of the programs of the runtime on this thread.
    static HERE: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Lets a runtime be the time of programs. Its time has to be paused, and it has to have one thread.
#[doc(hidden)]
pub fn share_time(runtime: &mut tokio::runtime::Builder) {
    let here = |act: fn(&Shared)| {
        move || HERE.with_borrow(|here| here.iter().for_each(|shared| act(shared)))
    };
    runtime
        .on_thread_park(here(Shared::parks))
        .on_thread_unpark(here(Shared::goes_on));
}

/// The time of programs.
pub struct VirtualTime {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    /// Whether one thread of a program runs at a time.
    is_sequential: bool,
    /// The number of programs so far.
    started: AtomicU64,
}

/// A program whose time this is, as long as this lives.
pub(super) struct Added {
    shared: Arc<Shared>,
    number: u64,
}

struct Shared {
    clock: Clock,
    /// When the monotonic clock of programs showed that of [`Time::default`].
    began: Instant,
    /// The thread of the runtime.
    thread: OwnThread,
    /// Whether it waits for events, or is about to.
    is_parked: AtomicBool,
    programs: Mutex<Programs>,
    /// The last moment at which everything waited for time alone; `None` while something is on its way.
    waited: Mutex<Option<Waited>>,
    /// The time that programs see.
    told: Mutex<Time>,
    /// Asks to look again.
    again: Notify,
    /// What time may not overtake; `None` for [`Pace::Unlimited`].
    pace: Option<Mutex<RealPace>>,
    is_over: AtomicBool,
}

/// The programs that run.
#[derive(Clone, Default)]
struct Programs {
    running: BTreeMap<u64, Tracee>,
    /// How often a program was added or has ended.
    changes: u64,
}

/// A moment at which everything waited for time alone.
#[derive(Debug)]
struct Waited {
    /// The time when the programs were about to be looked at.
    time: Time,
    seen: Seen,
    /// When the first program goes on by itself.
    until: Option<Instant>,
}

/// Programs of which all threads wait.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// The number of changes by then.
    changes: u64,
    /// What each program waits for.
    waiting: Vec<Waiting>,
}

impl VirtualTime {
    /// Begins to be the time of programs, which follow `clock`. If they are sequential, each runs one thread at a time. The
    /// runtime is one that [`share_time`] has prepared. At a real pace, the clock can be asked to advance.
    ///
    /// # Errors
    /// When this system does not show whether threads sleep.
    pub fn begin(clock: &Clock, is_sequential: bool, pace: Pace) -> io::Result<Self> {
        let began = Instant::now();
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            began,
            thread: OwnThread::current()?,
            is_parked: AtomicBool::new(false),
            programs: Mutex::default(),
            waited: Mutex::default(),
            told: Mutex::default(),
            again: Notify::new(),
            pace: match pace {
                Pace::Unlimited => None,
                Pace::Real => Some(Mutex::new(RealPace::begin(began))),
            },
            is_over: AtomicBool::new(false),
        });
        if shared.pace.is_some() {
            clock.passes_with(pace::advance(&shared));
        }
        HERE.replace(Some(Arc::clone(&shared)));
        let task = tokio::spawn(Arc::clone(&shared).pass());
        Ok(Self {
            shared,
            task,
            is_sequential,
            started: AtomicU64::new(0),
        })
    }

    /// The next program, and what starts its tracer.
    ///
    /// # Errors
    /// The errors of [`Tracee::of`].
    pub(super) fn next(&self, command: &[&OsStr]) -> io::Result<(Tracee, Command)> {
        // Two lives of a program are not to have equal random numbers.
        let seed = self.started.fetch_add(1, Ordering::Relaxed);
        match self.is_sequential {
            true => Tracee::in_turns(command, seed),
            false => Tracee::of(command, seed),
        }
    }

    /// Adds a program, and lets it begin.
    ///
    /// # Errors
    /// When the tracer cannot be told.
    pub(super) fn add(&self, program: Tracee) -> io::Result<Added> {
        program.begin(self.shared.time())?;
        let mut programs = self.shared.programs.lock();
        let number = programs.changes;
        programs.changes += 1;
        programs.running.insert(number, program);
        Ok(Added {
            shared: Arc::clone(&self.shared),
            number,
        })
    }
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        HERE.replace(None);
        self.task.abort();
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        let mut programs = self.shared.programs.lock();
        programs.changes += 1;
        programs.running.remove(&self.number);
    }
}

impl Programs {
    /// Asks each program what its threads do. `None` if a thread runs.
    fn ask(&self, ask: fn(&Tracee) -> io::Result<Option<Threads>>) -> Option<Seen> {
        let waiting = self.running.values().map(|program| match ask(program) {
            Ok(Some(Threads::Wait(waiting))) => Some(waiting),
            // One that has ended is about to be removed.
            Ok(Some(Threads::Run) | None) | Err(_) => None,
        });
        Some(Seen {
            changes: self.changes,
            waiting: waiting.collect::<Option<_>>()?,
        })
    }
}

impl Shared {
    /// Lets time pass whenever everything waits for it.
    async fn pass(self: Arc<Self>) {
        loop {
            let (time, looker) = (self.time(), Arc::clone(&self));
            // While this task runs, tokio's time does not pass.
            let looked = tokio::task::spawn_blocking(move || looker.all_wait());
            let Ok(Some(seen)) = looked.await else {
                return;
            };
            let reached = self.pace.as_ref();
            let reached = reached.map(|pace| pace.lock().reached(Instant::now()));
            let limit = match reached {
                Some(None) => {
                    self.real_time_passes().await;
                    continue;
                }
                limit => limit.flatten(),
            };
            let untils = seen.waiting.iter().filter_map(|waiting| waiting.until);
            let untils = untils.filter_map(|until| self.instant(until));
            let until = untils.chain(limit).min();
            *self.waited.lock() = Some(Waited { time, seen, until });
            let until = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.again.notified() => {}
                () = until => {}
            }
            *self.waited.lock() = None;
        }
    }

    /// Waits in real time for a moment, in which virtual time does not pass.
    async fn real_time_passes(&self) {
        // Tokio's time does not pass while a blocking task waits. This one ends early when the sender is dropped.
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let passed = tokio::task::spawn_blocking(move || receiver.recv_timeout(pace::PERIOD));
        tokio::select! {
            biased;
            () = self.again.notified() => {}
            _ = passed => {}
        }
        drop(sender);
    }

    /// The runtime is about to wait. If a clock shows another time or programs have changed since everything waited, and programs do not
    /// wait as they did then, everything is looked at before time passes again.
    fn parks(&self) {
        // The runtime may have set the clock.
        self.tell();
        let (time, programs) = (self.time(), self.programs.lock().clone());
        let mut waited = self.waited.lock();
        if let Some(last) = &mut *waited
            && (last.time, last.seen.changes) != (time, programs.changes)
        {
            let now = Instant::now();
            let is_before = last.until.is_none_or(|until| now < until);
            if is_before && programs.ask(Tracee::look).as_ref() == Some(&last.seen) {
                last.time = time;
            } else {
                *waited = None;
                self.again.notify_one();
            }
        }
        self.is_parked.store(true, Ordering::Release);
    }

    /// The runtime goes on. Before a task can write to a program, the program sees the time.
    fn goes_on(&self) {
        self.is_parked.store(false, Ordering::Release);
        self.tell();
    }

    /// Tells programs the time, if it is another one.
    fn tell(&self) {
        let time = self.time();
        let mut told = self.told.lock();
        if *told == time {
            return;
        }
        *told = time;
        for program in self.programs.lock().clone().running.values() {
            // An error is the end of the program, which is seen elsewhere.
            let _ = program.advance(time);
        }
    }

    /// Waits until everything waits for time alone. Returns what the programs wait for; `None` when programs are over.
    fn all_wait(&self) -> Option<Seen> {
        while !self.is_over.load(Ordering::Acquire) {
            let programs = self.programs.lock().clone();
            if let Some(seen) = self.look_twice(&programs)
                && seen.changes == self.programs.lock().changes
            {
                return Some(seen);
            }
            std::thread::park_timeout(LOOK_PERIOD);
        }
        None
    }

    /// The waits of the programs, if all threads have slept at one moment.
    fn look_twice(&self, programs: &Programs) -> Option<Seen> {
        // Tokio's own tasks need no look, but at a real pace a client may ask whether everything waits.
        if programs.running.is_empty() && self.pace.is_none() {
            return programs.ask(Tracee::look);
        }
        let runtime = || {
            let is_parked = self.is_parked.load(Ordering::Acquire);
            is_parked.then(|| self.thread.asleep()).flatten()
        };
        let first = (programs.ask(Tracee::settle)?, runtime()?);
        // What comes now wakes the runtime before the second look.
        let _ = acknowledge();
        let second = (programs.ask(Tracee::look)?, runtime()?);
        (first == second).then_some(second.0)
    }

    /// The present time, as programs see it.
    fn time(&self) -> Time {
        let start = Time::default();
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time {
            realtime: i64::try_from(self.clock.now().as_nanosecond()).unwrap_or(i64::MAX),
            monotonic: start.monotonic.saturating_add(passed),
        }
    }

    /// The moment of the runtime at which the monotonic clock of programs shows `monotonic`; `None` if that is too far away.
    fn instant(&self, monotonic: u64) -> Option<Instant> {
        let passed = monotonic.saturating_sub(Time::default().monotonic);
        self.began.checked_add(Duration::from_nanos(passed))
    }
}
