//! The entries of `differs` in a scenario: the faults or orders with which runs rightly have another outcome, and the
//! fields that may differ then.

mod schema;

use std::collections::BTreeSet;
use std::fmt;

use kubeproof_apiserver::EventType;
use kubeproof_apiserver::fault::Point;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_machinery::json::{Value, from_value};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::fault_plan::{Kind, Plan, Planned};

#[cfg(test)]
mod tests;

/// The word for another order of what happens in one instant.
const ORDER: &str = "order";
/// Stands for the rest of a name.
const REST: char = '*';

/// Runs whose outcome differs for a good reason.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked")]
#[schemars(with = "Unchecked")]
pub struct Differs {
    /// The runs.
    pub with: With,
    /// What may differ in these runs; without any, the whole outcome and the events.
    pub may: Vec<May>,
    /// Why that is right.
    pub because: String,
}

/// Runs whose outcome differs for a good reason.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Differs")]
struct Unchecked {
    /// The faults with which the outcome may differ: `order` for another order of what happens in one instant, an exact
    /// plan, a pattern of faults, or a list of plans and patterns.
    #[schemars(with = "schema::With")]
    with: Value,
    /// What may differ; the whole outcome and the events when absent. With `order` it is needed.
    #[serde(default, rename = "in")]
    #[schemars(with = "Vec<schema::May>")]
    may: Vec<May>,
    /// Why that is right.
    because: String,
}

/// The runs that an entry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum With {
    /// Runs in another order of what happens in one instant.
    Order,
    /// Runs with any of these faults.
    Faults(Vec<Faults>),
}

/// Faults of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Faults {
    /// All faults of this plan.
    Plan(Plan),
    /// One that fits.
    Pattern(Box<Pattern>),
}

/// A pattern of faults. An absent field fits every fault.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FaultPattern")]
pub struct Pattern {
    /// The kind of fault.
    pub fault: Kind,
    /// The verb of the request.
    #[serde(default)]
    pub verb: Option<WriteVerb>,
    /// The type of the event, for faults of watches.
    #[serde(default)]
    pub event: Option<WatchedEvent>,
    /// `pods`, `statefulsets.apps/status`.
    #[serde(default)]
    pub resource: Option<String>,
    /// The object's name.
    #[serde(default)]
    pub name: Option<String>,
    /// The client, such as `statefulset-controller`.
    #[serde(default)]
    pub from: Option<String>,
    /// The number of the request or event among equal ones, counted from one.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub occurrence: Option<u32>,
    /// Whether any request or event of the scenario is meant. Otherwise a verb, an event, a resource or a name is needed.
    #[serde(default)]
    pub anywhere: bool,
}

/// The verb of a request that asks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "Kubernetes' names")]
pub enum WriteVerb {
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// The type of an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "Kubernetes' names")]
pub enum WatchedEvent {
    Added,
    Modified,
    Deleted,
}

/// What may differ from the run without faults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum May {
    /// Fields of objects in the outcome.
    Fields(FieldsMay),
    /// The number of events.
    Event(EventMay),
    /// The run may end at a step that fails.
    Failure(FailureMay),
    /// A property may be violated.
    Violation(ViolationMay),
}

/// Fields of objects that may have other values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FieldsMay")]
pub struct FieldsMay {
    /// `pod/web-1`, or `pod/web-*` for all names with this prefix.
    pub object: ObjectPattern,
    /// The fields: columns of the outcome's tables, in capitals, or words of a status: `counts`, `cur`, `upd`,
    /// `generation`, `observedGeneration`, `collisionCount`. `presence` is whether the object is there; it includes all
    /// fields of an object that only one run has. Only exchanged objects may leave it out, for all fields.
    #[serde(default)]
    pub fields: BTreeSet<String>,
    /// Whether the objects only exchange their values: each value of a field is there as often as before.
    #[serde(default)]
    pub exchanged: bool,
}

/// An event that may occur in another number, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "EventMay")]
pub struct EventMay {
    /// The reason of the event.
    pub event: String,
    /// The object that it regards: `statefulset/web`, or `pod/web-*` for all names with this prefix.
    pub regarding: ObjectPattern,
    /// The smallest number of the events, 0 unless given.
    #[serde(default)]
    pub at_least: u64,
    /// The largest number of the events.
    pub at_most: u64,
}

/// A step that a run may fail at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "FailureMay")]
pub struct FailureMay {
    /// The number of the step, counted from one.
    #[schemars(range(min = 1))]
    pub failing_step: usize,
}

/// A property that a run may violate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ViolationMay")]
pub struct ViolationMay {
    /// The name of the property. `no write loops` excuses a run that a loop of requests has ended, with all that
    /// it lacks and violates.
    pub violates: String,
}

/// An object by its kind in lower case and its name, or all objects of the kind whose names have this prefix.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct ObjectPattern {
    kind: String,
    name: String,
    /// Whether the name is only the beginning.
    is_beginning: bool,
}

impl TryFrom<Unchecked> for Differs {
    type Error = String;

