//! Wake-ups for tasks that wait for a change.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// Wakes the tasks that wait for a change. Few logs and volumes are ever followed, so the first task that waits makes
/// the notifier.
#[derive(Debug, Default)]
pub(super) struct Changes(OnceLock<Arc<Notify>>);

impl Changes {
    /// Returns the notifier. A task has to enable its wait before it looks at the state.
    pub(super) fn notifier(&self) -> &Arc<Notify> {
        self.0.get_or_init(Arc::default)
    }

    /// Wakes the waiting tasks. The caller has changed the state, under its lock.
    pub(super) fn notify(&self) {
        if let Some(notify) = self.0.get() {
            notify.notify_waiters();
        }
    }
}
