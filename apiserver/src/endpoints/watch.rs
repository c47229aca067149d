//! Watch streams: a cursor into a table's window, woken by its notifier.
//!
//! A watch holds no queue. A watch that falls behind the window ends with a 410 Expired event.

mod line;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::body::Dropped;
use super::handlers::list::Selectors;
use super::negotiation::MediaType;
use crate::fault::{self, EventEffect, Faults, Turn, View};
use crate::meta::GroupVersionKind;
use crate::metrics::WatchMeter;
use crate::registry::catalog::ResourceInfo;
use crate::schema::protobuf;
use crate::status::ApiError;
use crate::storage::{Asked, Event, EventType, StoredObject, Table, WindowError, watch_frame};
use crate::webhook::OwnedCaller;
pub(crate) use line::expired;
use line::frame;

/// The annotation of the bookmark that follows the last of the initial objects (KEP-3157).
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Upstream sends a bookmark about once a minute to those who allow it.
pub(crate) const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the watch times out, for the client to resume from.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Events taken from the window at a time.
const EVENTS_MAX: usize = 256;

/// The time for which a watch waits for a version that does not exist yet.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// The maximum duration of a watch, whatever its client asks for.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Turns an object into the client's representation; `None` when it cannot be represented. The flag
/// says whether it is the first of the stream.
pub(crate) type Render = Arc<dyn Fn(&Value, bool) -> Option<Value> + Send + Sync>;

/// The first events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The events after a version.
    After(u64),
    /// The events from now on.
    Now,
    /// The present objects as ADDED, once the version is reached.
    Present {
        /// The least version to wait for; 0 for any.
        not_older_than: u64,
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
    pub(crate) namespace: Option<String>,
    pub(crate) selectors: Selectors,
    /// The scope of the watch, as metrics call it.
    pub(crate) scope: &'static str,
    pub(crate) start: Start,
    pub(crate) bookmarks: bool,
    /// The period of bookmarks while nothing else is delivered.
    pub(crate) bookmark_period: Duration,
    /// The object of a bookmark of a kind, without its version.
    pub(crate) bookmark: fn(&GroupVersionKind) -> Value,
    /// Zero ends the watch before it has begun.
    pub(crate) timeout: Duration,
    /// `None` shows objects as they are.
    pub(crate) render: Option<Render>,
    /// How events are encoded: JSON or protobuf.
    pub(crate) media: MediaType,
    /// The client for conversion webhooks; `None` where objects need no conversion.
    pub(crate) caller: Option<OwnedCaller>,
    /// The faults of the server, and the request of the watch as they see it.
    pub(crate) faults: Option<(Faults, fault::Asked)>,
    pub(crate) meter: WatchMeter,
}

struct Cursor {
    request: WatchRequest,
    /// The version up to which all events have been inspected.
    rv: u64,
    /// The version that the table had when the watch began: older events were there before.
    began: u64,
    /// The time at which the watch began.
    since: Instant,
    /// Whether the window has had all that the watch missed; if it has not then, the watch is slow.
    keeps_up: bool,
    changed: Arc<Notify>,
    asked: Asked,
    /// Objects still to be delivered before any event.
    initial: std::vec::IntoIter<Arc<StoredObject>>,
    /// The version up to which events may be shown, where they have to be converted first.
    converted: Option<u64>,
    /// A version to wait for before there are initial objects, and how long.
    awaited: Option<(u64, Instant)>,
    bookmark_due: bool,
    frames: VecDeque<Bytes>,
    deadline: Instant,
    next_bookmark: Instant,
    /// While a fault delivers in batches: the last version of this batch, and the time of the next.
    batch: Option<(u64, Instant)>,
    /// The time at which the watch ends as expired, if a fault withholds events.
    missing: Option<Instant>,
    /// Whether the connection breaks off after the lines that are ready.
    breaks: bool,
    first: bool,
    ended: bool,
}

/// The stream of a watch's lines. Dropping it ends the watch; nothing else is held for it.
pub(crate) fn stream(request: WatchRequest) -> impl Stream<Item = Result<Bytes, Dropped>> + Send {
    // Boxed, as the stream moves it for each line.
    futures::stream::unfold(Box::new(Cursor::new(request)), |mut cursor| async {
        let frame = cursor.next().await?;
        if let Ok(frame) = &frame {
            cursor.request.meter.sent(frame.len());
        }
        Some((frame, cursor))
    })
}

/// The time of the bookmark after `now`: the last one is due before the deadline.
fn next_bookmark(now: Instant, deadline: Instant, period: Duration) -> Instant {
    let last = deadline
        .checked_sub(LAST_BOOKMARK)
        .filter(|last| *last > now);
    (now + period).min(last.unwrap_or(deadline))
}

