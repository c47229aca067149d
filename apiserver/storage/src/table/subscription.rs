//! Subscriptions: watches of a part of a table's objects, in groups that select the same.

use std::sync::Arc;

use tokio::sync::Notify;

use super::groups::{Filter, Group, Number, SelectedEvent};
use super::state::State;
use super::{Table, WindowError};
use crate::ResourceVersion;

/// A watch of the objects that a filter selects. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    table: Arc<Table>,
    group: Number,
    filter: Arc<dyn Filter>,
    changed: Arc<Notify>,
}

impl Subscription {
    /// Subscribes to the objects of `table` that `filter` selects.
    pub fn new(table: Arc<Table>, filter: Arc<dyn Filter>) -> Self {
        let (group, changed) = {
            let mut state = table.state.write();
            let now = table.versions.current();
            state.groups.join(Arc::clone(&filter), now)
        };
        Self {
            table,
            group,
            filter,
            changed,
        }
    }

    /// The notifier that wakes after each commit of a selected object, and upon requests to watches.
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// The selected events above version `rv`, oldest first, at most `max` of them; and the version
    /// that they reach to. An empty list means that the table has no more of them.
    ///
    /// # Errors
    /// [`WindowError`] when the table has forgotten an event that could be selected.
    pub fn events_after(
        &self,
        rv: ResourceVersion,
        max: usize,
    ) -> Result<(Vec<SelectedEvent>, ResourceVersion), WindowError> {
        {
            let state = self.table.state.read();
            if let Some(group) = state.groups.complete_since(self.group, rv) {
                return state.logged(group, rv, max, self.table.versions.current());
            }
        }
        let mut from = rv;
        loop {
            let (events, reached) = self.table.events_after(from, max)?;
            let is_end = events.is_empty();
            let selected = events.into_iter().filter_map(|event| {
                let event_type = self.filter.event_type(&event)?;
                Some(SelectedEvent { event_type, event })
            });
            let selected: Vec<_> = selected.collect();
            // Nobody wakes the watch for events that are here already.
            if is_end || !selected.is_empty() {
                return Ok((selected, reached));
            }
            from = reached;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.table.state.write().groups.leave(self.group);
    }
}

impl State {
    /// The events of a group's log above version `rv`, which the log has all of.
    fn logged(
        &self,
        group: &Group,
        rv: ResourceVersion,
        max: usize,
        current: ResourceVersion,
    ) -> Result<(Vec<SelectedEvent>, ResourceVersion), WindowError> {
        let from = group.log.partition_point(|(own, _)| *own <= rv);
        let mut events = Vec::new();
        for (own, event_type) in group.log.range(from..).take(max) {
            let at = self.window.binary_search_by(|event| event.rv.cmp(own));
            let Ok(at) = at else {
                let compacted = self.compacted;
                return Err(WindowError::Expired { compacted });
            };
            events.push(SelectedEvent {
                event_type: *event_type,
                event: Arc::clone(&self.window[at]),
            });
        }
        let is_complete = from + events.len() == group.log.len();
        let reached = match (is_complete, events.last()) {
            (false, Some(last)) => last.event.rv,
            _ => current,
        };
        Ok((events, reached.max(rv)))
    }
}

#[cfg(test)]
mod tests;
