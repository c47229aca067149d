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
}

/// Sets the state idle at the end of its scope.
struct IdleAtEnd<'s>(&'s Cell<State>);

impl Drop for IdleAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set(State::Idle);
    }
}
