//! A run as lanes: a lane for each object, a column for each write that a timeline shows.
//!
//! Virtual time has long silences and many writes in one instant, so the axis is one of columns: each
//! write has its own, in order; between instants there is more room the more time passes, and a
//! gap that is marked as such where it is more than a minute.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubeproof_apiserver::fault::Hit;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_controller::kruise;
use kubeproof_machinery::json::Value;
use serde::{Deserialize, Serialize};

use super::state::{self, Shown};
use crate::generated::GeneratedNames;
use crate::outcome::mask_uids;
use crate::refusals::Refusal;
use crate::runner::{Run, Taken};
use crate::timeline::{Timeline, since};
use crate::user_agent::actor;

/// Room before the first column and after the last.
const MARGIN: u32 = 16;
/// Room between two writes of one instant.
const BESIDE: u32 = 14;
/// Room in which two neighboring times can be read.
const LATER: u32 = 34;
/// The room that a minute has; more time is a gap.
const GAP: u32 = 64;
/// More time than this is left out.
const GAP_SECONDS: f64 = 60.0;
/// The maximum number of equal wire events shown for each step.
const REPETITIONS_MAX: usize = 5;
/// The maximum number of requests and events listed for a fault that met several at once.
const MET_LISTED: usize = 4;
/// The lane of faults and refusals on the wire.
const WIRE: &str = "faults and refusals";

/// The lanes of a run, in the numbers of its picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chart {
    /// The width of the picture.
    #[serde(rename = "w")]
    pub width: u32,
    /// The positions at which steps begin, with their headings.
    pub steps: Vec<(u32, String)>,
    /// Times since their step began, where they begin.
    pub ticks: Vec<(u32, String)>,
    /// Time left out, with how long it is.
    pub gaps: Vec<(u32, String)>,
    /// The lanes, from the top.
    pub lanes: Vec<Lane>,
    /// The events of the run.
    pub marks: Vec<Mark>,
}

/// The life of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// `pod`, `statefulset`.
    #[serde(rename = "k")]
    pub kind: String,
    /// The name of the object.
    #[serde(rename = "n")]
    pub name: String,
    /// The states of the object in order: from, to, state.
    #[serde(rename = "s")]
    pub spans: Vec<(u32, u32, Shown)>,
}

/// An event of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The horizontal position.
    pub x: u32,
    /// The index of the lane.
    #[serde(rename = "l")]
    pub lane: usize,
    /// The kind of the event.
    #[serde(rename = "k")]
    pub kind: MarkKind,
    /// The time since the step began.
    #[serde(rename = "t")]
    pub time: String,
    /// The product in the user agent of the actor, or `fault`.
    #[serde(rename = "by")]
    pub actor: String,
    /// The description of the event.
    #[serde(rename = "w")]
    pub what: String,
    /// The version of the write; for other marks, the version of the write before.
    pub rv: ResourceVersion,
    /// The number of requests and events that a fault met at once.
    #[serde(rename = "c", default = "one", skip_serializing_if = "is_one")]
    pub count: usize,
}

fn one() -> usize {
    1
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

/// The kind of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    /// An object is created.
    Created,
    /// An object is changed.
    Write,
    /// An object is marked for deletion.
    Deleting,
    /// An object is gone.
    Gone,
    /// A Warning is reported.
    Warning,
    /// A write is refused.
    Refused,
    /// A fault strikes.
    Fault,
}

/// An item that gets a column.
struct Item<'a> {
    /// The position: the version that the item follows, and the order after that version.
    at: (ResourceVersion, u8),
    time: Timestamp,
    of: Of<'a>,
}

