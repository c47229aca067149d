//! Everything that a server stores, as text: taken from one server, given to another.
//!
//! The text has a JSON object a line. The first, `{"state": …}`, has the form, the version of the
//! program, the `resourceVersion` and the time; each other, `{"object": …}`, an object and the
//! resource that it is stored in. What follows is left to the caller: a log may go on from there.
//!
//! Keys are not part of it: those that sign tokens and certificates belong to the server.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ApiServer;
use crate::meta::GroupVersionResource;
use crate::meta::ResourceVersion;
use crate::nesting;
use crate::schema::read_object;
use crate::storage::{ObjectKey, StoredObject};

/// The form of the text that this program writes and reads.
const FORM: &str = "kubeproof/v1";

/// The first bytes of a state's text.
const BEGINNING: &str = r#"{"state":"#;

/// The objects of a server at one `resourceVersion`.
#[derive(Clone, Debug)]
pub struct ServerState {
    resource_version: ResourceVersion,
    time: Timestamp,
    held: Vec<(GroupVersionResource, Vec<Arc<StoredObject>>)>,
}

/// An error in the text of a [`ServerState`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {message}")]
pub struct StateError {
    /// The number of the line, counted from one.
    pub number: usize,
    /// The defect of the line.
    pub message: String,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum First {
    State(Head),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Head {
    form: String,
    program: String,
    #[serde(rename = "revision")]
    resource_version: ResourceVersion,
    time: String,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'t> {
    #[serde(borrow)]
    Object(Held<'t>),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Held<'t> {
    resource: String,
    #[serde(borrow)]
    object: &'t RawValue,
}

impl ApiServer {
    /// Returns every object stored, all of the same moment.
    #[must_use]
    pub fn state(&self) -> ServerState {
        let catalog = self.core.definitions.catalog();
        let versions = catalog.groups().iter().flat_map(|group| &group.versions);
        let resources = versions.flat_map(|version| &version.resources);
        // A resource may have objects before the first request for it.
        for resource in resources.filter(|resource| resource.has_verb("list")) {
            self.core.storage.table(resource.gvr());
        }
        // Nobody writes to a fork.
        let time = self.core.clock.now();
        let frozen = self.core.storage.fork(None).expect("the present is there");
        let tables = frozen.tables().into_values();
        let held = tables.filter_map(|table| {
            let snapshot = table.snapshot();
            let objects: Vec<_> = snapshot.range(None, None).cloned().collect();
            // What componentstatuses show is not stored.
            let is_stored = table.gvr().resource != "componentstatuses";
            (is_stored && !objects.is_empty()).then(|| (table.gvr().clone(), objects))
        });
        ServerState {
            resource_version: frozen.resource_version(),
            time,
            held: held.collect(),
        }
    }

    /// Stores the objects of `state` in a server whose storage begins at its version.
    pub(super) fn hold(&self, state: ServerState) {
        let core = &self.core;
        nesting::where_stored(|| {
            for (gvr, objects) in state.held {
                core.storage.hold(gvr, objects);
            }
            core.entropy.set_apart(state.resource_version.get());
            crate::apiextensions::after_fork(core);
        });
    }
}

impl ServerState {
    /// The latest `resourceVersion` assigned.
    #[must_use]
    pub fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    /// The time of the state, by the server's clock.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Whether a text begins as those of [`Self::to_text`] do.
    #[must_use]
    pub fn is_begun_by(text: &str) -> bool {
        text.starts_with(BEGINNING)
    }

    /// The text that [`Self::read`] reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let head = First::State(Head {
            form: FORM.to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            resource_version: self.resource_version,
            time: self.time.to_string(),
        });
        let mut text = to_line(&head);
        for (gvr, objects) in &self.held {
            for object in objects {
                let json = object.json();
                let json = std::str::from_utf8(&json).expect("JSON is UTF-8");
                let line = Line::Object(Held {
                    resource: gvr.to_path(),
                    object: serde_json::from_str(json).expect("it was written as JSON"),
                });
                text.push_str(&to_line(&line));
            }
        }
        text
    }

    /// Reads a text, and returns the state and the rest of the text.
    ///
    /// # Errors
    /// [`StateError`] for the first line that cannot be parsed.
    pub fn read(text: &str) -> Result<(Self, &str), StateError> {
        let mut lines = Lines {
            rest: text,
            number: 0,
        };
        let first = lines.next().unwrap_or_default();
        let First::State(head) = serde_json::from_str(first).map_err(|error| lines.fault(error))?;
        if head.form != FORM {
            let why = format!("the form is {:?}; this program reads {FORM:?}", head.form);
            return Err(lines.fault(why));
        }
        let mut state = Self {
            resource_version: head.resource_version,
            time: head
                .time
                .parse()
                .map_err(|error: jiff::Error| lines.fault(error))?,
            held: Vec::new(),
        };
        while lines.rest.starts_with(r#"{"object":"#) {
            let line = lines.next().unwrap_or_default();
            let Line::Object(held) =
                serde_json::from_str(line).map_err(|error| lines.fault(error))?;
            let gvr = GroupVersionResource::from_path(&held.resource);
            let gvr =
                gvr.ok_or_else(|| lines.fault(format!("{:?}: no resource", held.resource)))?;
            let object = nesting::with_room(|| stored(held.object.get(), head.resource_version));
            let object = Arc::new(object.map_err(|error| lines.fault(error))?);
            match state.held.last_mut() {
                Some((last, objects)) if *last == gvr => objects.push(object),
                _ => state.held.push((gvr, vec![object])),
            }
        }
        Ok((state, lines.rest))
    }
}

fn to_line(line: &impl Serialize) -> String {
    let mut text = serde_json::to_string(line).expect("all keys of a line are text");
    text.push('\n');
    text
}

/// An object as it was stored at its version, which is `latest` at most.
fn stored(json: &str, latest: ResourceVersion) -> Result<StoredObject, String> {
    let value = read_object(json.as_bytes(), None).map_err(|error| error.to_string())?;
    let metadata = &value["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err("the object has no name".to_owned());
    }
    let key = ObjectKey::new(metadata["namespace"].as_str(), name);
    let rv = metadata["resourceVersion"].as_str();
    let rv = rv.and_then(|rv| rv.parse::<ResourceVersion>().ok());
    let rv = rv.filter(|rv| *rv <= latest);
    let rv = rv.ok_or_else(|| format!("{name} has no resourceVersion up to {latest}"))?;
    Ok(StoredObject::new(key, rv, value))
}

/// The lines of a text that have not been read.
struct Lines<'t> {
    rest: &'t str,
    /// The number of the last line read.
    number: usize,
}

impl<'t> Lines<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.number += 1;
        (!line.is_empty()).then_some(line)
    }

    fn fault(&self, why: impl ToString) -> StateError {
        StateError {
            number: self.number,
            message: why.to_string(),
        }
    }
}
