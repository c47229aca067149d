//! Watch streams: a cursor into a table's window, woken by its notifier.
//!
//! A watch holds no queue. One that falls behind the window ends with a 410 Expired event.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::handlers::list::Selectors;
use crate::meta::GroupVersionKind;
use crate::status::ApiError;
use crate::storage::{Event, EventType, StoredObject, Table, WindowError, watch_frame};

/// Upstream sends a bookmark about once a minute to those who allow it.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// And one this long before the watch times out, for the client to resume from.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Events taken from the window at a time.
const EVENTS_MAX: usize = 256;

/// Turns an object into what the client wants to see of it; `None` for the object itself.
pub(crate) type Render = Arc<dyn Fn(&StoredObject, bool) -> Value + Send + Sync>;

/// What a watch delivers, and from where on.
pub(crate) struct WatchRequest {
    pub(crate) table: Arc<Table>,
    pub(crate) gvk: GroupVersionKind,
    pub(crate) namespace: Option<String>,
    pub(crate) selectors: Selectors,
    /// The version after which events are delivered.
    pub(crate) rv: u64,
    /// Objects to deliver as ADDED first.
    pub(crate) initial: Vec<Arc<StoredObject>>,
    /// Ask for the bookmark that ends the initial events.
    pub(crate) ends_initial_events: bool,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Duration,
    pub(crate) render: Option<Render>,
}

struct Cursor {
    request: WatchRequest,
    changed: Arc<Notify>,
    frames: VecDeque<Bytes>,
    deadline: Instant,
    next_bookmark: Instant,
    first: bool,
    ended: bool,
}

/// The stream of a watch's lines. Dropping it ends the watch; nothing else is held for it.
pub(crate) fn stream(mut request: WatchRequest) -> impl Stream<Item = Bytes> + Send {
    let now = Instant::now();
    let initial = std::mem::take(&mut request.initial);
    let mut cursor = Cursor {
        changed: request.table.changed(),
        frames: VecDeque::new(),
        deadline: now + request.timeout,
        next_bookmark: next_bookmark(now, now + request.timeout),
        first: true,
        ended: false,
        request,
    };
    for object in &initial {
        let frame = cursor.frame_of(EventType::Added, object);
        cursor.frames.push_back(frame);
    }
    if cursor.request.ends_initial_events {
        let annotations = json!({ "k8s.io/initial-events-end": "true" });
        let frame = cursor.bookmark(Some(annotations));
        cursor.frames.push_back(frame);
    }
    futures::stream::unfold(cursor, |mut cursor| async {
        let frame = cursor.next().await?;
        Some((frame, cursor))
    })
}

/// The time of the bookmark after `now`: the last one is due before the deadline.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline
        .checked_sub(LAST_BOOKMARK)
        .filter(|last| *last > now);
    (now + BOOKMARK_PERIOD).min(last.unwrap_or(deadline))
}

impl Cursor {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            // Waits before reading: a commit after the read wakes the wait below.
            let changed = Arc::clone(&self.changed);
            let mut changed = std::pin::pin!(changed.notified());
            changed.as_mut().enable();
            match self.request.table.events_after(self.request.rv, EVENTS_MAX) {
                Ok((events, reached)) => {
                    for event in &events {
                        if let Some(frame) = self.deliver(event) {
                            self.frames.push_back(frame);
                        }
                    }
                    self.request.rv = reached;
                    if !events.is_empty() {
                        continue;
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return Some(error_frame(&expired(self.request.rv, error)));
                }
            }
            let bookmark = self.request.bookmarks.then_some(self.next_bookmark);
            let wake = bookmark.map_or(self.deadline, |at| at.min(self.deadline));
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(wake) => {
                    if wake == self.deadline {
                        return None;
                    }
                    self.next_bookmark = next_bookmark(self.next_bookmark, self.deadline);
                    return Some(self.bookmark(None));
                }
            }
        }
    }

    /// The line for `event`, if it is one for this watch: a selector turns changes into
    /// arrivals and departures.
    fn deliver(&mut self, event: &Event) -> Option<Bytes> {
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
            (false, false) => return None,
        };
        if event_type == EventType::Deleted && event.event_type != EventType::Deleted {
            // It left the selection: upstream shows the state that was last in it, at this version.
            let previous = event.previous.as_ref().expect("it was selected before");
            let mut value = (*previous.value).clone();
            value["metadata"]["resourceVersion"] = event.rv.to_string().into();
            let departed = StoredObject::new(previous.key.clone(), event.rv, value);
            return Some(self.frame_of(event_type, &departed));
        }
        if event_type == event.event_type && self.request.render.is_none() {
            return Some(event.frame());
        }
        Some(self.frame_of(event_type, &event.object))
    }

    fn frame_of(&mut self, event_type: EventType, object: &StoredObject) -> Bytes {
        let first = std::mem::take(&mut self.first);
        match &self.request.render {
            None => watch_frame(event_type, &object.json()),
            Some(render) => frame(event_type.as_str(), &render(object, first)),
        }
    }

    fn bookmark(&self, annotations: Option<Value>) -> Bytes {
        let mut metadata = json!({ "resourceVersion": self.request.rv.to_string() });
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let object = json!({
            "kind": self.request.gvk.kind,
            "apiVersion": self.request.gvk.api_version(),
            "metadata": metadata,
        });
        frame("BOOKMARK", &object)
    }
}

/// Why the window can't serve version `rv`, as a client is told.
pub(crate) fn expired(rv: u64, error: WindowError) -> ApiError {
    match error {
        WindowError::Expired { compacted } => {
            ApiError::Expired(format!("too old resource version: {rv} ({compacted})"))
        }
        WindowError::Future { current } => ApiError::Timeout {
            message: format!("Too large resource version: {rv}, current: {current}"),
            retry_after_seconds: 1,
            causes: vec![crate::status::Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
        },
    }
}

fn error_frame(error: &ApiError) -> Bytes {
    frame("ERROR", &error.to_status())
}

fn frame(event_type: &str, object: &Value) -> Bytes {
    let mut line = json!({ "type": event_type, "object": object }).to_string();
    line.push('\n');
    line.into()
}