    fn try_from(Unchecked { with, may, because }: Unchecked) -> Result<Self, String> {
        let with = With::read(with)?;
        if because.trim().is_empty() {
            return Err("an entry of `differs` has no reason: say `because`".to_owned());
        }
        if with == With::Order && may.is_empty() {
            return Err(
                "`with: order` needs `in`: what another order may change, field by field"
                    .to_owned(),
            );
        }
        Ok(Self { with, may, because })
    }
}

impl With {
    /// Whether the entry is about runs with this plan, in the order of this seed.
    #[must_use]
    pub fn is_about(&self, plan: &Plan, schedule_seed: u64) -> bool {
        match self {
            Self::Order => schedule_seed > 0,
            Self::Faults(faults) => faults.iter().any(|one| one.is_in(plan)),
        }
    }

    fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) if text == ORDER => Ok(Self::Order),
            Value::Array(list) if list.is_empty() => {
                Err("`with` is an empty list: name the faults".to_owned())
            }
            Value::Array(list) => {
                let read = list.into_iter().map(Faults::read);
                Ok(Self::Faults(read.collect::<Result<_, _>>()?))
            }
            one => Ok(Self::Faults(vec![Faults::read(one)?])),
        }
    }
}

impl fmt::Display for With {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order => f.write_str(ORDER),
            Self::Faults(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                f.write_str(&faults.join(" or "))
            }
        }
    }
}

impl Faults {
    /// Whether `plan` has these faults, among others perhaps.
    #[must_use]
    pub fn is_in(&self, plan: &Plan) -> bool {
        let faults = plan.faults();
        match self {
            // Points of a run also know their time, which a text does not have.
            Self::Plan(own) => {
                let has = |text: &String| faults.iter().any(|fault| fault.to_string() == *text);
                own.faults()
                    .iter()
                    .map(ToString::to_string)
                    .all(|text| has(&text))
            }
            Self::Pattern(pattern) => faults.iter().any(|fault| pattern.fits(fault)),
        }
    }

    /// Whether all plans with one fault that have these faults are among those with `kinds`, all if empty, of the
    /// clients `from`, all if empty.
    #[must_use]
    pub fn is_within(&self, kinds: &BTreeSet<Kind>, from: &BTreeSet<String>) -> bool {
        let (kind, client) = match self {
            Self::Plan(plan) => match plan.faults() {
                [one] => (one.kind(), Some(&one.point().from)),
                _ => return false,
            },
            Self::Pattern(pattern) => (pattern.fault, pattern.from.as_ref()),
        };
        let has_client = client.is_some_and(|client| from.contains(client));
        (kinds.is_empty() || kinds.contains(&kind)) && (from.is_empty() || has_client)
    }

