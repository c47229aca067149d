//! Passes of the server's own controllers after a write, within the request that wrote.

use std::cell::Cell;

use parking_lot::ReentrantMutex;

/// Runs one pass at a time. The writes of a pass find it held by themselves.
#[derive(Debug, Default)]
pub struct Passes(ReentrantMutex<Cell<State>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Running,
    /// An object that the pass may have read was written since.
    Outdated,
}

impl Passes {
    /// Runs `pass`, and again as long as its own writes give it something to do.
    pub fn run(&self, pass: impl Fn()) {
        let state = self.0.lock();
        if state.get() != State::Idle {
            state.set(State::Outdated);
            return;
        }
        // A panic must not leave the pass running: later writes would wait for it.
        let _idle = IdleAtEnd(&state);
        loop {
            state.set(State::Running);
            pass();
            if state.replace(State::Idle) == State::Running {
                return;
            }
        }
    }

    /// Waits until no other thread runs a pass. A write of a pass has to find it running.
    pub fn wait(&self) {
        drop(self.0.lock());
    }
}

/// Sets the state idle at the end of its scope.
struct IdleAtEnd<'s>(&'s Cell<State>);

impl Drop for IdleAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set(State::Idle);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// More turns than another thread needs to go on, if nothing holds it.
    const TURNS: usize = 10_000;

    #[test]
    fn another_thread_waits_for_the_end_of_a_pass() {
        let (passes, is_done) = (Passes::default(), AtomicBool::new(false));
        let (started, starts) = mpsc::channel();
        let (asks, asked) = mpsc::channel();
        std::thread::scope(|scope| {
            let (passes, is_done) = (&passes, &is_done);
            scope.spawn(move || {
                passes.run(|| {
                    started.send(()).unwrap();
                    asked.recv().unwrap();
                    (0..TURNS).for_each(|_| std::thread::yield_now());
                    is_done.store(true, Ordering::Release);
                });
            });
            starts.recv().unwrap();
            asks.send(()).unwrap();
            passes.wait();
            assert!(is_done.load(Ordering::Acquire));
        });
    }

    #[test]
    fn a_pass_does_not_wait_for_itself() {
        let passes = Passes::default();
        passes.run(|| passes.wait());
    }
}
