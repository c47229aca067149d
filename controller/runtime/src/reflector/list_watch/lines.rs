//! The lines of a watch: one for each event.

use std::borrow::Cow;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyDataStream, BodyExt};
use kube::Error;
use kube::client::Body;
use kube::core::Status;
use kube::runtime::watcher::Event;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep};

use crate::decode_cache::Undecoded;

/// A watch that brings nothing for less than this is very short.
const SHORT: Duration = Duration::from_secs(1);

/// The meaning of a line.
pub(super) enum Line {
    /// An object was written or deleted, and which event that is.
    Object(Undecoded, ToEvent),
    /// Everything up to this version was delivered.
    Bookmark {
        version: String,
        /// Whether it follows the last of the present objects.
        ends_present: bool,
    },
    /// The watch has failed.
    Error(Box<Status>),
}

/// The event that happened to an object.
type ToEvent = fn(Undecoded) -> Event<Undecoded>;

/// A line, as it is written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow, rename = "type")]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The lines of a body.
pub(super) struct Lines {
    body: BodyDataStream<Body>,
    /// What has come and was not returned.
    chunk: Bytes,
    /// The beginning of the line that `chunk` goes on with.
    begun: Vec<u8>,
    is_ended: bool,
    began: Instant,
    /// Whether a line has been returned.
    has_brought: bool,
    /// The time for which nothing may come.
    idle_max: Duration,
    /// Until nothing has come for so long.
    idle: Pin<Box<Sleep>>,
}

impl Lines {
    /// The lines of `body`, which ends if nothing comes for `idle_max`.
    pub(super) fn new(body: Body, idle_max: Duration) -> Self {
        Self {
            body: body.into_data_stream(),
            chunk: Bytes::new(),
            begun: Vec::new(),
            is_ended: false,
            began: Instant::now(),
            has_brought: false,
            idle_max,
            idle: Box::pin(tokio::time::sleep(idle_max)),
        }
    }

    /// Whether the watch ended within a second and brought nothing. A server that ends all watches so would be asked without
    /// a pause.
    ///
    /// Source: `handleAnyWatch` of client-go's reflector.
    pub(super) fn was_very_short(&self) -> bool {
        !self.has_brought && self.began.elapsed() < SHORT
    }

    /// From now on it is a watch of changes, as if it had begun just now.
    pub(super) fn begin_changes(&mut self) {
        self.began = Instant::now();
        self.has_brought = false;
    }

    /// The next line; None at the end of the watch. A connection that breaks off is an end.
    pub(super) async fn next(&mut self) -> Option<Result<Line, Error>> {
        self.idle.as_mut().reset(Instant::now() + self.idle_max);
        loop {
            while let Some(line) = self.split() {
                if let Some(read) = read(&line).transpose() {
                    self.has_brought = true;
                    return Some(read);
                }
            }
            if self.is_ended {
                return None;
            }
            let chunk = tokio::select! {
                biased;
                chunk = self.body.next() => chunk,
                () = &mut self.idle => {
                    self.is_ended = true;
                    return None;
                }
            };
            match chunk {
                Some(Ok(chunk)) => self.chunk = chunk,
                Some(Err(error)) => {
                    tracing::debug!(%error, "the connection of a watch has broken off");
                    self.is_ended = true;
                    return None;
                }
                None => self.is_ended = true,
            }
        }
    }

    /// Takes the next line from what has come, without its end; at the end of the body the rest is a line, too.
    fn split(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.chunk) else {
            self.begun
                .extend_from_slice(&std::mem::take(&mut self.chunk));
            let is_rest = self.is_ended && !self.begun.is_empty();
            return is_rest.then(|| std::mem::take(&mut self.begun).into());
        };
        let mut line = self.chunk.split_to(end + 1);
        line.truncate(end);
        if self.begun.is_empty() {
            return Some(line);
        }
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(&line);
        Some(whole.into())
    }
}

/// Reads a line; None if it is a beginning of one, which a connection leaves that breaks off.
pub(super) fn read(line: &[u8]) -> Result<Option<Line>, Error> {
    if let Some(known) = known(line) {
        return Ok(Some(known));
    }
    let line_of = match object_of(line, br#"BOOKMARK","object":"#) {
        Some(object) => bookmark(object),
        None => written(line),
    };
    match line_of {
        Ok(line) => Ok(Some(line)),
        Err(error) if error.is_eof() => Ok(None),
        // The server may have answered with a Status instead.
        Err(error) => Err(match serde_json::from_slice::<Status>(line) {
            Ok(status) if status.code != 0 => Error::Api(status.boxed()),
            _ => Error::SerdeError(error),
        }),
    }
}

/// A line as servers write it, if its object was read lately.
pub(super) fn known(line: &[u8]) -> Option<Line> {
    let types: [(&[u8], ToEvent); 3] = [
        (br#"MODIFIED","object":"#, Event::Apply),
        (br#"ADDED","object":"#, Event::Apply),
        (br#"DELETED","object":"#, Event::Delete),
    ];
    let (object, event) = types
        .iter()
        .find_map(|(type_, event)| Some((object_of(line, type_)?, event)))?;
    Some(Line::Object(Undecoded::known(object)?, *event))
}

/// The object in a line as servers write it, if the line begins with `{"type":"` and this.
fn object_of<'line>(line: &'line [u8], type_: &[u8]) -> Option<&'line [u8]> {
    let line = line.strip_prefix(br#"{"type":""#)?;
    line.strip_prefix(type_)?.strip_suffix(b"}")
}

fn written(line: &[u8]) -> serde_json::Result<Line> {
    let line: Written<'_> = serde_json::from_slice(line)?;
    Ok(match &*line.type_ {
        "ADDED" | "MODIFIED" => Line::Object(Undecoded::of(line.object), Event::Apply),
        "DELETED" => Line::Object(Undecoded::of(line.object), Event::Delete),
        "BOOKMARK" => bookmark(line.object.get().as_bytes())?,
        "ERROR" => Line::Error(serde_json::from_str::<Status>(line.object.get())?.boxed()),
        other => {
            return Err(serde_json::Error::custom(format!(
                "unknown type of event {other:?}"
            )));
        }
    })
}

fn bookmark(object: &[u8]) -> serde_json::Result<Line> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
        #[serde(default)]
        annotations: Annotations,
    }
    #[derive(Default, Deserialize)]
    struct Annotations {
        #[serde(default, rename = "k8s.io/initial-events-end")]
        initial_events_end: String,
    }
    let bookmark: Bookmark = serde_json::from_slice(object)?;
    Ok(Line::Bookmark {
        version: bookmark.metadata.resource_version,
        ends_present: bookmark.metadata.annotations.initial_events_end == "true",
    })
}
