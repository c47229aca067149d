//! The timeline of a transcript: one line per observable change, written for a reviewer.

mod autoscaler;
mod conditions;
mod diff;
mod generations;
pub(crate) mod given;
mod images;
mod in_place;
mod kinds;
mod meta;
mod names;
mod node;

use jiff::Timestamp;
use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_machinery::json::Value;

use crate::refusals::Refusal;
use crate::time::HumanDuration;
use crate::user_agent::actor;

pub(crate) use diff::fields;
use generations::Generations;
pub(crate) use kinds::{clone_set_words, status_words};
pub use names::RevisionNames;

/// Describes writes in words; remembers the letters of revisions and the generations of pods.
#[derive(Debug, Default)]
pub struct Timeline {
    revisions: RevisionNames,
    generations: Generations,
    syncs: Vec<SyncBegan>,
}

/// A sync of a controller has begun.
#[derive(Clone, Debug)]
pub(crate) struct SyncBegan {
    /// The writer in the lines of a timeline.
    pub(crate) actor: String,
    /// The version of the last write before it.
    pub(crate) after_rv: ResourceVersion,
}

/// A line of a timeline.
#[derive(Debug)]
pub(crate) struct TimelineLine {
    pub(crate) text: String,
    /// The number of the sync that wrote it.
    pub(crate) sync: Option<usize>,
}

impl Timeline {
    /// Notes a write that is not shown, so that its revision has a letter.
    pub fn learn(&mut self, entry: &JournalEntry) {
        self.revisions.learn(entry);
        self.generations.learn(entry);
    }

    /// The lines for one write, none when it is nothing a reviewer looks for.
    pub fn lines_of(&mut self, entry: &JournalEntry, began: Timestamp) -> Vec<String> {
        let words = self.words_of(entry);
        let words = words
            .into_iter()
            .map(|what| self.generations.with_number(entry, what));
        words
            .map(|what| line(began, entry.time, &entry.user_agent, &what))
            .collect()
    }

    /// Returns the words for one write, without its time and writer.
    pub(crate) fn words_of(&mut self, entry: &JournalEntry) -> Vec<String> {
        self.learn(entry);
        kinds::describe(entry, &self.revisions)
    }

    /// Takes the syncs of controllers, in their order.
    pub(crate) fn with_syncs(syncs: Vec<SyncBegan>) -> Self {
        Self {
            syncs,
            ..Self::default()
        }
    }

    /// The lines of `entries` and of `refusals`, in the order of their versions, and how many of them are changes.
    pub(crate) fn lines<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a JournalEntry>,
        refusals: &[Refusal],
        began: Timestamp,
    ) -> (Vec<TimelineLine>, usize) {
        let (mut lines, mut changes) = (Vec::new(), 0);
        let mut refused = self.refusal_lines(refusals, began).into_iter().peekable();
        for entry in entries {
            while let Some((_, line)) = refused.next_if(|(after_rv, _)| *after_rv < entry.rv) {
                lines.push(line);
            }
            let own = self.lines_of(entry, began);
            changes += own.len();
            let sync = self.sync_of(&entry.user_agent, entry.rv.before(1));
            lines.extend(own.into_iter().map(|text| TimelineLine { text, sync }));
        }
        lines.extend(refused.map(|(_, line)| line));
        (lines, changes)
    }

    /// The number of the last sync that began at version `rv` or before.
    fn sync_of(&self, user_agent: &str, rv: ResourceVersion) -> Option<usize> {
        let actor = actor(user_agent);
        let known = |sync: &SyncBegan| sync.actor == actor && sync.after_rv <= rv;
        self.syncs.iter().rposition(known)
    }

    /// The lines for the writes that one step saw refused, each with the version it came after.
    ///
    /// A controller repeats a refused write as its backoff has it, so a repetition is only marked.
    fn refusal_lines(
        &self,
        refusals: &[Refusal],
        began: Timestamp,
    ) -> Vec<(ResourceVersion, TimelineLine)> {
        let same = |one: &Refusal, other: &Refusal| {
            one.user_agent == other.user_agent && one.what == other.what
        };
        let mut lines = Vec::new();
        for (index, refusal) in refusals.iter().enumerate() {
            let (before, after) = (&refusals[..index], &refusals[index + 1..]);
            if before.iter().any(|known| same(known, refusal)) {
                continue;
            }
            let mut what = refusal.what.clone();
            if after.iter().any(|again| same(again, refusal)) {
                what.push_str(" (repeatedly)");
            }
            let line = TimelineLine {
                text: line(began, refusal.time, &refusal.user_agent, &what),
                sync: self.sync_of(&refusal.user_agent, refusal.after_rv),
            };
            lines.push((refusal.after_rv, line));
        }
        lines
    }

    /// Returns the letters of revisions given before the first step, with their names.
    #[must_use]
    pub fn revisions_known(&self) -> Option<String> {
        let known: Vec<String> = self
            .revisions
            .iter()
            .map(|(letter, name)| format!("{letter} = {name}"))
            .collect();
        (!known.is_empty()).then(|| format!("#        revisions: {}", known.join(", ")))
    }

    /// The number of pods of this name so far, as a superscript; empty for the first.
    pub(crate) fn generation(&self, metadata: &Value) -> String {
        self.generations.sign(metadata)
    }

    /// Returns the letters of revisions.
    #[must_use]
    pub fn revisions(&self) -> &RevisionNames {
        &self.revisions
    }
}

fn line(began: Timestamp, time: Timestamp, user_agent: &str, what: &str) -> String {
    written(&since(began, time), actor(user_agent), what)
}

/// A line of a timeline.
pub(crate) fn written(time: &str, actor: &str, what: &str) -> String {
    format!("  {time:<8} {actor:<27} {what}")
}

/// The virtual time from `began` to `time`, such as `+1.5s`.
pub(crate) fn since(began: Timestamp, time: Timestamp) -> String {
    let elapsed = time.duration_since(began).unsigned_abs();
    format!("+{}", HumanDuration(elapsed))
}
