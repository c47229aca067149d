//! Encoding of events: lines of JSON or frames of protobuf.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use dashmap::DashMap;

use super::state::WatchEvent;
use super::{INITIAL_EVENTS_END, Render};
use crate::endpoints::negotiation::MediaType;
use crate::json::{Value, json};
use crate::meta::GroupVersionKind;
use crate::registry::catalog::ResourceInfo;
use crate::schema::{protobuf, write_answer};
use crate::storage::{Event, EventType, StoredObject, Table, watch_frame};

const BOOKMARK: &str = "BOOKMARK";

/// No version of an object, and nothing else that a bookmark has.
const NO_VERSION: &str = "@";

/// Lines by the kind of the bookmark, and by whether it ends the initial events.
static BOOKMARK_LINES: LazyLock<DashMap<(GroupVersionKind, bool), BookmarkLine>> =
    LazyLock::new(DashMap::new);

/// The line of a bookmark, before and after its version.
struct BookmarkLine(String, String);

impl BookmarkLine {
    /// Splits a line at [`NO_VERSION`].
    fn split(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (before, after) = line.split_once(NO_VERSION)?;
        Some(Self(before.to_owned(), after.to_owned()))
    }

    fn with(&self, rv: &str) -> Bytes {
        [&self.0, rv, &self.1].concat().into()
    }
}

/// Encodes the events of one watch, in the representation that its client asks for.
pub(super) struct Encoder {
    /// The resource in whose version objects are shown.
    resource: Arc<ResourceInfo>,
    /// The table of the events.
    table: Arc<Table>,
    /// The object of a bookmark of a kind, without its version.
    bookmark: fn(&GroupVersionKind) -> Value,
    /// `None` shows objects as they are.
    render: Option<Render>,
    media: MediaType,
    /// Whether nothing has been rendered yet.
    is_first: bool,
}

impl Encoder {
    pub(super) fn new(
        (resource, table): (Arc<ResourceInfo>, Arc<Table>),
        bookmark: fn(&GroupVersionKind) -> Value,
        (render, media): (Option<Render>, MediaType),
    ) -> Self {
        Self {
            resource,
            table,
            bookmark,
            render,
            media,
            is_first: true,
        }
    }

    /// Returns the line or frame of an event; `None` for an object that the representation cannot
    /// show.
    pub(super) fn encode(&mut self, event: &WatchEvent) -> Option<Bytes> {
        match event {
            WatchEvent::Initial(object) => self.object(EventType::Added, object),
            WatchEvent::Change { event_type, event } => self.change(*event_type, event),
            WatchEvent::Bookmark {
                rv,
                ends_initial_events,
            } => {
                let rv = rv.to_string();
                let line = self.bookmark_line(&rv, *ends_initial_events);
                line.or_else(|| {
                    let object = self.bookmark(&rv, *ends_initial_events);
                    self.rendered(BOOKMARK, &object)
                })
            }
            WatchEvent::Error(error) => {
                let frame = frame("ERROR", &error.to_status(), self.media);
                Some(frame.expect("a Status has a message"))
            }
        }
    }

    fn bookmark(&self, rv: &str, ends_initial_events: bool) -> Value {
        let mut object = (self.bookmark)(self.resource.gvk());
        object["metadata"]["resourceVersion"] = rv.into();
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        object
    }

    /// The line of a bookmark of a built-in kind, as JSON, of which only the version is new; `None` in other cases.
    fn bookmark_line(&self, rv: &str, ends_initial_events: bool) -> Option<Bytes> {
        let is_json = matches!(self.media, MediaType::Json | MediaType::Yaml);
        if !is_json || self.render.is_some() || self.resource.custom.is_some() {
            return None;
        }
        let kind = (self.resource.gvk().clone(), ends_initial_events);
        if let Some(line) = BOOKMARK_LINES.get(&kind) {
            return Some(line.with(rv));
        }
        let object = self.bookmark(NO_VERSION, ends_initial_events);
        let line = BookmarkLine::split(&frame(BOOKMARK, &object, self.media)?)?;
        let bytes = line.with(rv);
        BOOKMARK_LINES.insert(kind, line);
        Some(bytes)
    }

    fn change(&mut self, event_type: EventType, event: &Event) -> Option<Bytes> {
        if event_type == EventType::Deleted && event.event_type != EventType::Deleted {
            // It left the selection: upstream shows the state that was last in it, at this version.
            let previous = event.previous.as_ref().expect("it was selected before");
            let mut value = self.resource.shown(&previous.value()).into_owned();
            value["metadata"]["resourceVersion"] = event.rv.to_string().into();
            let departed = StoredObject::new(previous.key.clone(), event.rv, value);
            return self.object(event_type, &departed);
        }
        // The first of a stream may differ from the same event later in one. A custom resource may be shown by two
        // definitions for a moment.
        if !self.is_first
            && self.resource.custom.is_none()
            && let Some(render) = &self.render
        {
            let now = render.clock.now().as_second();
            let (name, media) = (&render.name, self.media);
            let name = format!("{name} {} {media:?} {now}", event_type.as_str());
            let table = Arc::clone(&self.table);
            return table.shared_frame(event.rv, name, || self.object(event_type, &event.object));
        }
        if event_type != event.event_type || !self.shows_stored(&event.object) {
            return self.object(event_type, &event.object);
        }
        match self.media {
            MediaType::Protobuf => event.protobuf_frame(),
            MediaType::Json | MediaType::Yaml => Some(event.frame()),
        }
    }

    fn object(&mut self, event_type: EventType, object: &StoredObject) -> Option<Bytes> {
        let event_type = event_type.as_str();
        if !self.shows_stored(object) {
            let resource = Arc::clone(&self.resource);
            return self.rendered(event_type, &resource.shown(&object.value()));
        }
        match self.media {
            MediaType::Protobuf => {
                let document = object.protobuf()?.bytes();
                Some(protobuf::watch_frame(event_type, &document))
            }
            MediaType::Json | MediaType::Yaml => Some(watch_frame(event_type, &object.json())),
        }
    }

    /// Whether the client sees the very bytes that storage holds.
    fn shows_stored(&self, object: &StoredObject) -> bool {
        let unchanged = || matches!(self.resource.shown(&object.value()), Cow::Borrowed(_));
        self.render.is_none() && (self.resource.shows_as_stored() || unchanged())
    }

    fn rendered(&mut self, event_type: &str, object: &Value) -> Option<Bytes> {
        let is_first = std::mem::take(&mut self.is_first);
        match &self.render {
            None => frame(event_type, object, self.media),
            Some(render) => {
                let shown = (render.show)(object, render.clock.now(), is_first);
                frame(event_type, &shown?, self.media)
            }
        }
    }
}

/// The line or frame of an event; `None` for an object that protobuf has no message for.
fn frame(event_type: &str, object: &Value, media: MediaType) -> Option<Bytes> {
    if media == MediaType::Protobuf {
        let document = protobuf::encode(object)?.bytes();
        return Some(protobuf::watch_frame(event_type, &document));
    }
    let mut json = Vec::with_capacity(512);
    write_answer(&mut json, object);
    Some(watch_frame(event_type, &json))
}
