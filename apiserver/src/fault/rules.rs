//! The faults of a server, and the effects on requests and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::branches::{Branches, Takes};
use super::deposed::{Deposed, Holder};
use super::points::{Hit, Point, Points};
use super::request_facts::RequestFacts;
use super::rule::{Rule, hit};
use super::{Effect, Fault, WebhookFailure};
use crate::clock::Clock;
use crate::json::Value;
use crate::meta::ResourceVersion;
use crate::storage::EventType;

/// The number of remembered hits: a lasting fault meets every request.
const HITS_MAX: usize = 10_000;

/// The rules of a server.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    clock: Clock,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    rules: Mutex<Vec<Rule>>,
    /// The number of rules in force, plus one if points are recorded: most servers have neither.
    in_force: AtomicUsize,
    /// Wakes watches that a fault holds.
    lifted: Notify,
    points: Mutex<Option<Points>>,
    branches: Mutex<Option<Branches>>,
    /// Requests and events met, in order.
    hits: Mutex<Vec<Hit>>,
    crashes: watch::Sender<u64>,
    /// The holders of leases who have lost them and do not know it.
    deposed: Deposed,
    /// The last time up to which a watch misses events.
    missing: Mutex<Option<Timestamp>>,
}

/// The effects of faults on a request, and the point that it is.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// At most the effect of a planned fault, then that of an injected one.
    pub(crate) effects: Vec<Effect>,
    /// The index of the point that the request is.
    point: Option<usize>,
}

impl Met {
    /// How the request's calls of webhooks fail.
    pub(crate) fn webhook_failure(&self) -> Option<WebhookFailure> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Webhooks(failure) => Some(*failure),
            _ => None,
        })
    }
}

/// The next step of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Deliver,
    /// Break off.
    BreakOff,
}

/// The distortion of the state that a list or watch sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The number of writes that the view lags.
    pub(crate) lag: u64,
    /// The period in which one batch of events is delivered.
    pub(crate) batch: Option<Duration>,
    /// Bookmarks are withheld.
    pub(crate) withholds_bookmarks: bool,
    /// The time at which the faults of this view may end.
    pub(crate) ends: Option<Timestamp>,
}

/// The effect of a fault on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventEffect {
    Break,
    Expire,
    MissEvents(Duration),
    Late(Duration),
}

