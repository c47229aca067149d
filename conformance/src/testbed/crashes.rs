//! Restarts controllers when a fault crashes them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use kubeproof_apiserver::ApiServer;
use kubeproof_controller::{Ended, Manager, panic_message};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use super::ControllerUnderTest;
use crate::fault_plan::StaleReads;

/// Waits for crashes.
pub(super) struct Crashes {
    task: JoinHandle<()>,
    asked: Arc<Notify>,
    stale: Stale,
    ends: Ends,
}

/// The controllers under test that have panicked, or returned though they must not.
type Ends = Arc<Mutex<Vec<Ended>>>;

/// The stale reads that a crash leads to; `None` for reads of the present state.
#[derive(Clone, Default)]
pub(super) struct Stale(Arc<Mutex<Option<StaleReads>>>);

impl Crashes {
    /// Starts `under_test` with `client`, and waits.
    pub(super) fn watch(
        server: &ApiServer,
        manager: &Manager,
        client: &kube::Client,
        under_test: Vec<ControllerUnderTest>,
    ) -> Self {
        let (client, mut lives) = (client.clone(), JoinSet::new());
        let ends = Ends::default();
        start(&mut lives, &client, &under_test, &ends);
        let noted = Arc::clone(&ends);
        let stale = Stale::default();
        let (server, restarter, lag) = (server.clone(), manager.restarter(), stale.clone());
        let asked = Arc::new(Notify::new());
        let again = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut crashes = server.crashes();
            loop {
                tokio::select! {
                    crash = crashes.changed() => {
                        if crash.is_err() {
                            return;
                        }
                        crashes.borrow_and_update();
                        if let Some(stale) = &*lag.0.lock() {
                            server.inject(stale.fault());
                        }
                    }
                    () = again.notified() => {}
                }
                // All old controllers end before the next ones start.
                lives.abort_all();
                while lives.join_next().await.is_some() {}
                restarter.restart();
                start(&mut lives, &client, &under_test, &noted);
            }
        });
        Self {
            task,
            asked,
            stale,
            ends,
        }
    }

    /// Restarts all controllers, as after a crash, but with reads of the present state.
    pub(super) fn restart(&self) {
        self.asked.notify_one();
    }

    /// Returns the controllers under test that have ended and must not, in the order in which they did.
    pub(super) fn ended(&self) -> Vec<Ended> {
        self.ends.lock().clone()
    }

    /// Returns the stale reads after a crash.
    pub(super) fn stale(&self) -> &Stale {
        &self.stale
    }

    /// Ends the watch for crashes, and with it the controllers under test.
    pub(super) async fn end(self) {
        self.task.abort();
        // The task ends as cancelled, as intended.
        let _ = self.task.await;
    }
}

fn start(
    lives: &mut JoinSet<()>,
    client: &kube::Client,
    under_test: &[ControllerUnderTest],
    ends: &Ends,
) {
    for controller in under_test {
        let life = AssertUnwindSafe(controller.live(client)).catch_unwind();
        let (controller, ends) = (controller.clone(), Arc::clone(ends));
        lives.spawn(async move {
            let panic = life
                .await
                .err()
                .map(|panic| panic_message(&*panic).to_owned());
            if panic.is_some() || !controller.may_end {
                let name = controller.user_agent;
                ends.lock().push(Ended { name, panic });
            }
        });
    }
}

impl Stale {
    /// This is seen from now on.
    pub(super) fn set(&self, reads: Option<StaleReads>) {
        *self.0.lock() = reads;
    }
}
