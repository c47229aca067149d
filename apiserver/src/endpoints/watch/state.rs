//! The protocol of a watch: its events and its states, without waiting, faults or encoding.
//!
//! ```text
//! Waiting -> Initial -> Bookmarking -> Streaming -> Ended
//! ```
//!
//! A watch of the present objects takes this whole way, without the bookmark unless it asks for
//! one. A watch that resumes begins with `Streaming`. An error ends each state.

use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use tokio::time::Instant;

use super::Start;
use crate::endpoints::selectors::Selection;
use crate::meta::ResourceVersion;
use crate::status::{ApiError, Cause};
use crate::storage::{
    Event, EventType, Filter, SelectedEvent, Snapshot, StoredObject, Subscription, Table,
    WindowError,
};

/// Events taken from the window at a time.
const EVENTS_MAX: usize = 256;

/// The time for which a watch waits for a version that does not exist yet.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// An event of a watch.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// An object that was there when the watch began, as ADDED.
    Initial(Arc<StoredObject>),
    /// A change of an object.
    Change {
        /// The change as the selection sees it.
        event_type: EventType,
        /// The change as the table saw it.
        event: Arc<Event>,
    },
    /// The version up to which the client has seen all events.
    Bookmark {
        rv: ResourceVersion,
        ends_initial_events: bool,
    },
    /// The last event of a watch that fails.
    Error(ApiError),
}

impl WatchEvent {
    /// The version of a change.
    pub(super) fn rv(&self) -> Option<ResourceVersion> {
        match self {
            Self::Change { event, .. } => Some(event.rv),
            Self::Initial(_) | Self::Bookmark { .. } | Self::Error(_) => None,
        }
    }
}

/// The state of a watch: what it delivers next.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing, until the objects are as new as the client asks.
    Waiting {
        not_older_than: ResourceVersion,
        /// The time of the failure if there is no such version by then.
        until: Instant,
        /// Whether any version will do, however old.
        any: bool,
        ends_with_bookmark: bool,
    },
    /// The objects of a snapshot, as ADDED.
    Initial {
        /// The version of the snapshot.
        rv: ResourceVersion,
        objects: IntoIter<Arc<StoredObject>>,
        ends_with_bookmark: bool,
    },
    /// The bookmark that says that the objects of the snapshot were all.
    Bookmarking {
        /// The version of the snapshot.
        rv: ResourceVersion,
    },
    /// The events of the window, as they happen.
    Streaming {
        /// The version up to which all events have been read.
        rv: ResourceVersion,
        /// The version of the table when the watch began: older events were there before.
        began: ResourceVersion,
        /// Whether the window has had all that the watch missed; if it has not then, the watch is
        /// slow.
        keeps_up: bool,
    },
    /// Nothing more.
    Ended,
}

/// The objects that a state reads, as faults show them.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) table: &'a Table,
    pub(super) selection: &'a Selection,
    /// The subscription to the selected objects; `None` for a watch that reads all events.
    pub(super) subscription: Option<&'a Subscription>,
    /// The number of writes that the present objects lag, if any version will do.
    pub(super) lag: u64,
    /// The version up to which events are shown; `None` for all.
    pub(super) horizon: Option<ResourceVersion>,
}

impl Source<'_> {
    /// The selected objects of a snapshot, and how many objects were examined for them.
    fn selected(&self, snapshot: &Snapshot) -> (Vec<Arc<StoredObject>>, usize) {
        if let Some(key) = self.selection.key() {
            let object = snapshot.get(&key);
            let selected = object.filter(|object| self.selection.selects(object));
            return (
                selected.cloned().into_iter().collect(),
                object.iter().count(),
            );
        }
        let mut examined = 0;
        let all = snapshot.range(self.selection.namespace.as_deref(), None);
        let all = all.inspect(|_| examined += 1);
        let selected = all.filter(|object| self.selection.selects(object));
        (selected.cloned().collect(), examined)
    }

    /// The next events after version `after`, of a watch that began at version `began`.
    fn events_after(
        &self,
        after: ResourceVersion,
        began: ResourceVersion,
    ) -> Result<Read, WindowError> {
        let (mut events, rv) = match self.subscription {
            Some(subscription) => subscription.events_after(after, EVENTS_MAX)?,
            None => {
                let (events, rv) = self.table.events_after(after, EVENTS_MAX)?;
                let unselected = events.into_iter().map(|event| SelectedEvent {
                    event_type: event.event_type,
                    event,
                });
                (unselected.collect(), rv)
            }
        };
        let mut read = Read {
            rv,
            examined: 0,
            past: 0,
            events: Vec::new(),
        };
        if let Some(horizon) = self.horizon {
            events.retain(|own| own.event.rv <= horizon);
            read.rv = rv.min(horizon).max(after);
        }
        read.examined = events.len();
        read.past = events.iter().filter(|own| own.event.rv <= began).count();
        read.events = match self.subscription.is_some() || self.selection.is_everything() {
            true => events,
            false => {
                let selected = events.into_iter().filter_map(|own| {
                    let event_type = self.selection.event_type(&own.event)?;
                    Some(SelectedEvent { event_type, ..own })
                });
                selected.collect()
            }
        };
        Ok(read)
    }
}

/// Events that a watch reads at a time.
struct Read {
    /// The selected ones.
    events: Vec<SelectedEvent>,
    /// The version up to which all events have been read.
    rv: ResourceVersion,
    /// The number of events read, selected or not.
    examined: usize,
    /// The number of these that had happened when the watch began.
    past: usize,
}