enum Of<'a> {
    Write(&'a JournalEntry),
    Refusal(&'a Refusal),
    Hit(&'a Hit),
}

type Key = (u8, String, String, String);

/// An object's lane while it is drawn.
#[derive(Default)]
struct Life {
    kind: String,
    spans: Vec<(u32, u32, Shown)>,
    /// The state now, and since where.
    now: Option<(u32, Shown)>,
    is_shown: bool,
}

impl Life {
    fn become_(&mut self, x: u32, shown: Option<Shown>) {
        if self.now.as_ref().map(|(_, shown)| shown) == shown.as_ref() {
            return;
        }
        if let Some((from, before)) = self.now.take()
            && from < x
        {
            self.spans.push((from, x, before));
        }
        self.now = shown.map(|shown| (x, shown));
    }
}

impl Chart {
    /// The lanes of `run`, from its first step on.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let names = GeneratedNames::of(&run.journal);
        let mut drawing = Drawing::new(&run.steps, &names);
        let first_rv = run
            .steps
            .first()
            .map_or(ResourceVersion::MAX, |step| step.after_rv);
        for item in items(run) {
            match item.of {
                Of::Write(entry) if entry.rv <= first_rv => drawing.know(entry),
                Of::Write(entry) => drawing.write(entry),
                Of::Refusal(refusal) => drawing.wire(
                    MarkKind::Refused,
                    (item.at.0, item.time),
                    (actor(&refusal.user_agent), refusal.what.clone()),
                ),
                Of::Hit(hit) => drawing.meet((item.at.0, item.time), hit),
            }
        }
        drawing.finish()
    }
}

/// Whether `step` had begun when something happened on the wire at `time`, after the write of `rv`. Several steps may
/// begin after the same write.
fn had_begun(step: &Taken, (rv, time): (ResourceVersion, Timestamp)) -> bool {
    step.after_rv < rv || step.after_rv == rv && step.began <= time
}

/// Returns the items that may get a column, in order.
fn items(run: &Run) -> Vec<Item<'_>> {
    let step = |at: (ResourceVersion, Timestamp)| {
        let began = run.steps.iter().filter(|step| had_begun(step, at));
        began.count()
    };
    let writes = run.journal.iter().map(|entry| Item {
        at: (entry.rv, 0),
        time: entry.time,
        of: Of::Write(entry),
    });
    let mut items: Vec<Item<'_>> = writes.collect();
    // Counts equal reports by step, actor and words.
    let mut times: BTreeMap<(usize, &str, &str), usize> = BTreeMap::new();
    let of_refusals = run.refusals.iter().map(|refusal| {
        let said = (&*refusal.user_agent, &*refusal.what);
        (
            refusal.after_rv,
            2,
            refusal.time,
            said,
            Of::Refusal(refusal),
        )
    });
    let of_meetings = run.hits.iter().map(|hit| {
        let said = (&*hit.fault, &*hit.what);
        (hit.after_rv, 1, hit.time, said, Of::Hit(hit))
    });
    for (after_rv, place, time, (who, what), of) in of_meetings.chain(of_refusals) {
        let begun = step((after_rv, time));
        let times = times.entry((begun, who, what)).or_default();
        *times += 1;
        if *times <= REPETITIONS_MAX {
            items.push(Item {
                at: (after_rv, place),
                time,
                of,
            });
        }
    }
    items.sort_by_key(|item| (item.at.0, item.at.1 > 0, item.time, item.at.1));
    items
}

struct Drawing<'a> {
    chart: Chart,
    timeline: Timeline,
    names: &'a GeneratedNames,
    steps: &'a [Taken],
    /// The number of steps that have begun.
    begun: usize,
    /// The instant of the last column.
    instant: Option<Timestamp>,
    /// The last tick's place: those too near to it are left out.
    ticked: Option<u32>,
    x: u32,
    lives: BTreeMap<Key, Life>,
    /// Marks with the keys of their lanes.
    marks: Vec<(Key, Mark)>,
    /// The requests and events that the fault of the last mark met, if that mark is a fault's.
    met: Vec<&'a Hit>,
}

impl<'a> Drawing<'a> {
    fn new(steps: &'a [Taken], names: &'a GeneratedNames) -> Self {
        Self {
            chart: Chart::default(),
            timeline: Timeline::default(),
            names,
            steps,
            begun: 0,
            instant: None,
            ticked: None,
            x: MARGIN,
            lives: BTreeMap::new(),
            marks: Vec::new(),
            met: Vec::new(),
        }
    }

    /// Notes an object from before the first step.
    fn know(&mut self, entry: &JournalEntry) {
        self.timeline.learn(entry);
        self.live(entry, 0);
    }

    /// Draws a write: a column if the timeline shows it, and a change of its object's state in any case.
    fn write(&mut self, entry: &JournalEntry) {
        let changes = self.timeline.words_of(entry);
        let x = match changes.is_empty() {
            true => self.x,
            false => self.column(entry.time, |step| step.after_rv < entry.rv),
        };
        if !changes.is_empty() {
            let key = lane_key(subject(entry), self.names);
            self.life(&key, subject(entry)).is_shown = true;
            let (actor, what) = (actor(&entry.user_agent).to_owned(), changes.join("; "));
            let mark = self.mark((x, kind_of(entry)), (entry.rv, entry.time), (actor, what));
            self.marks.push((key, mark));
        }
        self.live(entry, x);
    }

