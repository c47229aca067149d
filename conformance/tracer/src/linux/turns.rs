//! Turns: one thread of a program runs at a time, so that its threads interleave in the same way in each run.
//!
//! A thread that the tracer has stopped goes on when it is its turn. It keeps the turn until it waits, ends, calls `sched_yield`, or has
//! computed for a [`SLICE`]. A thread whose wait is over stops as it returns from the system call. The turn is passed on when all threads
//! that are not stopped wait, so those that were woken are among the next ones, and goes around in the order in which threads began.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::threads::Threads;

/// A thread that has used this processor time lets the next one go on: longer than most work between two waits.
const SLICE: Duration = Duration::from_millis(20);

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resumption {
    /// The signal that it gets.
    pub(super) signal: Option<Signal>,
    /// Whether it stops as it returns from the system call that it makes.
    pub(super) stops_at_return: bool,
}

/// A step towards the next turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// This thread goes on.
    GoOn(Pid, Resumption),
    /// This thread has computed for long, and is to stop.
    Interrupt(Pid),
}

/// The turns of a program's threads.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The thread whose turn it is.
    current: Option<Pid>,
    /// The number of the thread whose turn it was last.
    last: u64,
    /// The threads that are stopped and could go on.
    ready: Vec<(Pid, Resumption)>,
    /// The processor time of threads that run, when they were first seen to do so in this turn.
    since: BTreeMap<i32, Duration>,
    /// Whether the thread whose turn it is was asked to stop.
    is_interrupted: bool,
}

impl Turns {
    /// Whether a stopped thread goes on at once. If not, it does when it is its turn.
    pub(super) fn goes_on(&mut self, thread: Pid, how: Resumption) -> bool {
        let may = self.current == Some(thread);
        if !may {
            self.ready.push((thread, how));
        }
        may
    }

    /// Whether threads wait for their turns.
    pub(super) fn are_waited_for(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The turn of a thread is over, if it is its turn.
    pub(super) fn end(&mut self, thread: Pid) {
        if self.current == Some(thread) {
            self.current = None;
        }
    }

    /// A thread was asked to stop, and has stopped.
    pub(super) fn has_stopped(&mut self, thread: Pid) {
        if self.is_interrupted {
            self.end(thread);
        }
    }

    /// A thread has ended.
    pub(super) fn remove(&mut self, thread: Pid) {
        self.end(thread);
        self.ready.retain(|(ready, _)| *ready != thread);
        self.since.remove(&thread.as_raw());
    }

    /// A process has executed another program: the thread that did so has its id now.
    pub(super) fn executed(&mut self, process: Pid, threads: &mut Threads) {
        let mut of = |thread: Pid| threads.get(thread).map(|thread| thread.process);
        let own = Some(process.as_raw());
        self.ready.retain(|(ready, _)| of(*ready) != own);
        if self.current.and_then(of) == own {
            self.current = Some(process);
        }
    }

    /// Returns the next step; `None` while a thread uses its turn, is about to stop, or no thread waits for a turn.
    pub(super) fn next(&mut self, threads: &Threads) -> Option<Step> {
        if self.ready.is_empty() {
            return None;
        }
        if let Some(current) = self.current {
            if threads.runs(current) {
                let is_over = !self.is_interrupted && self.has_computed(current, threads);
                self.is_interrupted |= is_over;
                return is_over.then_some(Step::Interrupt(current));
            }
            self.current = None;
        }
        // Woken threads stop soon. A thread that has waited in a call without a stop runs on, and is interrupted after a slice.
        let is_ready = |thread: Pid| self.ready.iter().any(|(ready, _)| *ready == thread);
        let running = threads.ids().filter(|thread| !is_ready(*thread));
        let running: Vec<Pid> = running.filter(|thread| threads.runs(*thread)).collect();
        if !running.is_empty() {
            let mut long = running.into_iter();
            let long = long.find(|thread| self.has_computed(*thread, threads))?;
            self.since.remove(&long.as_raw());
            return Some(Step::Interrupt(long));
        }
        let number = |(thread, _): &(Pid, Resumption)| threads.number(*thread).unwrap_or(0);
        let order = |ready: &(Pid, Resumption)| (number(ready) <= self.last, number(ready));
        let places = self.ready.iter().enumerate();
        let (place, _) = places.min_by_key(|(_, ready)| order(ready))?;
        let next = self.ready.remove(place);
        self.last = number(&next);
        self.current = Some(next.0);
        self.is_interrupted = false;
        self.since.clear();
        self.since
            .insert(next.0.as_raw(), threads.processor_time(next.0));
        Some(Step::GoOn(next.0, next.1))
    }

    /// Whether a thread has used a slice of processor time since it was first seen to run.
    fn has_computed(&mut self, thread: Pid, threads: &Threads) -> bool {
        let now = threads.processor_time(thread);
        let since = self.since.entry(thread.as_raw()).or_insert(now);
        now.saturating_sub(*since) >= SLICE
    }
}
