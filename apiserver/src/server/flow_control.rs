//! API Priority and Fairness (KEP-1040): the FlowSchema of each request, and a seat for it in the
//! schema's priority level.

mod counters;
mod dangling;
mod dropped;
mod level;
mod rules;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use parking_lot::RwLock;

use crate::auth::{Attributes, User};
use crate::clock::{Clock, nanos_between};
use crate::json::Value;
use crate::meta::GroupVersionResource;
use crate::meta::object::{meta, name};
use crate::metrics::Metrics;
use crate::metrics::families::Family;
use crate::storage::{Snapshot, Storage, StoredObject, Table};

use counters::Counters;
use level::{Entry, Level, Limits, Place, Reason};
use rules::Rules;

pub(super) use dangling::after_write;

/// What part of its time a request may wait for a seat.
const WAIT_PART: u32 = 4;

/// A FlowSchema with its priority level.
#[derive(Debug)]
pub(super) struct Flow {
    name: String,
    /// The uids of the FlowSchema and of the level.
    pub(super) schema_uid: HeaderValue,
    pub(super) level_uid: HeaderValue,
    precedence: i64,
    rules: Rules,
    distinguisher: Option<Distinguisher>,
    level: Arc<Level>,
    counters: Arc<Counters>,
}

/// The attribute that distinguishes the flows of a FlowSchema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinguisher {
    User,
    Namespace,
}

/// The FlowSchemas in the order of matching, read again when they change.
#[derive(Debug, Default)]
pub(crate) struct FlowControl {
    tables: OnceLock<[Arc<Table>; 2]>,
    flows: RwLock<Option<Arc<Flows>>>,
}

#[derive(Debug)]
struct Flows {
    schemas: Snapshot,
    levels: Snapshot,
    sorted: Vec<Arc<Flow>>,
    by_name: BTreeMap<String, Arc<Level>>,
}

/// A request that is about to execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatRequest<'r> {
    pub(super) user: &'r User,
    pub(super) attributes: &'r Attributes<'r>,
    /// The time when the request asks for its seat.
    pub(super) arrived: Timestamp,
    /// The time limit of the whole request.
    pub(super) timeout: Duration,
    pub(super) is_watch: bool,
    pub(super) is_mutating: bool,
    /// The metrics that count the waiting request.
    pub(super) metrics: &'r Metrics,
}

/// The seat of a request that executes, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat<'c> {
    flow: Arc<Flow>,
    clock: &'c Clock,
    pub(super) since: Timestamp,
    /// The nanoseconds that the request waited for the seat.
    pub(super) waited: u64,
    is_watch: bool,
}

/// A request that got no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany {
    /// Seconds after which the client may retry.
    pub(super) retry_after: u64,
}

impl FlowControl {
    /// The first flow that matches the request; `None` without FlowSchemas.
    pub(super) fn classify(
        &self,
        storage: &Storage,
        user: &User,
        attributes: &Attributes<'_>,
    ) -> Option<Arc<Flow>> {
        let flows = self.flows(storage);
        let mut sorted = flows.sorted.iter();
        sorted
            .find(|flow| flow.rules.take(user, attributes))
            .map(Arc::clone)
    }

    /// The metrics of all levels and FlowSchemas.
    pub(super) fn families(&self, storage: &Storage) -> Vec<Family> {
        let flows = self.flows(storage);
        let levels: Vec<&Level> = flows.by_name.values().map(|level| &**level).collect();
        let mut sorted: Vec<&Flow> = flows.sorted.iter().map(|flow| &**flow).collect();
        sorted.sort_by_key(|flow| &flow.name);
        counters::families(&levels, &sorted)
    }

    fn flows(&self, storage: &Storage) -> Arc<Flows> {
        let [schemas, levels] = self.tables.get_or_init(|| {
            ["flowschemas", "prioritylevelconfigurations"].map(|resource| {
                storage.table(&GroupVersionResource {
                    group: "flowcontrol.apiserver.k8s.io".to_owned(),
                    version: "v1".to_owned(),
                    resource: resource.to_owned(),
                })
            })
        });
        let is_current =
            |flows: &Flows| schemas.is_as_in(&flows.schemas) && levels.is_as_in(&flows.levels);
        if let Some(flows) = self.flows.read().as_ref().filter(|flows| is_current(flows)) {
            return Arc::clone(flows);
        }
        let mut held = self.flows.write();
        // Another request may have read them meanwhile. What is read under the lock is never older.
        if let Some(flows) = held.as_ref().filter(|flows| is_current(flows)) {
            return Arc::clone(flows);
        }
        let (schemas, levels) = (schemas.snapshot(), levels.snapshot());
        let flows = Arc::new(Flows::new(schemas, levels, held.as_deref()));
        *held = Some(Arc::clone(&flows));
        flows
    }
}

