//! Points that a fault could affect: every request and every delivered event, numbered among points
//! of the same kind.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::request_facts::RequestFacts;
use super::{Fault, Requests};
use crate::meta::ResourceVersion;
use crate::storage::EventType;

/// A request, or an event that a watch delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The verb; `watch` for an event.
    pub verb: String,
    /// `pods`, `statefulsets.apps/status`.
    pub resource: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name, if the request names an object.
    pub name: Option<String>,
    /// The client: the product in the user agent.
    pub from: String,
    /// The type of the event; `None` for a request.
    pub event: Option<EventType>,
    /// The number of points of the same kind before this one.
    pub nth: u32,
    /// The version of the last write before the point.
    pub after_rv: ResourceVersion,
    /// Whether the request has called webhooks of admission or conversion.
    pub calls_webhooks: bool,
}

impl Point {
    /// Whether the request asks for a change.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch" | "proxy")
    }

    /// The fault that affects this point and no other.
    #[must_use]
    pub fn fault(&self, name: &str, effect: super::Effect) -> Fault {
        Fault {
            name: name.to_owned(),
            requests: Requests {
                verb: Some(self.verb.clone()),
                resource: Some(self.resource.clone()),
                namespace: self.namespace.clone(),
                name: self.name.clone(),
                from: Some(self.from.clone()),
            },
            after: self.nth,
            times: Some(1),
            lasts: None,
            effect,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(f, "event {}", event.as_str())?,
            None => write!(f, "{}", self.verb)?,
        }
        write!(f, " {}", self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        if self.nth > 0 {
            write!(f, " #{}", self.nth + 1)?;
        }
        write!(f, " from {}", self.from)
    }
}

/// An application of a fault to a request or event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The name of the fault.
    pub fault: String,
    /// The version of the last write before the hit.
    pub after_rv: ResourceVersion,
    /// The time of the hit.
    pub time: Timestamp,
    /// The request or event: `create pods web-0 from statefulset-controller`.
    pub what: String,
}

/// The points passed so far.
#[derive(Debug, Default)]
pub(super) struct Points {
    passed: Vec<Point>,
    /// The number of points of each kind. Events of any type count together, as rules do.
    /// A key has verb, resource, namespace, name and client, each in a line of its own.
    counts: BTreeMap<String, u32>,
}

impl Points {
    /// Notes a request or event, and returns its index.
    pub(super) fn pass(
        &mut self,
        asked: &RequestFacts,
        event: Option<EventType>,
        after_rv: ResourceVersion,
    ) -> usize {
        let resource = asked.resource_text();
        let key = [
            asked.verb_text(),
            event.map_or("", |_| "event"),
            &resource,
            asked.namespace().unwrap_or_default(),
            asked.name().unwrap_or_default(),
            asked.product(),
        ];
        let key = key.join("\n");
        let count = self.counts.entry(key).or_default();
        let nth = *count;
        *count += 1;
        self.passed.push(Point {
            verb: asked.verb_text().to_owned(),
            resource,
            namespace: asked.namespace().map(str::to_owned),
            name: asked.name().map(str::to_owned),
            from: asked.product().to_owned(),
            event,
            nth,
            after_rv,
            calls_webhooks: false,
        });
        self.passed.len() - 1
    }

    /// Notes that the request with this index has called webhooks.
    pub(super) fn call_webhooks(&mut self, index: usize) {
        if let Some(point) = self.passed.get_mut(index) {
            point.calls_webhooks = true;
        }
    }

    pub(super) fn passed(&self) -> Vec<Point> {
        self.passed.clone()
    }
}
