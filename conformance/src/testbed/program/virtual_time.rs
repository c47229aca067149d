//! The virtual time of programs: tokio's paused time, which passes once all programs wait.
//!
//! Tokio advances its time to the next timer when no task can go on. It cannot know what programs do, so a blocking task keeps it from
//! that until all programs wait and nothing is on its way between them and the server. The task looks at every thread twice: those of
//! programs through their tracers, that of the runtime itself. If none has run between the two looks, all have slept at one moment,
//! and only time can wake one. The earliest time at which a program goes on by itself is then a timer of tokio's, among those of
//! server, nodes and controllers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kubeproof_apiserver::Clock;
use kubeproof_tracer::{OwnThread, Threads, Time, Tracee, Waiting};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The pause between looks at threads of which one runs.
const LOOK_PERIOD: Duration = Duration::from_micros(20);

thread_local! {
    /// The time of the programs of the runtime on this thread.
    static HERE: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Lets a runtime be the time of programs. Its time has to be paused, and it has to have one thread.
pub(crate) fn share_time(runtime: &mut tokio::runtime::Builder) {
    let here = |act: fn(&Shared)| {
        move || HERE.with_borrow(|here| here.iter().for_each(|shared| act(shared)))
    };
    runtime
        .on_thread_park(here(Shared::parks))
        .on_thread_unpark(here(Shared::goes_on));
}

/// The time of programs.
pub(super) struct VirtualTime {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
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
    programs: Mutex<BTreeMap<u64, Tracee>>,
    /// How often a program was added or has ended.
    changes: AtomicU64,
    /// The last moment at which everything waited for time alone; `None` while something is on its way.
    waited: Mutex<Option<Waited>>,
    /// The time that programs see.
    told: Mutex<Time>,
    /// Asks to look again.
    again: Notify,
    is_over: AtomicBool,
}

/// A moment at which everything waited for time alone.
#[derive(Debug)]
struct Waited {
    now: Instant,
    /// The number of changes by then.
    changes: u64,
    /// When the first program goes on by itself.
    until: Option<Instant>,
    /// How much the threads of each program had run.
    ran: Vec<u64>,
}

impl VirtualTime {
    /// Begins to be the time of programs, which follow `clock`. The runtime is one that [`share_time`] has prepared.
    ///
    /// # Errors
    /// When this system does not show whether threads sleep.
    pub(super) fn begin(clock: &Clock) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            began: Instant::now(),
            thread: OwnThread::current()?,
            is_parked: AtomicBool::new(false),
            programs: Mutex::default(),
            changes: AtomicU64::new(0),
            waited: Mutex::default(),
            told: Mutex::default(),
            again: Notify::new(),
            is_over: AtomicBool::new(false),
        });
        HERE.replace(Some(Arc::clone(&shared)));
        let task = tokio::spawn(Arc::clone(&shared).pass());
        Ok(Self {
            shared,
            task,
            started: AtomicU64::new(0),
        })
    }

    /// The seed of the random numbers of the next program: two lives of a program are not to have equal ones.
    pub(super) fn seed(&self) -> u64 {
        self.started.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a program, and lets it begin.
    ///
    /// # Errors
    /// When the tracer cannot be told.
    pub(super) fn add(&self, program: Tracee) -> io::Result<Added> {
        program.begin(self.shared.time())?;
        let number = self.shared.changes.fetch_add(1, Ordering::AcqRel);
        self.shared.programs.lock().insert(number, program);
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
        self.shared.programs.lock().remove(&self.number);
        self.shared.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl Shared {
    /// Lets time pass whenever everything waits for it.
    async fn pass(self: Arc<Self>) {
        loop {
            let (now, looker) = (Instant::now(), Arc::clone(&self));
            // While this task runs, tokio's time does not pass.
            let looked = tokio::task::spawn_blocking(move || looker.all_wait());
            let Ok(Some((waiting, changes))) = looked.await else {
                return;
            };
            let untils = waiting.iter().filter_map(|waiting| waiting.until);
            let until = untils.min().and_then(|until| self.instant(until));
            *self.waited.lock() = Some(Waited {
                now,
                changes,
                until,
                ran: waiting.iter().map(|waiting| waiting.ran).collect(),
            });
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

    /// The runtime is about to wait. If time has passed or programs have changed since everything waited, and programs do not wait as they
    /// did then, everything is looked at before time passes again.
    fn parks(&self) {
        let (now, changes) = (Instant::now(), self.changes.load(Ordering::Acquire));
        let mut waited = self.waited.lock();
        if let Some(last) = &mut *waited
            && (last.now, last.changes) != (now, changes)
        {
            let is_before = last.until.is_none_or(|until| now < until);
            if last.changes == changes && is_before && self.ran() == Some(last.ran.clone()) {
                last.now = now;
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
        let time = self.time();
        let mut told = self.told.lock();
        if *told == time {
            return;
        }
        *told = time;
        for program in &self.programs() {
            // An error is the end of the program, which is seen elsewhere.
            let _ = program.advance(time);
        }
    }

    fn programs(&self) -> Vec<Tracee> {
        self.programs.lock().values().cloned().collect()
    }

    /// How much the threads of each program have run, if all of them wait.
    fn ran(&self) -> Option<Vec<u64>> {
        let programs = self.programs();
        let ran = programs.iter().map(|program| match program.look() {
            Ok(Some(Threads::Wait(waiting))) => Some(waiting.ran),
            Ok(Some(Threads::Run) | None) | Err(_) => None,
        });
        ran.collect()
    }

    /// Waits until everything waits for time alone. Returns what the programs wait for, and the number of changes by then; `None` when
    /// programs are over.
    fn all_wait(&self) -> Option<(Vec<Waiting>, u64)> {
        while !self.is_over.load(Ordering::Acquire) {
            let changes = self.changes.load(Ordering::Acquire);
            let programs = self.programs();
            if let Some(waiting) = self.look_twice(&programs)
                && changes == self.changes.load(Ordering::Acquire)
            {
                return Some((waiting, changes));
            }
            std::thread::park_timeout(LOOK_PERIOD);
        }
        None
    }

    /// The waits of the programs, if all threads have slept at one moment.
    fn look_twice(&self, programs: &[Tracee]) -> Option<Vec<Waiting>> {
        if programs.is_empty() {
            return Some(Vec::new());
        }
        let look = |ask: fn(&Tracee) -> io::Result<Option<Threads>>| {
            let asked = programs.iter().map(|program| match ask(program) {
                Ok(Some(Threads::Wait(waiting))) => Some(waiting),
                // One that has ended is about to be removed.
                Ok(Some(Threads::Run) | None) | Err(_) => None,
            });
            asked.collect::<Option<Vec<Waiting>>>()
        };
        let runtime = || {
            let is_parked = self.is_parked.load(Ordering::Acquire);
            is_parked.then(|| self.thread.asleep()).flatten()
        };
        let first = (look(Tracee::settle)?, runtime()?);
        let second = (look(Tracee::look)?, runtime()?);
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