    /// Draws a fault that strikes; consecutive strikes in one instant are one mark.
    fn meet(&mut self, (rv, time): (ResourceVersion, Timestamp), hit: &'a Hit) {
        let goes_on = match (self.met.last(), self.marks.last()) {
            (Some(last), Some((_, mark))) => {
                (&last.fault, last.time) == (&hit.fault, time)
                    && (mark.x, mark.kind) == (self.x, MarkKind::Fault)
            }
            _ => false,
        };
        if !goes_on {
            self.met.clear();
            let what = format!("{}: {}", hit.fault, hit.what);
            let before = self.marks.len();
            self.wire(MarkKind::Fault, (rv, time), ("fault", what));
            // Faults before the first step have none.
            self.met.extend((self.marks.len() > before).then_some(hit));
            return;
        }
        self.met.push(hit);
        let hits = self
            .met
            .iter()
            .take(MET_LISTED)
            .map(|met| met.what.as_str());
        let mut what = format!("{}: {}", hit.fault, hits.collect::<Vec<_>>().join("; "));
        if let more @ 1.. = self.met.len().saturating_sub(MET_LISTED) {
            what.push_str(&format!("; and {more} more"));
        }
        let what = self.masked(&what);
        if let Some((_, mark)) = self.marks.last_mut() {
            mark.count = self.met.len();
            mark.what = what;
        }
    }

    /// Draws an event on the wire, in the lane of such events.
    fn wire(
        &mut self,
        kind: MarkKind,
        (rv, time): (ResourceVersion, Timestamp),
        (actor, what): (&str, String),
    ) {
        let Some(first) = self.steps.first() else {
            return;
        };
        if time < first.began {
            return;
        }
        let key = (0, WIRE.to_owned(), String::new(), String::new());
        let life = self.lives.entry(key.clone()).or_default();
        life.is_shown = true;
        let x = self.column(time, |step| had_begun(step, (rv, time)));
        let mark = self.mark((x, kind), (rv, time), (actor.to_owned(), what));
        self.marks.push((key, mark));
    }

    fn mark(
        &self,
        (x, kind): (u32, MarkKind),
        (rv, time): (ResourceVersion, Timestamp),
        (actor, what): (String, String),
    ) -> Mark {
        let began = self.steps[self.begun.saturating_sub(1)].began;
        Mark {
            x,
            lane: 0,
            kind,
            time: since(began, time),
            actor,
            what: self.masked(&what),
            rv,
            count: 1,
        }
    }

    /// Returns the position of the next column, which is of `time` and after the steps that had begun.
    fn column(&mut self, time: Timestamp, had_begun: impl Fn(&Taken) -> bool) -> u32 {
        let is_first = self.instant.is_none();
        let mut begins = false;
        while let Some(step) = self.steps.get(self.begun).filter(|step| had_begun(step)) {
            self.begun += 1;
            begins = true;
            // Steps without writes are drawn next to each other.
            self.pass(step.began, is_first && self.begun == 1);
            self.chart.steps.push((self.x, self.masked(&step.heading)));
            self.instant = Some(step.began);
        }
        self.pass(time, false);
        if begins {
            self.x += BESIDE;
        }
        let began = self.steps[self.begun.saturating_sub(1)].began;
        if self.instant != Some(time) || begins {
            self.tick(since(began, time));
        }
        self.instant = Some(time);
        self.x
    }