impl Faults {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State {
            rules: Mutex::default(),
            in_force: AtomicUsize::new(0),
            lifted: Notify::new(),
            points: Mutex::default(),
            branches: Mutex::default(),
            hits: Mutex::default(),
            crashes: watch::Sender::new(0),
            deposed: Deposed::default(),
            missing: Mutex::default(),
        };
        Self {
            clock,
            state: Arc::new(state),
        }
    }

    pub(crate) fn inject(&self, fault: Fault) {
        self.add(fault, false);
    }

    /// Adds a fault that meets requests before the faults of [`Self::inject`], which count only the
    /// requests that reach them.
    pub(crate) fn plan(&self, fault: Fault) {
        self.add(fault, true);
    }

    fn add(&self, fault: Fault, is_planned: bool) {
        let rule = Rule::new(fault, is_planned, self.clock.now());
        self.state.rules.lock().push(rule);
        self.state.in_force.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn lift(&self, name: &str) -> bool {
        let mut found = false;
        for rule in self.state.rules.lock().iter_mut() {
            if rule.fault.name == name && !rule.is_lifted {
                rule.is_lifted = true;
                self.state.in_force.fetch_sub(1, Ordering::SeqCst);
                found = true;
            }
        }
        self.state.lifted.notify_waiters();
        found
    }

    pub(crate) fn met(&self) -> Vec<(Fault, u32)> {
        let rules = self.state.rules.lock();
        let met = rules.iter().map(|rule| (rule.fault.clone(), rule.met));
        met.collect()
    }

    /// Begins to record the points that faults could affect.
    pub(crate) fn record_points(&self) {
        let before = self.state.points.lock().replace(Points::default());
        if before.is_none() {
            self.state.in_force.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Lets `branches` decide, from now on, where the faults of plans strike.
    pub(crate) fn branch(&self, plans: Vec<Vec<Fault>>, takes: Takes) {
        let place = self.state.rules.lock().len();
        let branches = Branches::new(plans, place, takes, self.clock.now());
        if self.state.branches.lock().replace(branches).is_none() {
            self.state.in_force.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Asks whether a branch begins here; the rules of the plan taken are in force from then on.
    fn branch_off(&self, asked: &RequestFacts, is_event: bool, now: Timestamp) {
        let mut branches = self.state.branches.lock();
        let Some(open) = &mut *branches else {
            return;
        };
        if let Some(taken) = open.pass(asked, is_event, now) {
            self.state
                .in_force
                .fetch_add(taken.rules.len(), Ordering::SeqCst);
            let mut rules = self.state.rules.lock();
            rules.splice(taken.place..taken.place, taken.rules);
            // There are no branches any more, so one less is in force.
            *branches = None;
            self.state.in_force.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The points recorded so far.
    pub(crate) fn points(&self) -> Vec<Point> {
        let points = self.state.points.lock();
        points.as_ref().map(Points::passed).unwrap_or_default()
    }

    /// The first hits of faults, in order.
    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.state.hits.lock().clone()
    }

    fn note_hit(
        &self,
        fault: &Fault,
        asked: &RequestFacts,
        (what, after_rv): (&str, ResourceVersion),
    ) {
        let name = asked.name.as_ref().map(|name| format!(" {name}"));
        let (resource, from) = (asked.resource_text(), asked.product());
        let mut hits = self.state.hits.lock();
        if hits.len() >= HITS_MAX {
            return;
        }
        hits.push(Hit {
            fault: fault.name.clone(),
            after_rv,
            time: self.clock.now(),
            what: format!("{what} {resource}{} from {from}", name.unwrap_or_default()),
        });
    }

    /// The number of clients that have died.
    pub(crate) fn crashes(&self) -> watch::Receiver<u64> {
        self.state.crashes.subscribe()
    }

    /// Notes the death of a request's client, and never returns: the client awaits no answer.
    pub(crate) async fn crash(&self) -> std::convert::Infallible {
        self.state.crashes.send_modify(|crashes| *crashes += 1);
        std::future::pending().await
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state.in_force.load(Ordering::SeqCst) == 0
    }

    /// The effects on a request: at most that of a planned fault, then that of an injected fault if
    /// the request gets through. `rv` is the version of the last write.
    pub(crate) fn meet(
        &self,
        asked: Option<RequestFacts>,
        body: &[u8],
        rv: ResourceVersion,
    ) -> Met {
        if self.is_idle() {
            return Met::default();
        }
        let Some(asked) = asked.map(|asked| asked.named_in(body)) else {
            return Met::default();
        };
        let now = self.clock.now();
        let mut points = self.state.points.lock();
        let point = points.as_mut().map(|points| points.pass(&asked, None, rv));
        drop(points);
        self.branch_off(&asked, false, now);
        let mut effects = Vec::new();
        let mut rules = self.state.rules.lock();
        for is_planned in [true, false] {
            let active = rules.iter_mut().filter(|rule| {
                let effect = &rule.fault.effect;
                let is_of_requests = !effect.is_of_events()
                    && !effect.is_of_views()
                    && !matches!(effect, Effect::Repeat(_));
                is_of_requests && rule.is_planned == is_planned
            });
            if let Some(rule) = hit(active, &asked, now) {
                self.note_hit(&rule.fault, &asked, (asked.verb_text(), rv));
                effects.push(rule.fault.effect.clone());
            }
            if effects.iter().any(|effect| !effect.reaches_server()) {
                break;
            }
        }
        Met { effects, point }
    }

    /// Notes that a request has called webhooks.
    pub(crate) fn note_webhooks(&self, met: &Met) {
        if let (Some(point), Some(points)) = (met.point, &mut *self.state.points.lock()) {
            points.call_webhooks(point);
        }
    }

    /// The effect on an event about the object `name` before its delivery.
    pub(crate) fn meet_event(
        &self,
        watch: &RequestFacts,
        (name, event, rv): (&str, EventType, ResourceVersion),
    ) -> Option<EventEffect> {
        if self.is_idle() {
            return None;
        }
        let (mut watch, now) = (watch.clone(), self.clock.now());
        watch.name = Some(name.to_owned());
        if let Some(points) = &mut *self.state.points.lock() {
            points.pass(&watch, Some(event), rv);
        }
        self.branch_off(&watch, true, now);
        let mut rules = self.state.rules.lock();
        let rule = [true, false].into_iter().find_map(|is_planned| {
            let active = rules
                .iter_mut()
                .filter(|rule| rule.fault.effect.is_of_events() && rule.is_planned == is_planned);
            let rule = hit(active, &watch, now)?;
            self.note_hit(&rule.fault, &watch, (event.as_str(), rv));
            Some(rule.fault.effect.clone())
        });
        match rule? {
            Effect::Break => Some(EventEffect::Break),
            Effect::Expire => Some(EventEffect::Expire),
            Effect::MissEvents(time) => {
                self.withhold(now, time);
                Some(EventEffect::MissEvents(time))
            }
            Effect::Late(time) => {
                self.withhold(now, time);
                Some(EventEffect::Late(time))
            }
            _ => None,
        }
    }

    /// Notes that a holder has lost `lease`, and does not know it for `time`.
    pub(crate) fn depose(&self, holder: Holder, lease: Value, time: Duration) {
        let now = self.clock.now();
        let over = now.checked_add(time).unwrap_or(Timestamp::MAX);
        self.state.deposed.insert(holder, lease, over);
        self.withhold(now, time);
    }

    /// Whether a holder has lost this lease and does not know it yet.
    pub(crate) fn have_lost(&self, lease: (&str, &str)) -> bool {
        self.state.deposed.have_lost(lease, self.clock.now())
    }

    /// Lets holders renew a lease that they have lost, as [`Deposed::renew`] says.
    ///
    /// # Errors
    /// The error of `renewed`.
    pub(crate) fn renew_lost<E>(
        &self,
        lease: (&str, &str),
        renewed: impl Fn(&str, &Value) -> Result<Option<Value>, E>,
    ) -> Result<Option<Value>, E> {
        self.state.deposed.renew(lease, self.clock.now(), renewed)
    }

    /// Notes that a watch misses events for `time`.
    fn withhold(&self, now: Timestamp, time: Duration) {
        let over = now.checked_add(time).unwrap_or(Timestamp::MAX);
        let mut missing = self.state.missing.lock();
        *missing = (*missing).max(Some(over));
    }

    /// The last time up to which a fault in force withholds events or the present state from clients; `None` without
    /// such a fault, and for faults that last until they are lifted.
    pub(crate) fn withheld_until(&self) -> Option<Timestamp> {
        if self.is_idle() {
            return None;
        }
        let now = self.clock.now();
        let rules = self.state.rules.lock();
        let lasting = rules.iter().filter(|rule| {
            let withholds = matches!(
                rule.fault.effect,
                Effect::Hold | Effect::Batch(_) | Effect::Stale(_) | Effect::Unreachable
            );
            withholds && !rule.is_over(now)
        });
        let ends = lasting.filter_map(|rule| rule.ends).max();
        let missing = self.state.missing.lock().filter(|over| *over > now);
        ends.max(missing)
    }

    /// The number of past events that a resumed watch repeats.
    pub(crate) fn meet_resumption(&self, watch: &RequestFacts) -> u32 {
        if self.is_idle() {
            return 0;
        }
        let now = self.clock.now();
        let mut rules = self.state.rules.lock();
        let mut repeating = rules.iter_mut().filter_map(|rule| match rule.fault.effect {
            Effect::Repeat(events) => Some((rule, events)),
            _ => None,
        });
        let met = repeating.find_map(|(rule, events)| rule.meets(watch, now).then_some(events));
        met.unwrap_or(0)
    }

    /// The view that a list or watch has of the server now.
    pub(crate) fn view(&self, asked: &RequestFacts) -> View {
        if self.is_idle() {
            return View::default();
        }
        let now = self.clock.now();
        let mut view = View::default();
        for rule in &*self.state.rules.lock() {
            if !rule.is_about(asked, now) {
                continue;
            }
            match rule.fault.effect {
                Effect::Stale(writes) => view.lag = view.lag.max(writes),
                Effect::Batch(time) => view.batch = Some(time),
                Effect::WithholdBookmarks => view.withholds_bookmarks = true,
                _ => continue,
            }
            view.ends = match (view.ends, rule.ends) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        view
    }

    /// Returns when a rule is lifted.
    pub(crate) fn lifted(&self) -> tokio::sync::futures::Notified<'_> {
        self.state.lifted.notified()
    }

    /// The duration until `time`.
    pub(crate) fn until(&self, time: Timestamp) -> Duration {
        let wait = time.duration_since(self.clock.now());
        Duration::try_from(wait).unwrap_or_default()
    }

    /// Returns when no fault holds the watch any more.
    ///
    /// Cancel safety: only the counts of matched rules change.
    pub(crate) async fn let_deliver(&self, watch: &RequestFacts) -> Turn {
        let mut is_counted = false;
        while !self.is_idle() {
            let mut lifted = std::pin::pin!(self.state.lifted.notified());
            lifted.as_mut().enable();
            let now = self.clock.now();
            let until = {
                let mut rules = self.state.rules.lock();
                let mut over = rules.iter_mut().filter(|rule| rule.is_about(watch, now));
                let Some(rule) = over
                    .find(|rule| matches!(rule.fault.effect, Effect::Hold | Effect::Unreachable))
                else {
                    return Turn::Deliver;
                };
                if rule.fault.effect == Effect::Unreachable {
                    return Turn::BreakOff;
                }
                rule.met += u32::from(!is_counted);
                is_counted = true;
                rule.ends
            };
            match until {
                None => lifted.await,
                Some(ends) => {
                    let wait = ends.duration_since(now).unsigned_abs();
                    tokio::select! {
                        biased;
                        () = lifted => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
        Turn::Deliver
    }
}