impl Flows {
    /// Levels and counts are those of `before`, as far as there are any.
    fn new(schemas: Snapshot, levels: Snapshot, before: Option<&Self>) -> Self {
        let objects: Vec<Arc<Value>> = levels.range(None, None).map(|own| own.value()).collect();
        let shares = objects.iter().map(|own| level::shares_of(own)).sum();
        let by_name = objects.iter().map(|object| {
            let name = name(object);
            let held = before.and_then(|before| before.by_name.get(name));
            let level = held.map_or_else(|| Arc::new(Level::new(name)), Arc::clone);
            level.configure(object, Limits::of(object, shares));
            (name.to_owned(), level)
        });
        let by_name: BTreeMap<String, Arc<Level>> = by_name.collect();
        let uids = objects.iter().map(|object| (name(object), uid(object)));
        let uids: BTreeMap<&str, Option<HeaderValue>> = uids.collect();
        let flow = |schema: &Arc<StoredObject>| {
            let schema = schema.value();
            let wanted = schema["spec"]["priorityLevelConfiguration"]["name"].as_str()?;
            let level = by_name.get(wanted)?;
            let is_same =
                |flow: &&Arc<Flow>| flow.name == name(&schema) && flow.level.name == level.name;
            let held = before.and_then(|before| before.sorted.iter().find(is_same));
            Some(Arc::new(Flow {
                name: name(&schema).to_owned(),
                schema_uid: uid(&schema)?,
                level_uid: uids.get(wanted)?.clone()?,
                precedence: schema["spec"]["matchingPrecedence"].as_i64().unwrap_or(0),
                rules: Rules::of(&schema),
                distinguisher: distinguisher(&schema),
                level: Arc::clone(level),
                counters: held.map_or_else(Arc::default, |flow| Arc::clone(&flow.counters)),
            }))
        };
        let mut sorted: Vec<_> = schemas.range(None, None).filter_map(flow).collect();
        // Stable: those of one precedence stay in the order of their names.
        sorted.sort_by_key(|flow| flow.precedence);
        Self {
            schemas,
            levels,
            sorted,
            by_name,
        }
    }
}

fn uid(object: &Value) -> Option<HeaderValue> {
    HeaderValue::from_str(meta(object, "uid")).ok()
}

fn distinguisher(schema: &Value) -> Option<Distinguisher> {
    match schema["spec"]["distinguisherMethod"]["type"].as_str()? {
        "ByUser" => Some(Distinguisher::User),
        "ByNamespace" => Some(Distinguisher::Namespace),
        _ => None,
    }
}

impl Flow {
    /// Takes a seat, or waits for one in a queue of the level.
    ///
    /// # Errors
    /// [`TooMany`] when the level refuses the request, or has no seat in time.
    ///
    /// # Cancel safety
    /// A call that is dropped gives up its place or seat.
    pub(super) async fn seat<'c>(
        self: &Arc<Self>,
        request: SeatRequest<'_>,
        clock: &'c Clock,
    ) -> Result<Seat<'c>, TooMany> {
        let mut since = request.arrived;
        let mut waited = 0;
        if !self.level.is_exempt {
            let entry = self.level.enter(|| self.hash(&request));
            let has_waited = matches!(entry, Entry::Waits(_));
            let outcome = match entry {
                Entry::Seated => Ok(()),
                Entry::Refused(reason) => Err(reason),
                Entry::Waits(place) => {
                    let _queued = request.metrics.in_queue(request.is_mutating);
                    self.wait(place, request.timeout / WAIT_PART).await
                }
            };
            if has_waited {
                let arrived = std::mem::replace(&mut since, clock.now());
                waited = nanos_between(arrived, since);
            }
            self.counters.waited(outcome.is_ok(), waited);
            if let Err(reason) = outcome {
                self.counters.refused(reason);
                let retry_after = self.level.refuse(since.as_second());
                return Err(TooMany { retry_after });
            }
        }
        self.counters.began();
        Ok(Seat {
            flow: Arc::clone(self),
            clock,
            since,
            waited,
            is_watch: request.is_watch,
        })
    }

    async fn wait(&self, place: Place, limit: Duration) -> Result<(), Reason> {
        let _queued = Queued::new(&self.counters, place.length);
        let seated = tokio::time::timeout(limit, place.seat()).await;
        seated.map_err(|_| Reason::TimeOut)
    }

    fn hash(&self, request: &SeatRequest<'_>) -> u64 {
        // The hasher's keys are fixed, so that a flow is dealt the same queues in every run.
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        match (self.distinguisher, request.attributes) {
            (Some(Distinguisher::User), _) => request.user.name.hash(&mut hasher),
            (Some(Distinguisher::Namespace), Attributes::Resource { namespace, .. }) => {
                namespace.hash(&mut hasher);
            }
            (Some(Distinguisher::Namespace) | None, _) => {}
        }
        hasher.finish()
    }
}

/// Counts a request as waiting until it is dropped.
struct Queued<'c>(&'c Counters);

impl<'c> Queued<'c> {
    fn new(counters: &'c Counters, length: usize) -> Self {
        counters.queued(length);
        Self(counters)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.unqueued();
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let nanos = nanos_between(self.since, self.clock.now());
        self.flow.counters.ended(self.is_watch, nanos);
        if !self.flow.level.is_exempt {
            self.flow.level.leave();
        }
    }
}