    fn read(value: Value) -> Result<Self, String> {
        let read = match value {
            Value::String(text) => {
                let plan: Plan = text.parse().map_err(|error| {
                    format!("{text:?} is neither `{ORDER}` nor an exact plan: {error}")
                })?;
                if let Some(never) = plan.faults().iter().find(|one| !one.is_explored()) {
                    return Err(format!("`explore` tries no `{never}`"));
                }
                Self::Plan(plan)
            }
            value => {
                let pattern: Pattern =
                    from_value(value).map_err(|error| format!("the pattern of faults: {error}"))?;
                pattern.check()?;
                Self::Pattern(Box::new(pattern))
            }
        };
        Ok(read)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(plan) => plan.fmt(f),
            Self::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

impl Pattern {
    /// Whether the fault is one of these.
    #[must_use]
    pub fn fits(&self, fault: &Planned) -> bool {
        let point = fault.point();
        let is = |own: &Option<String>, found: Option<&str>| {
            own.as_deref().is_none_or(|own| Some(own) == found)
        };
        self.fault == fault.kind()
            && (self.verb).is_none_or(|verb| point.event.is_none() && point.verb == verb.as_str())
            && (self.event).is_none_or(|event| point.event == Some(event.into()))
            && is(&self.resource, Some(&point.resource))
            && is(&self.name, point.name.as_deref())
            && is(&self.from, Some(&point.from))
            && (self.occurrence).is_none_or(|number| u64::from(number) == u64::from(point.nth) + 1)
    }

    /// Refuses a pattern that fits nothing, or everything without saying so.
    fn check(&self) -> Result<(), String> {
        let kind = self.fault;
        let is_narrow = self.verb.is_some()
            || self.event.is_some()
            || self.resource.is_some()
            || self.name.is_some();
        match (is_narrow, self.anywhere) {
            (false, false) => Err(format!(
                "{kind} would excuse every fault of the kind: name a verb, an event, a resource or a name, or say \
                 `anywhere: true`"
            )),
            (true, true) => Err(format!(
                "{kind}: `anywhere` is for patterns without a place"
            )),
            _ if kind.is_of_events() && self.verb.is_some() => Err(format!(
                "{kind} meets events, not requests: name an `event`"
            )),
            _ if !kind.is_of_events() && self.event.is_some() => {
                Err(format!("{kind} meets requests, not events: name a `verb`"))
            }
            _ if !self.points().iter().any(|point| kind.fits(point)) => {
                Err(format!("`explore` tries no `{self}`"))
            }
            _ if self.occurrence == Some(0) => Err("occurrences are counted from one".to_owned()),
            _ => Ok(()),
        }
    }

    /// A point for each verb or type of event that the pattern leaves open.
    fn points(&self) -> Vec<Point> {
        let point = |verb: &str, event: Option<EventType>| Point {
            verb: verb.to_owned(),
            resource: String::new(),
            namespace: None,
            name: None,
            from: String::new(),
            event,
            nth: 0,
            after_rv: ResourceVersion::ZERO,
            calls_webhooks: event.is_none(),
        };
        let events = WatchedEvent::ALL.into_iter();
        let events = events.filter(|own| self.event.is_none_or(|event| event == *own));
        let verbs = WriteVerb::ALL.into_iter();
        let verbs = verbs.filter(|own| self.verb.is_none_or(|verb| verb == *own));
        match self.fault.is_of_events() {
            true => events
                .map(|event| point("watch", Some(event.into())))
                .collect(),
            false => verbs.map(|verb| point(verb.as_str(), None)).collect(),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        let event = self.event.map(|event| EventType::from(event).as_str());
        let words = [
            self.verb.map(WriteVerb::as_str).or(event),
            self.resource.as_deref(),
            self.name.as_deref(),
            self.anywhere.then_some("anywhere"),
        ];
        for word in words.into_iter().flatten() {
            write!(f, " {word}")?;
        }
        if let Some(number) = self.occurrence {
            write!(f, " #{number}")?;
        }
        match &self.from {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

impl WriteVerb {
    const ALL: [Self; 5] = [
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl WatchedEvent {
    const ALL: [Self; 3] = [Self::Added, Self::Modified, Self::Deleted];
}

impl From<WatchedEvent> for EventType {
    fn from(event: WatchedEvent) -> Self {
        match event {
            WatchedEvent::Added => Self::Added,
            WatchedEvent::Modified => Self::Modified,
            WatchedEvent::Deleted => Self::Deleted,
        }
    }
}

impl TryFrom<Value> for May {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let has = |key: &str| value.get(key).is_some();
        let read = if has("object") {
            from_value(value).map(Self::Fields)
        } else if has("event") {
            from_value(value).map(Self::Event)
        } else if has("failingStep") {
            from_value(value).map(Self::Failure)
        } else if has("violates") {
            from_value(value).map(Self::Violation)
        } else {
            return Err(format!(
                "{value} is none of: an `object`, an `event`, a `failingStep`, `violates`"
            ));
        };
        let read = read.map_err(|error| format!("what may differ: {error}"))?;
        match &read {
            Self::Fields(FieldsMay {
                object,
                fields,
                exchanged: false,
            }) if fields.is_empty() => Err(format!("{object} has no `fields` that may differ")),
            Self::Event(EventMay {
                at_least,
                at_most,
                event,
                ..
            }) if at_least > at_most => Err(format!(
                "{event}: no number is at least {at_least} and at most {at_most}"
            )),
            _ => Ok(read),
        }
    }
}

impl fmt::Display for May {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields(FieldsMay {
                object,
                fields,
                exchanged,
            }) => {
                let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                let fields = match fields.is_empty() {
                    true => "all fields".to_owned(),
                    false => fields.join(", "),
                };
                let how = if *exchanged { ", exchanged" } else { "" };
                write!(f, "{fields} of {object}{how}")
            }
            Self::Event(may) => {
                let EventMay {
                    event,
                    regarding,
                    at_least,
                    at_most,
                } = may;
                write!(f, "{at_least} to {at_most} events {event} of {regarding}")
            }
            Self::Failure(FailureMay { failing_step }) => write!(f, "step {failing_step} fails"),
            Self::Violation(ViolationMay { violates }) => write!(f, "violates {violates:?}"),
        }
    }
}

impl FieldsMay {
    /// Whether this field of this object is one of them.
    #[must_use]
    pub fn fits(&self, kind: &str, name: &str, field: &str) -> bool {
        self.object.fits(kind, name) && (self.fields.is_empty() || self.fields.contains(field))
    }
}

impl ObjectPattern {
    /// Whether the object is one of these.
    #[must_use]
    pub fn fits(&self, kind: &str, name: &str) -> bool {
        let is_named = match self.is_beginning {
            true => name.starts_with(&self.name),
            false => name == self.name,
        };
        self.kind == kind && is_named
    }
}

impl TryFrom<String> for ObjectPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an object, such as `pod/web-1` or `pod/web-*`");
        let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
        let stem = name.trim_end_matches(REST);
        if kind.is_empty() || name.is_empty() || stem.contains(REST) {
            return Err(wrong());
        }
        Ok(Self {
            kind: kind.to_owned(),
            name: stem.to_owned(),
            is_beginning: stem.len() < name.len(),
        })
    }
}

impl fmt::Display for ObjectPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.is_beginning { "*" } else { "" };
        write!(f, "{}/{}{rest}", self.kind, self.name)
    }
}
