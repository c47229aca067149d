//! The pace of a watch: a moment passes before an object that has just changed is shown as deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::state::WatchEvent;
use crate::endpoints::pace::{PacedWatch, Pacer};
use crate::meta::ResourceVersion;
use crate::storage::{EventType, ObjectKey, Table};

/// The object of a change, and whether the change is its deletion.
pub(super) type Changed = (ObjectKey, bool);

/// Delays deletions, and reports what is delivered; does nothing on a server without a pace.
pub(super) struct WatchPace {
    watch: Option<PacedWatch>,
    /// The objects that changed within the last moment, and when.
    recent: BTreeMap<ObjectKey, Instant>,
}

impl WatchPace {
    pub(super) fn new(pacer: Option<Arc<Pacer>>, table: &Arc<Table>) -> Self {
        Self {
            watch: pacer.map(|pacer| PacedWatch::begin(pacer, Arc::clone(table))),
            recent: BTreeMap::new(),
        }
    }

    /// What [`Self::hold`] has to know of `event`.
    pub(super) fn changed(&self, event: &WatchEvent) -> Option<Changed> {
        match (&self.watch, event) {
            (Some(_), WatchEvent::Change { event_type, event }) => {
                let is_deletion = *event_type == EventType::Deleted;
                Some((event.object.key.clone(), is_deletion))
            }
            _ => None,
        }
    }

    /// Returns when the line of `changed` may be delivered.
    pub(super) async fn hold(&mut self, changed: &Changed) {
        let Some(watch) = &self.watch else {
            return;
        };
        let (key, is_deletion) = changed;
        let moment = watch.pace().deletion;
        if !is_deletion {
            let now = Instant::now();
            self.recent.retain(|_, at| *at + moment > now);
            self.recent.insert(key.clone(), now);
        } else if let Some(at) = self.recent.get(key) {
            // Stays until the wait is over: the stream may be dropped and polled again meanwhile.
            tokio::time::sleep_until(*at + moment).await;
            self.recent.remove(key);
        }
    }

    /// Notes that there is nothing to deliver up to version `rv`.
    pub(super) fn delivered(&self, rv: ResourceVersion) {
        if let Some(watch) = &self.watch {
            watch.delivered(rv);
        }
    }
}
