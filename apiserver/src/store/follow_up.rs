//! Follow-up of writes: the server's own controllers, webhook configurations, and warnings.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Store;
use crate::admission::webhook;
use crate::cancellation;
use crate::json::Value;
use crate::status::found_warnings;
use crate::storage::{Conflict, StoredObject, Table, Transaction};

impl Store<'_> {
    /// Commits a write, then runs the server's own controllers.
    pub(super) fn commit(
        &self,
        table: &Table,
        commit: Transaction<'_>,
    ) -> Result<Arc<StoredObject>, Conflict> {
        let stored = table.commit(commit)?;
        self.follow_up();
        Ok(stored)
    }

    /// Runs the server's own controllers after writes of the resource.
    pub(super) fn follow_up(&self) {
        cancellation::shielded(|| {
            for follow in self.state.after_write {
                follow(self.state, self.resource);
            }
            webhook::after_write(self.state, self.resource);
        });
    }

    /// Adds the kind's warnings about a valid object, each once.
    pub(super) fn warn(&self, new: &Value, old: Option<&Value>) {
        let Some(held) = self.warnings else {
            return;
        };
        let found = found_warnings(|| self.strategy.warnings(new, old));
        if found.is_empty() {
            return;
        }
        let mut held = held.lock();
        let mut seen: BTreeSet<String> = held.iter().cloned().collect();
        let added = found.into_iter().filter(|own| seen.insert(own.clone()));
        held.extend(added);
    }
}
