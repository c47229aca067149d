//! Watch streams: a cursor into a table's window, woken by its notifier.
//!
//! A watch holds no queue. A watch that falls behind the window ends with a 410 Expired event.
//!
//! An event passes these stages, each a file:
//! - [`state`]: the protocol, an enum. Each state knows what to deliver and which state follows.
//! - [`conversion`]: a webhook converts the objects of custom resources.
//! - [`faults`]: faults of tests hold the stream, break it off, or replace an event.
//! - [`pace`]: a moment passes before a deletion, on a server with a pace.
//! - [`encoder`]: the event becomes a line of JSON or a frame of protobuf.
//!
//! [`Watch`] drives the stages, and waits for changes and for the times of the [`schedule`].

mod conversion;
mod encoder;
mod faults;
mod pace;
mod schedule;
mod state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::body::Dropped;
use super::negotiation::MediaType;
use super::pace::Pacer;
use super::selectors::Selection;
use crate::clock::Clock;
use crate::fault::{self, Faults, Turn, View};
use crate::json::Value;
use crate::meta::GroupVersionKind;
use crate::meta::ResourceVersion;
use crate::metrics::WatchMeter;
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;
use crate::storage::{ControlCounts, SelectedEvent, Subscription, Table, WindowError};
use crate::webhook::OwnedWebhookClient;
use conversion::Converter;
use encoder::Encoder;
use faults::{Missing, WatchFaults};
use pace::{Changed, WatchPace};
use schedule::Schedule;
pub(crate) use state::expired;
use state::{Advance, Source, State, WatchEvent};

/// The annotation of the bookmark that follows the last of the initial objects (KEP-3157).
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Upstream sends a bookmark about once a minute to those who allow it.
pub(crate) const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// Turns objects into the client's representation.
pub(crate) struct Render {
    /// A text that representations have in common if they show every object alike at one time.
    pub(crate) name: String,
    /// The clock that ages are shown by, in whole seconds.
    pub(crate) clock: Clock,
    /// Turns an object into its representation at a time; `None` when it cannot be represented. The flag says whether
    /// it is the first of the stream.
    pub(crate) show: Show,
}

type Show = Box<dyn Fn(&Value, Timestamp, bool) -> Option<Value> + Send + Sync>;

/// The first events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The events after a version.
    After(ResourceVersion),
    /// The events from now on.
    Now,
    /// The present objects as ADDED, once the version is reached.
    Present {
        /// The least version to wait for; zero for any.
        not_older_than: ResourceVersion,
        /// Whether any version will do, however old.
        any: bool,
        /// Whether a bookmark marks the end of the present objects.
        ends_with_bookmark: bool,
    },
}

/// The objects that a watch delivers, and where it starts.
pub(crate) struct WatchRequest {
    pub(crate) table: Arc<Table>,
    /// The resource in whose version objects are shown.
    pub(crate) resource: Arc<ResourceInfo>,
    pub(crate) selection: Selection,
    /// The scope of the watch, as metrics call it.
    pub(crate) scope: &'static str,
    pub(crate) start: Start,
    pub(crate) bookmarks: bool,
    /// The period of bookmarks while nothing else is delivered.
    pub(crate) bookmark_period: Duration,
    /// The object of a bookmark of a kind, without its version.
    pub(crate) bookmark: fn(&GroupVersionKind) -> Value,
    /// Zero ends the watch after the present objects.
    pub(crate) timeout: Duration,
    /// `None` shows objects as they are.
    pub(crate) render: Option<Render>,
    /// How events are encoded: JSON or protobuf.
    pub(crate) media: MediaType,
    /// The client for conversion webhooks; `None` where objects need no conversion.
    pub(crate) client: Option<OwnedWebhookClient>,
    /// The faults of the server, and the request of the watch as they see it.
    pub(crate) faults: Option<(Faults, fault::RequestFacts)>,
    /// Keeps the pace; `None` on a server that responds at once.
    pub(crate) pacer: Option<Arc<Pacer>>,
    pub(crate) meter: WatchMeter,
}

/// An encoded event, or a break that ends the stream.
struct Line {
    frame: Result<Bytes, Dropped>,
    /// The change that the line shows, on a server with a pace.
    changed: Option<Changed>,
}

impl Line {
    /// A line for which nothing waits.
    fn new(frame: Bytes) -> Self {
        Self {
            frame: Ok(frame),
            changed: None,
        }
    }
}

/// Drives a watch: advances its state, passes events through the stages, and waits.
struct Watch {
    table: Arc<Table>,
    /// Wakes upon events of the table.
    changed: Arc<Notify>,
    /// The subscription to the selected objects; `None` where events are selected one by one.
    subscription: Option<Subscription>,
    /// The requests of [`Table::control_watches`] that are handled.
    controls: ControlCounts,
    state: State,
    selection: Arc<Selection>,
    converter: Converter,
    faults: WatchFaults,
    encoder: Encoder,
    pace: WatchPace,
    /// Encoded events of the latest batch, and perhaps the break that ends the stream.
    pending: VecDeque<Line>,
    schedule: Schedule,
    began: Instant,
    scope: &'static str,
    meter: WatchMeter,
}

