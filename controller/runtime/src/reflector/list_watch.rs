//! Lists and watches objects, as client-go's reflector does: a watch that begins with the present objects (a streaming
//! list, KEP-3157), or else a list in pages and a watch from its version. The watch is begun again at once from its last
//! version when it has ended or its connection has broken off. The objects are listed again after 410 Gone, and after a
//! watch that was very short.
//!
//! `kube::runtime::watcher` does the same, and its events and errors are used here. It searches the text of each event for
//! the end of the object. A dozen watches of this process do that with the same texts, which was a fifth of the work of a
//! scenario. Here a text is compared with those that were read lately, and read only if it is new.

mod lines;

use std::io;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use futures::{Stream, stream};
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::{Request, Response};
use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::client::Body;
use kube::core::{Request as ResourceRequest, Status};
use kube::runtime::watcher::{self, Config, Event, ListSemantic};
use kube::{Client, Error};

use super::{Undecoded, Url};
use crate::decode_cache::List;
use lines::{Line, Lines};

/// The time after the end that a watch has asked for until it is given up: its connection may be dead.
const LATE_MAX: Duration = Duration::from_secs(5);

/// The events of the objects at `url` that `config` selects. `config` has to have a timeout; its strategy for the first list
/// is ignored. After a failure the stream goes on as that of `kube::runtime::watcher` does; after a very short watch it
/// begins with a list.
pub(super) fn list_watch(
    client: Client,
    url: &Url,
    config: Config,
) -> impl Stream<Item = watcher::Result<Event<Undecoded>>> + Send + use<> {
    // Each event moves it.
    let begin = Box::new(ListWatch {
        client,
        requests: ResourceRequest::new(url.0.clone()),
        config,
        state: State::Empty,
    });
    stream::unfold(begin, async |mut this| Some((this.next().await, this)))
}

struct ListWatch {
    client: Client,
    requests: ResourceRequest,
    config: Config,
    state: State,
}

enum State {
    /// Nothing is known.
    Empty,
    /// Nothing has come.
    Begun,
    /// The watch delivers the present objects. The events since the first deletion come after them.
    Streaming {
        lines: Box<Lines>,
        later: Vec<Event<Undecoded>>,
    },
    /// The watch has delivered all up to this version, with these events left to deliver.
    Streamed {
        version: String,
        lines: Box<Lines>,
        later: vec::IntoIter<Event<Undecoded>>,
    },
    /// A page has come, with these objects left to deliver.
    Listing {
        objects: vec::IntoIter<Undecoded>,
        version: Option<String>,
        continue_token: Option<String>,
    },
    /// All objects of this version are delivered.
    Listed { version: String },
    /// The watch has delivered all up to this version.
    Watching { version: String, lines: Box<Lines> },
}

impl ListWatch {
    async fn next(&mut self) -> watcher::Result<Event<Undecoded>> {
        loop {
            if let Some(event) = self.step().await {
                return event;
            }
        }
    }

    /// Goes on to another state, perhaps with an event. An error leads back to the state from which it is tried again.
    async fn step(&mut self) -> Option<watcher::Result<Event<Undecoded>>> {
        match std::mem::replace(&mut self.state, State::Empty) {
            State::Empty => {
                self.state = State::Begun;
                Some(Ok(Event::Init))
            }
            State::Begun => match self.stream().await {
                Ok(lines) => {
                    let later = Vec::new();
                    self.state = State::Streaming { lines, later };
                    None
                }
                Err(Error::Api(status)) if is_no_stream(&status) => self.turn(None).await,
                Err(error) => Some(Err(watcher::Error::InitialListFailed(error))),
            },
            State::Streaming { mut lines, later } => {
                let line = lines.next().await;
                self.take_present(line, lines, later)
            }
            State::Streamed {
                version,
                mut lines,
                mut later,
            } => {
                let event = later.next();
                if event.is_none() {
                    lines.begin_changes();
                }
                self.state = match event {
                    Some(_) => State::Streamed {
                        version,
                        lines,
                        later,
                    },
                    None => State::Watching { version, lines },
                };
                event.map(Ok)
            }
            State::Listing {
                mut objects,
                version,
                continue_token,
            } => {
                if let Some(object) = objects.next() {
                    self.state = State::Listing {
                        objects,
                        version,
                        continue_token,
                    };
                    return Some(Ok(Event::InitApply(object)));
                }
                match version {
                    Some(version) if continue_token.is_none() => {
                        self.state = State::Listed { version };
                        Some(Ok(Event::InitDone))
                    }
                    _ => self.turn(continue_token).await,
                }
            }
            State::Listed { version } => match self.watch(&version, false).await {
                Ok(lines) => {
                    self.state = State::Watching { version, lines };
                    None
                }
                Err(error) => {
                    self.state = State::Listed { version };
                    Some(Err(watcher::Error::WatchStartFailed(error)))
                }
            },
            State::Watching { version, mut lines } => match lines.next().await {
                Some(line) => self.take(line, version, lines),
                None if lines.was_very_short() => {
                    let short =
                        "very short watch: it lasted less than a second and brought nothing";
                    let short = Error::ReadEvents(io::Error::other(short));
                    Some(Err(watcher::Error::WatchFailed(short)))
                }
                None => {
                    self.state = State::Listed { version };
                    None
                }
            },
        }
    }

