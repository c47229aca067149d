//! Where a fault could have met somebody: every request and every event delivered, counted among
//! its like.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::{Fault, Requests, rules::Asked};
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
    /// The object's name, where there is one.
    pub name: Option<String>,
    /// Who asks: the product in the user agent.
    pub from: String,
    /// What happened to the object, if this is an event.
    pub event: Option<EventType>,
    /// How many like it came before.
    pub nth: u32,
    /// The version of the last write before it.
    pub after_rv: u64,
}

impl Point {
    /// Whether the request asks for a change.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch" | "proxy")
    }

    /// The fault that meets this point and no other.
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

/// A fault that met somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The fault's name.
    pub fault: String,
    /// The version of the last write before it.
    pub after_rv: u64,
    /// When it was.
    pub time: Timestamp,
    /// Whom and what it met: `create pods web-0 from statefulset-controller`.
    pub what: String,
}

/// The points passed so far.
#[derive(Debug, Default)]
pub(super) struct Points {
    passed: Vec<Point>,
    /// How many points there were of each kind. Events of any type count together, as rules do.
    counts: BTreeMap<[String; 5], u32>,
}

impl Points {
    pub(super) fn pass(&mut self, asked: &Asked, event: Option<EventType>, after_rv: u64) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let resource = asked.resource_text();
        let key = [
            asked.verb_text().to_owned() + event.map_or("", |_| " event"),
            resource.clone(),
            text(&asked.namespace),
            text(&asked.name),
            asked.product().to_owned(),
        ];
        let count = self.counts.entry(key).or_default();
        let nth = *count;
        *count += 1;
        self.passed.push(Point {
            verb: asked.verb_text().to_owned(),
            resource,
            namespace: asked.namespace.clone(),
            name: asked.name.clone(),
            from: asked.product().to_owned(),
            event,
            nth,
            after_rv,
        });
    }

    pub(super) fn passed(&self) -> Vec<Point> {
        self.passed.clone()
    }
}
