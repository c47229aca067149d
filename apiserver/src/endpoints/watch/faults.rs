//! Faults of a watch: an adaptor between the selected events and their encoding.
//!
//! A fault can hold the stream or break it off ([`WatchFaults::let_deliver`]), show the table as a
//! replica that lags would ([`WatchFaults::view`]), or strike in place of an event
//! ([`WatchFaults::strike`]).

use tokio::time::Instant;

use super::Start;
use super::state::WatchEvent;
use crate::endpoints::body::Dropped;
use crate::fault::{EventEffect, Faults, RequestFacts, Turn, View};
use crate::meta::ResourceVersion;
use crate::status::ApiError;
use crate::storage::Table;

/// The faults that can affect one watch.
pub(super) struct WatchFaults {
    /// The faults of the server, and the request of the watch as they see it.
    faults: Option<(Faults, RequestFacts)>,
    /// While a fault delivers in batches: the last version of this batch, and the time of the next.
    batch: Option<(ResourceVersion, Instant)>,
    /// The time up to which a fault withholds events, if one does.
    missing: Option<Instant>,
    /// The version of the first event that a fault has delivered late, or will; `None` if the watch ends as expired
    /// instead.
    late: Option<ResourceVersion>,
}

/// Whether a fault withholds all further events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    /// Events are withheld.
    Withheld,
    /// The time has come for the watch to end as expired.
    Over,
}

impl WatchFaults {
    pub(super) fn new(faults: Option<(Faults, RequestFacts)>) -> Self {
        Self {
            faults,
            batch: None,
            missing: None,
            late: None,
        }
    }

    /// Returns when no fault holds the watch, or with the news that one breaks it off.
    pub(super) async fn let_deliver(&self) -> Turn {
        match &self.faults {
            Some((faults, watch)) => faults.let_deliver(watch).await,
            None => Turn::Deliver,
        }
    }

    /// The distortion of what the watch sees now.
    pub(super) fn view(&self) -> View {
        let faults = self.faults.as_ref();
        faults.map_or_else(View::default, |(faults, watch)| faults.view(watch))
    }

    /// The faults to wait for if they distort the view. They can end otherwise than in time.
    pub(super) fn distorting(&self, view: View) -> Option<Faults> {
        let faults = self.faults.as_ref().filter(|_| view != View::default());
        faults.map(|(faults, _)| faults.clone())
    }

    /// The start of a watch that asks for `start`: earlier if a fault makes the server lag or
    /// repeats events.
    pub(super) fn start(&self, start: Start, table: &Table) -> Start {
        let Some((faults, watch)) = &self.faults else {
            return start;
        };
        match start {
            Start::After(rv) => match faults.meet_resumption(watch) {
                0 => start,
                events => Start::After(table.version_before(rv, events as usize)),
            },
            Start::Now => Start::After(table.snapshot().rv.before(self.view().lag)),
            Start::Present { .. } => start,
        }
    }

    /// The version up to which `view` shows the events of `table` at `now`; `None` for all.
    pub(super) fn horizon(
        &mut self,
        view: View,
        table: &Table,
        now: Instant,
    ) -> Option<ResourceVersion> {
        if view == View::default() {
            self.batch = None;
            return None;
        }
        let current = table.snapshot().rv;
        let due = |(_, due): &(ResourceVersion, Instant)| *due <= now;
        match view.batch {
            Some(period) if self.batch.as_ref().is_none_or(due) => {
                self.batch = Some((current, now + period));
            }
            Some(_) => {}
            None => self.batch = None,
        }
        let batch = self.batch.map_or(current, |(rv, _)| rv);
        Some(batch.min(current.before(view.lag)))
    }

    /// Passes `events` on until a fault strikes: then its effect follows, and nothing after it.
    pub(super) fn strike<'a>(
        &'a mut self,
        mut events: impl Iterator<Item = WatchEvent> + 'a,
        expired: impl Fn() -> ApiError + 'a,
    ) -> impl Iterator<Item = Result<WatchEvent, Dropped>> + 'a {
        let mut has_struck = false;
        std::iter::from_fn(move || {
            if has_struck {
                return None;
            }
            let event = events.next()?;
            let Some(effect) = self.meet(&event) else {
                return Some(Ok(event));
            };
            has_struck = true;
            match effect {
                EventEffect::Break => Some(Err(Dropped)),
                EventEffect::Expire => Some(Ok(WatchEvent::Error(expired()))),
                EventEffect::MissEvents(time) => {
                    (self.missing, self.late) = (Some(Instant::now() + time), None);
                    None
                }
                EventEffect::Late(time) => {
                    self.missing = Some(Instant::now() + time);
                    self.late = event.rv();
                    None
                }
            }
        })
    }

    /// The version after which a fault withholds events that it delivers later, from which the watch then goes on.
    pub(super) fn withheld_after(&self) -> Option<ResourceVersion> {
        self.missing.and(self.late).map(|rv| rv.before(1))
    }

    fn meet(&self, event: &WatchEvent) -> Option<EventEffect> {
        let (Some((faults, watch)), WatchEvent::Change { event, .. }) = (&self.faults, event)
        else {
            return None;
        };
        // A late event has met its fault.
        if self.late == Some(event.rv) {
            return None;
        }
        let key = event.object.key.as_str();
        let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
        faults.meet_event(watch, (name, event.event_type, event.rv))
    }

    /// Whether events are withheld at `now`, since a fault has struck.
    pub(super) fn missing(&mut self, now: Instant) -> Missing {
        match self.missing {
            None => Missing::Nothing,
            Some(until) if now < until => Missing::Withheld,
            Some(_) => {
                self.missing = None;
                match self.late {
                    Some(_) => Missing::Nothing,
                    None => Missing::Over,
                }
            }
        }
    }

    /// The time at which a fault changes what the watch sees, if one will.
    pub(super) fn wake_time(&self, view: View) -> Option<Instant> {
        let batch = self.batch.map(|(_, due)| due);
        let ends = self.faults.as_ref().zip(view.ends);
        let ends = ends.map(|((faults, _), ends)| Instant::now() + faults.until(ends));
        [batch, ends, self.missing].into_iter().flatten().min()
    }
}