    /// Takes in a line of a watch that delivers the present objects; `line` is None if it has ended. Changes may come before
    /// the bookmark, too. An object that was deleted meanwhile may have been delivered as present.
    fn take_present(
        &mut self,
        line: Option<Result<Line, Error>>,
        lines: Box<Lines>,
        mut later: Vec<Event<Undecoded>>,
    ) -> Option<watcher::Result<Event<Undecoded>>> {
        let event = match line {
            Some(Ok(Line::Object(object, to_event))) => match to_event(object) {
                Event::Apply(object) if later.is_empty() => Some(Ok(Event::InitApply(object))),
                event => {
                    later.push(event);
                    None
                }
            },
            Some(Ok(Line::Bookmark {
                version,
                ends_present: true,
            })) => {
                let later = later.into_iter();
                self.state = State::Streamed {
                    version,
                    lines,
                    later,
                };
                return Some(Ok(Event::InitDone));
            }
            Some(Ok(Line::Bookmark { .. })) => None,
            Some(Ok(Line::Error(status))) => {
                return Some(Err(watcher::Error::WatchError(status)));
            }
            Some(Err(error)) => return Some(Err(watcher::Error::InitialListFailed(error))),
            None => {
                let ended = "the watch has ended before the last of the present objects";
                let ended = Error::ReadEvents(io::Error::other(ended));
                return Some(Err(watcher::Error::InitialListFailed(ended)));
            }
        };
        self.state = State::Streaming { lines, later };
        event
    }

    /// Takes in a line of a watch, which has delivered all up to `version` before it.
    fn take(
        &mut self,
        line: Result<Line, Error>,
        version: String,
        lines: Box<Lines>,
    ) -> Option<watcher::Result<Event<Undecoded>>> {
        let (event, version) = match line {
            Ok(Line::Object(object, to_event)) => {
                let Some(version) = object.resource_version() else {
                    return Some(Err(watcher::Error::NoResourceVersion));
                };
                let version = version.to_owned();
                (Some(Ok(to_event(object))), version)
            }
            Ok(Line::Bookmark { version, .. }) => (None, version),
            Ok(Line::Error(status)) if status.code == 410 => {
                return Some(Err(watcher::Error::WatchError(status)));
            }
            Ok(Line::Error(status)) => (Some(Err(watcher::Error::WatchError(status))), version),
            Err(error) => (Some(Err(watcher::Error::WatchFailed(error))), version),
        };
        self.state = State::Watching { version, lines };
        event
    }

    /// Goes on to the next page.
    async fn turn(
        &mut self,
        continue_token: Option<String>,
    ) -> Option<watcher::Result<Event<Undecoded>>> {
        let failed = match self.list(continue_token).await {
            Ok(List {
                version: None,
                continue_token: None,
                ..
            }) => watcher::Error::NoResourceVersion,
            Ok(page) => {
                self.state = State::Listing {
                    objects: page.objects.into_iter(),
                    version: page.version,
                    continue_token: page.continue_token,
                };
                return None;
            }
            Err(error) => watcher::Error::InitialListFailed(error),
        };
        Some(Err(failed))
    }

    /// Requests a page.
    async fn list(&mut self, continue_token: Option<String>) -> Result<List, Error> {
        let (resource_version, version_match) = match self.config.list_semantic {
            ListSemantic::MostRecent => (None, None),
            ListSemantic::Any => (Some("0".to_owned()), Some(VersionMatch::NotOlderThan)),
        };
        let params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: self.config.page_size,
            continue_token,
            resource_version,
            version_match,
            ..ListParams::default()
        };
        let request = self.requests.list(&params);
        let answer = self.send(request.map_err(Error::BuildRequest)?).await?;
        let text = answer.into_body().collect_bytes().await?;
        let page = List::of(&text).map_err(Error::SerdeError)?;
        Ok(Arc::unwrap_or_clone(page))
    }

    /// Begins a watch with the present objects.
    async fn stream(&mut self) -> Result<Box<Lines>, Error> {
        let version = match self.config.list_semantic {
            ListSemantic::MostRecent => "",
            ListSemantic::Any => "0",
        };
        self.watch(version, true).await
    }

    /// Begins a watch from `version`, or with the present objects.
    async fn watch(
        &mut self,
        version: &str,
        send_initial_events: bool,
    ) -> Result<Box<Lines>, Error> {
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: self.config.timeout,
            bookmarks: self.config.bookmarks || send_initial_events,
            send_initial_events,
        };
        let request = self.requests.watch(&params, version);
        let mut request = request.map_err(Error::BuildRequest)?;
        // Kubernetes 1.37 compresses each event by itself, which the client cannot read.
        let identity = HeaderValue::from_static("identity");
        request.headers_mut().insert(ACCEPT_ENCODING, identity);
        let answer = self.send(request).await?;
        let timeout = self.config.timeout.unwrap_or_default();
        let idle_max = Duration::from_secs(timeout.into()) + LATE_MAX;
        Ok(Box::new(Lines::new(answer.into_body(), idle_max)))
    }

    /// Sends the request; an answer that is no success is an error.
    async fn send(&mut self, request: Request<Vec<u8>>) -> Result<Response<Body>, Error> {
        let answer = self.client.send(request.map(Body::from)).await?;
        let code = answer.status();
        if !code.is_client_error() && !code.is_server_error() {
            return Ok(answer);
        }
        let text = answer.into_body().collect_bytes().await?;
        let status = serde_json::from_slice::<Status>(&text).unwrap_or_else(|_| {
            // It comes from something on the way to the server.
            let text = String::from_utf8_lossy(&text);
            Status::failure(text.trim(), "Failed to parse error data").with_code(code.as_u16())
        });
        Err(Error::Api(status.boxed()))
    }
}

/// Whether the server answers so because it has no streaming lists, or may do so. As in client-go, a list then says what
/// is wrong.
fn is_no_stream(status: &Status) -> bool {
    !matches!(status.code, 410 | 429)
}

#[cfg(test)]
mod tests;