/// The stream of a watch's lines. Dropping it ends the watch; nothing else is held for it.
pub(crate) fn stream(request: WatchRequest) -> impl Stream<Item = Result<Bytes, Dropped>> + Send {
    // Boxed, as the stream moves it for each line.
    futures::stream::unfold(Box::new(Watch::new(request)), |mut watch| async {
        let frame = watch.next().await?;
        if let Ok(frame) = &frame {
            watch.meter.sent(frame.len());
        }
        Some((frame, watch))
    })
}

impl Watch {
    fn new(request: WatchRequest) -> Self {
        let (now, table, resource) = (Instant::now(), request.table, request.resource);
        let faults = WatchFaults::new(request.faults);
        let period = request.bookmarks.then_some(request.bookmark_period);
        let representation = (request.render, request.media);
        let selection = Arc::new(request.selection);
        // The pace of writes follows watches that read every event.
        let subscribes = !selection.is_everything() && selection.reads_stored();
        let subscription = (subscribes && request.pacer.is_none())
            .then(|| Subscription::new(Arc::clone(&table), Arc::clone(&selection) as _));
        let mut watch = Self {
            changed: table.changed(),
            subscription,
            controls: table.control_counts(),
            state: State::start(faults.start(request.start, &table), &table, now),
            selection,
            converter: Converter {
                resource: Arc::clone(&resource),
                client: request.client,
            },
            faults,
            pace: WatchPace::new(request.pacer, &table),
            encoder: Encoder::new(
                (resource, Arc::clone(&table)),
                request.bookmark,
                representation,
            ),
            pending: VecDeque::new(),
            schedule: Schedule::new(now, request.timeout, period),
            began: now,
            scope: request.scope,
            meter: request.meter,
            table,
        };
        // The present objects are those at the time of the request.
        if matches!(watch.state, State::Waiting { .. }) {
            watch.advance_state(watch.faults.view(), now);
        }
        watch
    }

    /// Returns the next line; `None` at the end, or for an event that cannot be encoded, as a
    /// failing encoder ends the stream upstream.
    async fn next(&mut self) -> Option<Result<Bytes, Dropped>> {
        loop {
            if self.faults.let_deliver().await == Turn::BreakOff {
                return self.break_off();
            }
            let controls = self.table.control_counts();
            if controls.drops > self.controls.drops {
                self.controls = controls;
                return self.break_off();
            }
            if controls.closes > self.controls.closes {
                return None;
            }
            if controls.expires > self.controls.expires {
                self.controls = controls;
                self.pending.clear();
                let error = compacted(&self.table, self.state.rv());
                self.state = State::Ended;
                return self.encoder.encode(&WatchEvent::Error(error)).map(Ok);
            }
            if let Some(line) = self.ready().await {
                return line;
            }
            if matches!(self.state, State::Ended) || self.schedule.is_over(Instant::now()) {
                return None;
            }
            let view = self.faults.view();
            // Waits before reading: a commit after the read wakes the wait below.
            let changed = self.changed(view);
            let mut changed = std::pin::pin!(changed.notified());
            changed.as_mut().enable();
            let distorting = self.faults.distorting(view);
            let mut lifted = std::pin::pin!(async {
                match &distorting {
                    Some(faults) => faults.lifted().await,
                    None => std::future::pending().await,
                }
            });
            // The first poll is what registers for the wake-up.
            if futures::poll!(lifted.as_mut()).is_ready() {
                continue;
            }
            // A retired table gets no more writes, so a read after this check sees all.
            let retired = self.table.is_retired();
            if self.table.control_counts() != controls || self.advance(view).await {
                continue;
            }
            if retired {
                return None;
            }
            let bookmarks = self.schedule.has_bookmarks() && !view.withholds_bookmarks;
            if controls.bookmarks > self.controls.bookmarks {
                self.controls = controls;
                if bookmarks {
                    return self.bookmark().map(Ok);
                }
            }
            let wake = self.wake_time(view);
            tokio::select! {
                biased;
                () = changed => {}
                () = lifted => {}
                () = tokio::time::sleep_until(wake) => {
                    let is_waiting = matches!(self.state, State::Waiting { .. });
                    if !is_waiting && self.schedule.take_bookmark(wake) && bookmarks {
                        self.pass_unselected(view);
                        return self.bookmark().map(Ok);
                    }
                }
            }
        }
    }

    /// The notifier of the events that can change what the watch sees under `view`.
    fn changed(&self, view: View) -> Arc<Notify> {
        match &self.subscription {
            // A version to wait for may be that of any object, and so may the writes of a lag.
            Some(subscription)
                if view == View::default() && !matches!(self.state, State::Waiting { .. }) =>
            {
                subscription.changed()
            }
            _ => Arc::clone(&self.changed),
        }
    }

    /// Passes over events that are not selected, of which a subscription says nothing.
    fn pass_unselected(&mut self, view: View) {
        if let Some(subscription) = &self.subscription
            && view == View::default()
        {
            self.state.pass_unselected(subscription);
        }
    }