impl Cursor {
    fn new(request: WatchRequest) -> Self {
        let now = Instant::now();
        let deadline = now + request.timeout.min(TIMEOUT_MAX);
        let mut cursor = Self {
            rv: 0,
            began: request.table.facts().rv,
            since: now,
            keeps_up: false,
            changed: request.table.changed(),
            asked: request.table.asked(),
            initial: Vec::new().into_iter(),
            converted: None,
            awaited: None,
            bookmark_due: false,
            frames: VecDeque::new(),
            deadline,
            next_bookmark: next_bookmark(now, deadline, request.bookmark_period),
            batch: None,
            missing: None,
            breaks: false,
            first: true,
            ended: request.timeout.is_zero(),
            request,
        };
        match cursor.request.start {
            Start::After(rv) => cursor.rv = cursor.resumed_after(rv),
            Start::Now => {
                let current = cursor.request.table.snapshot().rv;
                cursor.rv = current.saturating_sub(cursor.view().lag);
            }
            Start::Present { not_older_than, .. } => {
                cursor.awaited = Some((not_older_than, now + FRESHNESS_WAIT));
                cursor.take_present();
            }
        }
        cursor
    }

    /// How faults let it see the server.
    fn view(&self) -> View {
        let faults = self.request.faults.as_ref();
        faults.map_or_else(View::default, |(faults, watch)| faults.view(watch))
    }

    /// The version after which a watch begins that resumes after `rv`: earlier if a fault repeats
    /// events.
    fn resumed_after(&self, rv: u64) -> u64 {
        let faults = self.request.faults.as_ref();
        match faults.map_or(0, |(faults, watch)| faults.meet_resumption(watch)) {
            0 => rv,
            events => self.request.table.version_before(rv, events as usize),
        }
    }

    /// The version up to which `view` shows events.
    fn horizon(&mut self, view: View) -> Option<u64> {
        if view == View::default() {
            self.batch = None;
            return None;
        }
        let current = self.request.table.snapshot().rv;
        let now = Instant::now();
        let due = |(_, due): &(u64, Instant)| *due <= now;
        match view.batch {
            Some(period) if self.batch.as_ref().is_none_or(due) => {
                self.batch = Some((current, now + period));
            }
            Some(_) => {}
            None => self.batch = None,
        }
        let batch = self.batch.map_or(current, |(rv, _)| rv);
        Some(batch.min(current.saturating_sub(view.lag)))
    }

    /// Takes the present objects, unless they are older than the version awaited.
    fn take_present(&mut self) {
        let Some((awaited, _)) = self.awaited else {
            return;
        };
        let mut snapshot = self.request.table.snapshot();
        if snapshot.rv < awaited {
            return;
        }
        let lag = self.view().lag;
        if lag > 0 && matches!(self.request.start, Start::Present { any: true, .. }) {
            snapshot = self.request.table.snapshot_behind(lag);
        }
        let namespace = self.request.namespace.as_deref();
        let mut present = 0;
        let selected: Vec<_> = snapshot
            .range(namespace, None)
            .inspect(|_| present += 1)
            .filter(|object| self.request.selectors.matches(namespace, object))
            .cloned()
            .collect();
        if awaited > 0 {
            self.request.meter.fresh(self.since.elapsed());
        }
        self.request.meter.began_with(present);
        self.rv = snapshot.rv;
        self.began = snapshot.rv;
        self.initial = selected.into_iter();
        self.bookmark_due = matches!(
            self.request.start,
            Start::Present {
                ends_with_bookmark: true,
                ..
            }
        );
        self.awaited = None;
    }

