//! The ends of a process that a harness may have started: a signal, or the end of the harness.

use std::time::Duration;

use nix::unistd::{Pid, getpid, getppid, getsid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// The period of looking for the parent.
const PERIOD: Duration = Duration::from_millis(100);

/// A process whose end is the end of this one: a harness that is killed stops nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    /// `None` if this process is meant to live on.
    pid: Option<Pid>,
}

impl Parent {
    /// No process: this one is meant to live on.
    pub(super) const NONE: Self = Self { pid: None };

    /// The parent of this process, even if this process leads a session.
    pub(super) fn asked_for() -> Self {
        Self::of(None, getpid(), getppid())
    }

    /// The parent of this process. A process in a session of its own was detached on purpose, as kwokctl does it.
    pub(super) fn find() -> Self {
        Self::of(getsid(None).ok(), getpid(), getppid())
    }

    /// The number of a session leader or of a parent is 0 if that process is outside the container.
    fn of(session: Option<Pid>, own: Pid, parent: Pid) -> Self {
        let is_detached = session == Some(own);
        let is_outside = parent == Pid::from_raw(0);
        Self {
            pid: (!is_detached && !is_outside).then_some(parent),
        }
    }

    /// Completes when the parent has ended; never for a process that is meant to live on.
    pub(super) async fn ended(self) {
        let Some(pid) = self.pid else {
            return std::future::pending().await;
        };
        let (end, ended) = oneshot::channel();
        // A thread of its own, because virtual time passes otherwise than this.
        std::thread::spawn(move || {
            // An orphan gets another parent.
            while getppid() == pid && !end.is_closed() {
                std::thread::park_timeout(PERIOD);
            }
            let _ = end.send(());
        });
        let _ = ended.await;
    }
}

/// Completes upon SIGTERM or SIGINT, or when `parent` has ended. Signals count from this call on.
///
/// # Errors
/// When the process cannot handle signals.
pub(super) fn stop(parent: Parent) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = parent.ended() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_counts_unless_it_is_outside_or_its_child_leads_a_session() {
        let pid = Pid::from_raw;
        let of = |session, parent| Parent::of(Some(pid(session)), pid(7), pid(parent)).pid;
        assert_eq!(of(1, 3), Some(pid(3)));
        assert_eq!(of(0, 3), Some(pid(3)), "the leader is outside");
        assert_eq!(of(7, 3), None, "it leads the session");
        assert_eq!(of(0, 0), None, "the parent is outside");
    }
}
