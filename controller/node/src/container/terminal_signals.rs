//! The signals that keys of a terminal send.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A signal that a key sends to the processes of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGINT, by `^C`.
    Interrupt,
    /// SIGQUIT, by `^\`.
    Quit,
}

impl Signal {
    /// Returns the exit code of a process killed by the signal: 128 plus its number.
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Interrupt => 130,
            Self::Quit => 131,
        }
    }
}

/// The pending signals of a terminal. One signal goes to one process, the innermost that waits for
/// it.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pending: Mutex<Option<Signal>>,
    changed: Notify,
}

impl Signals {
    pub(super) fn send(&self, signal: Signal) {
        *self.pending.lock() = Some(signal);
        self.changed.notify_waiters();
    }

    /// Waits for the next signal.
    ///
    /// Cancel safety: the signal is taken only by the poll that returns it.
    pub(super) async fn next(&self) -> Signal {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(signal) = self.pending.lock().take() {
                return signal;
            }
            changed.await;
        }
    }
}