    async fn next(&mut self) -> Option<Result<Bytes, Dropped>> {
        loop {
            if let Some((faults, watch)) = &self.request.faults
                && faults.let_deliver(watch).await == Turn::BreakOff
            {
                self.ended = true;
                return Some(Err(Dropped));
            }
            let asked = self.request.table.asked();
            if asked.drops > self.asked.drops {
                self.asked = asked;
                self.ended = true;
                return Some(Err(Dropped));
            }
            if asked.closes > self.asked.closes {
                return None;
            }
            if let Err(error) = self.convert().await {
                self.fail(&error);
                return self.frames.pop_back().map(Ok);
            }
            // A line that cannot be made ends the stream, as a failing encoder does upstream.
            if let Some(frame) = self.ready() {
                return frame.map(Ok);
            }
            if std::mem::take(&mut self.breaks) {
                self.ended = true;
                return Some(Err(Dropped));
            }
            if self.ended || Instant::now() >= self.deadline {
                return None;
            }
            // Waits before reading: a commit after the read wakes the wait below.
            let changed = Arc::clone(&self.changed);
            let mut changed = std::pin::pin!(changed.notified());
            changed.as_mut().enable();
            // Rules that end otherwise than in time matter to those who feel them.
            let view = self.view();
            let faults = self.request.faults.as_ref();
            let faults = faults.filter(|_| view != View::default());
            let faults = faults.map(|(faults, _)| faults.clone());
            let mut lifted = std::pin::pin!(async {
                match &faults {
                    Some(faults) => faults.lifted().await,
                    None => std::future::pending().await,
                }
            });
            // The first poll is what registers for the wake-up.
            if futures::poll!(lifted.as_mut()).is_ready() {
                continue;
            }
            // A retired table gets no more writes, so a read after this check sees all.
            let retired = self.request.table.is_retired();
            if self.request.table.asked() != asked || self.advance() {
                continue;
            }
            if retired {
                return None;
            }
            let bookmarks = self.request.bookmarks && !view.withholds_bookmarks;
            if asked.bookmarks > self.asked.bookmarks {
                self.asked = asked;
                if bookmarks {
                    return self.bookmark(false).map(Ok);
                }
            }
            let wake = self.wake_time(view);
            tokio::select! {
                biased;
                () = changed => {}
                () = lifted => {}
                () = tokio::time::sleep_until(wake) => {
                    if wake == self.next_bookmark && wake < self.deadline && self.awaited.is_none()
                    {
                        let period = self.request.bookmark_period;
                        self.next_bookmark = next_bookmark(wake, self.deadline, period);
                        if bookmarks {
                            return self.bookmark(false).map(Ok);
                        }
                    }
                }
            }
        }
    }

    /// Has a webhook convert the next objects to deliver.
    ///
    /// Cancel safety: nothing is taken from the window or from the initial objects.
    async fn convert(&mut self) -> Result<(), ApiError> {
        let (Some(caller), Some(conversion)) =
            (&self.request.caller, self.request.resource.conversion())
        else {
            return Ok(());
        };
        let (events, reached) = match self.awaited {
            // Without initial objects there are no events yet.
            Some(_) => (Vec::new(), self.rv),
            None => match self.request.table.events_after(self.rv, EVENTS_MAX) {
                Ok(read) => read,
                Err(_) => (Vec::new(), self.rv),
            },
        };
        loop {
            let misses = conversion.misses();
            let initial = self.initial.as_slice().iter();
            let events = events.iter();
            let of_events = events.flat_map(|event| [Some(&event.object), event.previous.as_ref()]);
            for object in initial.map(Some).chain(of_events).flatten() {
                drop(self.request.resource.shown(&object.value()));
            }
            if conversion.misses() == misses {
                break;
            }
            conversion.fill(&caller.caller()).await?;
        }
        self.converted = Some(reached);
        Ok(())
    }

    /// The next line that needs no waiting; `Some(None)` when it cannot be made.
    fn ready(&mut self) -> Option<Option<Bytes>> {
        if let Some(object) = self.initial.next() {
            return Some(self.frame_of(EventType::Added, &object));
        }
        if std::mem::take(&mut self.bookmark_due) {
            let bookmark = self.bookmark(true);
            self.request.meter.listed(self.request.scope);
            return Some(bookmark);
        }
        self.frames.pop_front().map(Some)
    }

    /// Reads on from the window; whether there may be something to deliver now.
    fn advance(&mut self) -> bool {
        if let Some((awaited, until)) = self.awaited {
            self.take_present();
            let waits = self.awaited.is_some();
            if waits && Instant::now() >= until {
                let current = self.request.table.snapshot().rv;
                self.fail(&expired(awaited, WindowError::Future { current }));
                return true;
            }
            return !waits;
        }
        if let Some(until) = self.missing {
            let is_over = Instant::now() >= until;
            if is_over {
                self.missing = None;
                self.expire();
            }
            return is_over;
        }
        let horizon = self.horizon(self.view());
        match self.request.table.events_after(self.rv, EVENTS_MAX) {
            Ok((mut events, mut reached)) => {
                self.keeps_up = true;
                if let Some(shown) = self.converted.into_iter().chain(horizon).min() {
                    events.retain(|event| event.rv <= shown);
                    reached = reached.min(shown).max(self.rv);
                }
                for event in &events {
                    match self.deliver(event) {
                        Delivery::Unselected => {}
                        Delivery::Line(frame) if self.arrives(event) => {
                            self.frames.push_back(frame);
                        }
                        Delivery::Line(_) => break,
                        Delivery::Impossible => {
                            self.ended = true;
                            break;
                        }
                    }
                }
                if self.rv < self.began {
                    let before = events.iter().take_while(|event| event.rv <= self.began);
                    self.request.meter.began_with(before.count());
                }
                self.rv = reached;
                !events.is_empty()
            }
            Err(error) => {
                if self.keeps_up {
                    self.request.meter.terminated();
                }
                self.fail(&expired(self.rv, error));
                true
            }
        }
    }

