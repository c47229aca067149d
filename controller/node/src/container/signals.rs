//! SIGTERM for a container's main process, and its script's handler (`trap`).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The sender of SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kubelet, which waits for the end of the container.
    Kubelet,
    /// Another process on the node.
    Other,
}

/// A receiver of SIGTERM: its sender, or `None` while it was not sent.
pub(crate) type Sigterm = watch::Receiver<Option<Sender>>;

/// The signals of the shell that is a container's first process. Signals without a handler are
/// ignored.
#[derive(Clone)]
pub(super) struct Signals {
    sigterm: Sigterm,
    /// The script's handler of SIGTERM.
    trap: Arc<Mutex<Option<String>>>,
}

impl Signals {
    pub(super) fn new(sigterm: Sigterm) -> Self {
        Self {
            sigterm,
            trap: Arc::default(),
        }
    }

    /// Sets the script's handler of SIGTERM, or removes it.
    pub(super) fn trap(&self, action: Option<String>) {
        // A handler set after SIGTERM is ignored: the signal was lost.
        if self.sigterm.borrow().is_none() {
            *self.trap.lock() = action;
        }
    }

    /// Takes the handler if SIGTERM was sent. Returns it only once.
    pub(super) fn due(&self) -> Option<String> {
        let is_sent = self.sigterm.borrow().is_some();
        self.trap.lock().take_if(|_| is_sent)
    }

    /// Waits until a handler is due.
    pub(super) async fn arrive(&self) {
        let mut sigterm = self.sigterm.clone();
        let is_sent = sigterm.wait_for(Option::is_some).await.is_ok();
        if !is_sent || self.trap.lock().is_none() {
            std::future::pending().await
        }
    }
}