    /// Leaves room for the time from the last column to `time`.
    fn pass(&mut self, time: Timestamp, is_first: bool) {
        let Some(before) = self.instant else {
            return;
        };
        let elapsed = time.duration_since(before).unsigned_abs();
        let seconds = elapsed.as_secs_f64();
        if is_first {
            return;
        }
        if seconds > GAP_SECONDS {
            let middle = self.x + GAP / 2;
            let words = crate::scenario::HumanDuration(elapsed).to_string();
            self.chart.gaps.push((middle, words));
            self.x += GAP;
        } else if seconds > 0.0 {
            // A second has half the room of a minute, so that either can be read.
            let share = (1.0 + seconds).ln() / (1.0 + GAP_SECONDS).ln();
            let room = f64::from(GAP - LATER) * share;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between nothing and GAP"
            )]
            let room = room.round() as u32;
            self.x += LATER + room;
        } else {
            self.x += BESIDE;
        }
    }

    fn tick(&mut self, words: String) {
        if self.ticked.is_none_or(|ticked| self.x >= ticked + LATER) {
            self.chart.ticks.push((self.x, words));
            self.ticked = Some(self.x);
        }
    }

    /// Changes the state of the written object's lane at `x`.
    fn live(&mut self, entry: &JournalEntry, x: u32) {
        let resource = entry.gvr.resource.as_str();
        if resource == "events" {
            return;
        }
        let shown = match entry.event {
            EventType::Deleted => None,
            EventType::Added | EventType::Modified => Some(state::shown(
                resource,
                &entry.object,
                self.timeline.revisions(),
            )),
        };
        let subject = subject(entry);
        let key = lane_key(subject.clone(), self.names);
        let is_present = shown.is_some();
        let life = self.life(&key, subject);
        life.become_(x, shown);
        // Existing objects are shown, even if nothing happens to them.
        life.is_shown |= is_present && matches!(resource, "pods" | "statefulsets" | "clonesets");
    }

    fn life(&mut self, key: &Key, subject: Subject) -> &mut Life {
        let life = self.lives.entry(key.clone()).or_default();
        life.kind = subject.kind;
        life
    }

    fn masked(&self, text: &str) -> String {
        mask_uids(&self.names.mask(text))
    }

    fn finish(mut self) -> Chart {
        // Steps after the last write.
        if self.begun < self.steps.len() {
            let last = self.steps[self.steps.len() - 1].began;
            self.column(last, |_| true);
        }
        let width = self.x + MARGIN * 2;
        let end = width;
        let mut chart = self.chart;
        chart.width = width;
        let mut places = BTreeMap::new();
        for (key, mut life) in self.lives {
            life.become_(end, None);
            if !life.is_shown || life.spans.is_empty() && key.0 != 0 && !has_mark(&self.marks, &key)
            {
                continue;
            }
            places.insert(key.clone(), chart.lanes.len());
            let name = if key.0 == 0 { key.1 } else { key.3 };
            chart.lanes.push(Lane {
                kind: life.kind,
                name,
                spans: life.spans,
            });
        }
        let placed = self.marks.into_iter().filter_map(|(key, mark)| {
            let lane = *places.get(&key)?;
            Some(Mark { lane, ..mark })
        });
        chart.marks = placed.collect();
        chart
    }
}

fn has_mark(marks: &[(Key, Mark)], key: &Key) -> bool {
    marks.iter().any(|(known, _)| known == key)
}

/// The lane title of OpenKruise's StatefulSet, to distinguish it from Kubernetes' own.
const ADVANCED: &str = "advanced statefulset";

/// The object that a write is about; for an Event, the object that it regards.
#[derive(Clone)]
struct Subject {
    kind: String,
    namespace: String,
    name: String,
}

fn subject(entry: &JournalEntry) -> Subject {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, of) = match entry.gvr.resource.as_str() {
        "events" => {
            let of = &entry.object["involvedObject"];
            (text(&of["kind"]), of)
        }
        _ => (text(&entry.object["kind"]), &entry.object["metadata"]),
    };
    let kind = match (kind.as_str(), of["apiVersion"].as_str()) {
        ("StatefulSet", _) if entry.gvr.group == kruise::GROUP => ADVANCED.to_owned(),
        ("StatefulSet", Some(version)) if version.starts_with(kruise::GROUP) => ADVANCED.to_owned(),
        _ => kind.to_lowercase(),
    };
    Subject {
        kind,
        namespace: text(&of["namespace"]),
        name: text(&of["name"]),
    }
}

/// Workloads come first, then their revisions, pods, claims, all others, nodes.
fn lane_key(subject: Subject, names: &GeneratedNames) -> Key {
    let Subject {
        kind,
        namespace,
        name,
    } = subject;
    let rank = match kind.as_str() {
        "statefulset" | ADVANCED | "cloneset" | "deployment" | "replicaset" | "daemonset" => 1,
        "controllerrevision" => 2,
        "pod" => 3,
        "persistentvolumeclaim" => 4,
        "node" => 6,
        _ => 5,
    };
    (rank, kind, namespace, names.mask(&name))
}

fn kind_of(entry: &JournalEntry) -> MarkKind {
    let is_marked = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    match (entry.event, entry.previous.as_deref()) {
        _ if entry.gvr.resource == "events" => MarkKind::Warning,
        (EventType::Added, _) => MarkKind::Created,
        (EventType::Deleted, _) => MarkKind::Gone,
        (EventType::Modified, Some(previous))
            if is_marked(&entry.object) && !is_marked(previous) =>
        {
            MarkKind::Deleting
        }
        (EventType::Modified, _) => MarkKind::Write,
    }
}

#[cfg(test)]
mod tests;