    /// Whether a fault lets the line of an event reach the client. If not, no later line does.
    fn arrives(&mut self, event: &Event) -> bool {
        let Some((faults, watch)) = &self.request.faults else {
            return true;
        };
        let key = event.object.key.as_str();
        let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
        match faults.meet_event(watch, (name, event.event_type, event.rv)) {
            None => return true,
            Some(EventEffect::Break) => self.breaks = true,
            Some(EventEffect::Expire) => self.expire(),
            Some(EventEffect::Miss(time)) => self.missing = Some(Instant::now() + time),
        }
        false
    }

    /// Ends as a watch does whose version was compacted.
    fn expire(&mut self) {
        let compacted = self.request.table.snapshot().rv;
        self.fail(&expired(self.rv, WindowError::Expired { compacted }));
    }

    fn fail(&mut self, error: &ApiError) {
        self.awaited = None;
        self.ended = true;
        let frame = frame("ERROR", &error.to_status(), self.request.media);
        self.frames
            .push_back(frame.expect("a Status has a message"));
    }

    fn wake_time(&self, view: View) -> Instant {
        let wait = match self.awaited {
            Some((_, until)) => until,
            None if self.request.bookmarks => self.next_bookmark,
            None => self.deadline,
        };
        let batch = self.batch.map(|(_, due)| due);
        let faults = self.request.faults.as_ref().zip(view.ends);
        let ends = faults.map(|((faults, _), ends)| Instant::now() + faults.until(ends));
        let others = [batch, ends, self.missing];
        let earliest = others.into_iter().flatten().fold(wait, Instant::min);
        earliest.min(self.deadline)
    }

    /// The line for `event`, if it is one for this watch: a selector turns changes into
    /// arrivals and departures.
    fn deliver(&mut self, event: &Event) -> Delivery {
        let selects = |object: &StoredObject| {
            self.request
                .selectors
                .matches(self.request.namespace.as_deref(), object)
        };
        let now = event.event_type != EventType::Deleted && selects(&event.object);
        let before = event
            .previous
            .as_ref()
            .is_some_and(|previous| selects(previous));
        let event_type = match (before, now) {
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
            (false, false) => return Delivery::Unselected,
        };
        let line = if event_type == EventType::Deleted && event.event_type != EventType::Deleted {
            // It left the selection: upstream shows the state that was last in it, at this version.
            let previous = event.previous.as_ref().expect("it was selected before");
            let mut value = self.request.resource.shown(&previous.value()).into_owned();
            value["metadata"]["resourceVersion"] = event.rv.to_string().into();
            let departed = StoredObject::new(previous.key.clone(), event.rv, value);
            self.frame_of(event_type, &departed)
        } else if event_type == event.event_type && self.shows_stored(&event.object) {
            match self.request.media {
                MediaType::Protobuf => event.protobuf_frame(),
                MediaType::Json | MediaType::Yaml => Some(event.frame()),
            }
        } else {
            self.frame_of(event_type, &event.object)
        };
        line.map_or(Delivery::Impossible, Delivery::Line)
    }

    /// Whether the client sees the very bytes that storage holds.
    fn shows_stored(&self, object: &StoredObject) -> bool {
        let resource = &self.request.resource;
        let unchanged = || matches!(resource.shown(&object.value()), Cow::Borrowed(_));
        self.request.render.is_none() && (resource.shows_as_stored() || unchanged())
    }

    fn frame_of(&mut self, event_type: EventType, object: &StoredObject) -> Option<Bytes> {
        if self.shows_stored(object) {
            let event_type = event_type.as_str();
            return match self.request.media {
                MediaType::Protobuf => {
                    let document = object.protobuf()?.bytes();
                    Some(protobuf::watch_frame(event_type, &document))
                }
                MediaType::Json | MediaType::Yaml => Some(watch_frame(event_type, &object.json())),
            };
        }
        let resource = Arc::clone(&self.request.resource);
        self.line(event_type.as_str(), &resource.shown(&object.value()))
    }

    fn bookmark(&mut self, ends_initial_events: bool) -> Option<Bytes> {
        let mut object = (self.request.bookmark)(self.request.resource.gvk());
        object["metadata"]["resourceVersion"] = self.rv.to_string().into();
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        self.line("BOOKMARK", &object)
    }

    fn line(&mut self, event_type: &str, object: &Value) -> Option<Bytes> {
        let first = std::mem::take(&mut self.first);
        match &self.request.render {
            None => frame(event_type, object, self.request.media),
            Some(render) => frame(event_type, &render(object, first)?, self.request.media),
        }
    }
}

/// The outcome of an event for a watch.
enum Delivery {
    /// Nothing.
    Unselected,
    /// A line.
    Line(Bytes),
    /// The end: the object cannot be shown as the client wants it.
    Impossible,
}
