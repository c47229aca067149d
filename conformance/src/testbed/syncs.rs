//! The syncs of the controllers of a testbed.

use std::sync::Arc;

use kubeproof_apiserver::ApiServer;
use kubeproof_controller::manager::OnSync;
use parking_lot::Mutex;

use crate::timeline::SyncBegan;

/// The controller whose requests do not bear its name.
const RENAMED: (&str, &str) = ("advanced-statefulset", "asts-controller");

/// The syncs so far, in their order.
#[derive(Clone, Default)]
pub(super) struct Syncs(Arc<Mutex<Vec<SyncBegan>>>);

impl Syncs {
    /// Notes the syncs of the controllers of `server`.
    pub(super) fn observer(&self, server: &ApiServer) -> OnSync {
        let (began, server) = (Arc::clone(&self.0), server.clone());
        Arc::new(move |controller, _| {
            let actor = match controller == RENAMED.0 {
                true => RENAMED.1.to_owned(),
                false => format!("{controller}-controller"),
            };
            began.lock().push(SyncBegan {
                actor,
                after_rv: server.resource_version(),
            });
        })
    }

    pub(super) fn began(&self) -> Vec<SyncBegan> {
        self.0.lock().clone()
    }
}