/// The outcome of a step of the state machine.
#[derive(Debug)]
pub(super) enum Advance {
    /// There is nothing to deliver before a change or a deadline.
    Idle,
    /// The present objects are known.
    Listed {
        /// The number of objects in the snapshot, selected or not.
        examined: usize,
        /// Whether the client asked for objects of some version.
        was_awaited: bool,
    },
    /// The selected events after version `after`.
    Batch {
        after: ResourceVersion,
        events: Vec<SelectedEvent>,
        /// The number of the events that had happened when the watch began.
        past: usize,
    },
    /// The watch ends with this error.
    Failed {
        error: ApiError,
        /// Whether a watch that was within the window before has left it.
        fell_behind: bool,
    },
}

impl State {
    /// The first state of a watch that begins at `now`.
    pub(super) fn start(start: Start, table: &Table, now: Instant) -> Self {
        let after = |rv| Self::Streaming {
            rv,
            began: table.facts().rv,
            keeps_up: false,
        };
        match start {
            Start::After(rv) => after(rv),
            Start::Now => after(table.snapshot().rv),
            Start::Present {
                not_older_than,
                any,
                ends_with_bookmark,
            } => Self::Waiting {
                not_older_than,
                until: now + FRESHNESS_WAIT,
                any,
                ends_with_bookmark,
            },
        }
    }

    /// The version that the client has seen all events of.
    pub(super) fn rv(&self) -> ResourceVersion {
        match self {
            Self::Waiting { .. } | Self::Ended => ResourceVersion::ZERO,
            Self::Initial { rv, .. } | Self::Bookmarking { rv } | Self::Streaming { rv, .. } => *rv,
        }
    }

    /// The next event that a snapshot gives: an object, or the bookmark after the objects.
    pub(super) fn take_initial(&mut self) -> Option<WatchEvent> {
        if let Self::Initial {
            rv,
            objects,
            ends_with_bookmark,
        } = self
        {
            if let Some(object) = objects.next() {
                return Some(WatchEvent::Initial(object));
            }
            *self = match *ends_with_bookmark {
                true => Self::Bookmarking { rv: *rv },
                false => Self::after_snapshot(*rv),
            };
        }
        if let Self::Bookmarking { rv } = *self {
            *self = Self::after_snapshot(rv);
            return Some(WatchEvent::Bookmark {
                rv,
                ends_initial_events: true,
            });
        }
        None
    }

    /// The state after all of a snapshot is delivered.
    fn after_snapshot(rv: ResourceVersion) -> Self {
        Self::Streaming {
            rv,
            began: rv,
            keeps_up: false,
        }
    }

    /// Moves a stream up to the version before the next event of `subscription`.
    pub(super) fn pass_unselected(&mut self, subscription: &Subscription) {
        if let Self::Streaming { rv, .. } = self
            && let Ok((events, reached)) = subscription.events_after(*rv, EVENTS_MAX)
            && events.is_empty()
        {
            *rv = reached;
        }
    }

    /// Reads on from `source`: the present objects, or the next events.
    pub(super) fn advance(&mut self, source: Source<'_>, now: Instant) -> Advance {
        match *self {
            Self::Waiting {
                not_older_than,
                until,
                any,
                ends_with_bookmark,
            } => {
                let snapshot = source.table.snapshot();
                let current = snapshot.rv;
                if current < not_older_than {
                    return match now < until {
                        true => Advance::Idle,
                        false => self.fail(not_older_than, WindowError::Future { current }),
                    };
                }
                let snapshot = match any && source.lag > 0 {
                    true => source.table.snapshot_behind(source.lag),
                    false => snapshot,
                };
                let (objects, examined) = source.selected(&snapshot);
                *self = Self::Initial {
                    rv: snapshot.rv,
                    objects: objects.into_iter(),
                    ends_with_bookmark,
                };
                Advance::Listed {
                    examined,
                    was_awaited: not_older_than > ResourceVersion::ZERO,
                }
            }
            Self::Streaming {
                rv: after, began, ..
            } => {
                let read = match source.events_after(after, began) {
                    Ok(read) => read,
                    Err(error) => return self.fail(after, error),
                };
                *self = Self::Streaming {
                    rv: read.rv,
                    began,
                    keeps_up: true,
                };
                match read.examined {
                    0 => Advance::Idle,
                    _ => Advance::Batch {
                        after,
                        events: read.events,
                        past: read.past,
                    },
                }
            }
            Self::Initial { .. } | Self::Bookmarking { .. } | Self::Ended => Advance::Idle,
        }
    }

    /// Ends the watch, as the table cannot serve version `rv`.
    fn fail(&mut self, rv: ResourceVersion, error: WindowError) -> Advance {
        let fell_behind = matches!(self, Self::Streaming { keeps_up: true, .. });
        *self = Self::Ended;
        Advance::Failed {
            error: expired(rv, error),
            fell_behind,
        }
    }
}

/// The error for a version `rv` that the window cannot serve.
pub(crate) fn expired(rv: ResourceVersion, error: WindowError) -> ApiError {
    match error {
        WindowError::Expired { compacted } => {
            ApiError::Expired(format!("too old resource version: {rv} ({compacted})"))
        }
        WindowError::Future { current } => ApiError::Timeout {
            message: format!("Too large resource version: {rv}, current: {current}"),
            retry_after_seconds: 1,
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
        },
    }
}
