//! What a main process is told from outside: SIGTERM, and what its script does about it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Who has sent SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Sender {
    /// The kubelet, which waits for the end.
    Kubelet,
    /// Somebody else on the node.
    Other,
}

/// Whether SIGTERM was sent.
pub(in crate::node) type Told = watch::Receiver<Option<Sender>>;

/// The signals of the shell that is a container's first process. One without a handler is lost.
#[derive(Clone)]
pub(super) struct Signals {
    told: Told,
    /// What the script does on SIGTERM.
    trap: Arc<Mutex<Option<String>>>,
}

impl Signals {
    pub(super) fn new(told: Told) -> Self {
        Self {
            told,
            trap: Arc::default(),
        }
    }

    /// What the script does on SIGTERM from now on; nothing without an action.
    pub(super) fn trap(&self, action: Option<String>) {
        // It was sent before, and nobody has listened.
        if self.told.borrow().is_none() {
            *self.trap.lock() = action;
        }
    }

    /// What is to be done now, once.
    pub(super) fn due(&self) -> Option<String> {
        let is_told = self.told.borrow().is_some();
        self.trap.lock().take_if(|_| is_told)
    }

    /// Waits until there is something to be done.
    pub(super) async fn arrive(&self) {
        let mut told = self.told.clone();
        let is_told = told.wait_for(Option::is_some).await.is_ok();
        if !is_told || self.trap.lock().is_none() {
            std::future::pending().await
        }
    }
}