    /// Ends the stream as a connection that breaks does.
    fn break_off(&mut self) -> Option<Result<Bytes, Dropped>> {
        self.state = State::Ended;
        self.pending.clear();
        Some(Err(Dropped))
    }

    /// Returns the next line that needs no waiting; `Some(None)` when it cannot be encoded.
    async fn ready(&mut self) -> Option<Option<Result<Bytes, Dropped>>> {
        if let Some(line) = self.pending.front() {
            if let Some(changed) = &line.changed {
                self.pace.hold(changed).await;
            }
            return Some(self.pending.pop_front().map(|line| line.frame));
        }
        if let State::Initial { objects, .. } = &self.state
            && let Err(error) = self.converter.convert_first(objects.as_slice()).await
        {
            self.state = State::Ended;
            return Some(self.encoder.encode(&WatchEvent::Error(error)).map(Ok));
        }
        let event = self.state.take_initial()?;
        let line = self.encoder.encode(&event);
        if matches!(event, WatchEvent::Bookmark { .. }) {
            self.meter.listed(self.scope);
        }
        Some(line.map(Ok))
    }

    /// Reads on; returns whether there may be something to deliver now.
    async fn advance(&mut self, view: View) -> bool {
        let now = Instant::now();
        match self.faults.missing(now) {
            Missing::Nothing => {}
            Missing::Withheld => return false,
            Missing::Over => {
                let error = compacted(&self.table, self.state.rv());
                self.deliver_last(error);
                return true;
            }
        }
        match self.advance_state(view, now) {
            Advance::Idle => {
                if matches!(self.state, State::Streaming { .. }) {
                    self.pace.delivered(self.state.rv());
                }
                return false;
            }
            Advance::Listed { .. } => {}
            Advance::Failed { error, .. } => self.deliver_last(error),
            Advance::Batch { after, events, .. } => {
                let objects = events.iter().flat_map(|own| own.event.versions());
                match self.converter.convert(objects).await {
                    Ok(()) => self.deliver_batch(after, events),
                    Err(error) => self.deliver_last(error),
                }
            }
        }
        true
    }

    /// Takes a step of the state machine, and counts what it has found.
    fn advance_state(&mut self, view: View, now: Instant) -> Advance {
        let horizon = match self.state {
            State::Streaming { .. } => self.faults.horizon(view, &self.table, now),
            _ => None,
        };
        let source = Source {
            table: &self.table,
            selection: &self.selection,
            subscription: self.subscription.as_ref(),
            lag: view.lag,
            horizon,
        };
        let advance = self.state.advance(source, now);
        match &advance {
            Advance::Listed {
                examined,
                was_awaited,
            } => {
                if *was_awaited {
                    self.meter.fresh(self.began.elapsed());
                }
                self.meter.began_with(*examined);
            }
            Advance::Batch { past, .. } => self.meter.began_with(*past),
            Advance::Failed {
                fell_behind: true, ..
            } => self.meter.terminated(),
            Advance::Failed { .. } | Advance::Idle => {}
        }
        advance
    }

    /// Delivers `events`, which follow version `after`, as far as faults let them pass.
    fn deliver_batch(&mut self, after: ResourceVersion, events: Vec<SelectedEvent>) {
        let selected = events.into_iter().map(|own| WatchEvent::Change {
            event_type: own.event_type,
            event: own.event,
        });
        let expired = || compacted(&self.table, after);
        for event in self.faults.strike(selected, expired) {
            let is_last = !matches!(event, Ok(WatchEvent::Change { .. }));
            let changed = event
                .as_ref()
                .ok()
                .and_then(|event| self.pace.changed(event));
            let frame = event.map(|event| self.encoder.encode(&event)).transpose();
            if is_last || frame.is_none() {
                self.state = State::Ended;
            }
            match frame {
                Some(frame) => self.pending.push_back(Line { frame, changed }),
                None => break,
            }
        }
        if let (Some(withheld_after), State::Streaming { rv, .. }) =
            (self.faults.withheld_after(), &mut self.state)
        {
            *rv = withheld_after;
        }
    }

    /// Delivers the last event.
    fn deliver_last(&mut self, error: ApiError) {
        self.state = State::Ended;
        let line = self.encoder.encode(&WatchEvent::Error(error));
        self.pending.extend(line.map(Line::new));
    }

    /// A bookmark at the present version.
    fn bookmark(&mut self) -> Option<Bytes> {
        let rv = self.state.rv();
        self.encoder.encode(&WatchEvent::Bookmark {
            rv,
            ends_initial_events: false,
        })
    }

    /// The time until which nothing happens but changes.
    fn wake_time(&self, view: View) -> Instant {
        let wait = match self.state {
            State::Waiting { until, .. } => until,
            _ => self.schedule.next(),
        };
        let wake = self
            .faults
            .wake_time(view)
            .map_or(wait, |own| own.min(wait));
        wake.min(self.schedule.deadline())
    }
}

/// The error of a watch whose version `rv` was compacted.
fn compacted(table: &Table, rv: ResourceVersion) -> ApiError {
    let compacted = table.snapshot().rv;
    expired(rv, WindowError::Expired { compacted })
}
