//! The timeline of a transcript: one line per observable change, written for a reviewer.

mod conditions;
mod diff;
mod images;
mod in_place;
mod kinds;
mod meta;
mod names;
mod node;

use jiff::Timestamp;
use kubeproof_apiserver::JournalEntry;

use crate::refusals::Refusal;
use crate::time::HumanDuration;
use crate::user_agent::actor;

pub(crate) use kinds::{clone_set_words, status_words};
pub use names::RevisionNames;

/// Describes writes in words; remembers the letters of revisions.
#[derive(Debug, Default)]
pub struct Timeline {
    revisions: RevisionNames,
}

impl Timeline {
    /// Notes a write that is not shown, so that its revision has a letter.
    pub fn learn(&mut self, entry: &JournalEntry) {
        self.revisions.learn(entry);
    }

    /// The lines for one write, none when it is nothing a reviewer looks for.
    pub fn lines_of(&mut self, entry: &JournalEntry, began: Timestamp) -> Vec<String> {
        self.words_of(entry)
            .into_iter()
            .map(|what| line(began, entry.time, &entry.user_agent, &what))
            .collect()
    }

    /// Returns the words for one write, without its time and writer.
    pub(crate) fn words_of(&mut self, entry: &JournalEntry) -> Vec<String> {
        self.learn(entry);
        kinds::describe(entry, &self.revisions)
    }

    /// The lines of `entries` and of `refusals`, in the order of their versions, and how many of them are changes.
    pub(crate) fn lines<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a JournalEntry>,
        refusals: &[Refusal],
        began: Timestamp,
    ) -> (Vec<String>, usize) {
        let (mut lines, mut changes) = (Vec::new(), 0);
        let mut refused = Self::refusal_lines(refusals, began).into_iter().peekable();
        for entry in entries {
            while let Some((_, line)) = refused.next_if(|(after_rv, _)| *after_rv < entry.rv) {
                lines.push(line);
            }
            let told = self.lines_of(entry, began);
            changes += told.len();
            lines.extend(told);
        }
        lines.extend(refused.map(|(_, line)| line));
        (lines, changes)
    }

    /// The lines for the writes that one step saw refused, each with the version it came after.
    ///
    /// A controller repeats a refused write as its backoff has it, so a repetition is only marked.
    fn refusal_lines(refusals: &[Refusal], began: Timestamp) -> Vec<(u64, String)> {
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
            let line = line(began, refusal.time, &refusal.user_agent, &what);
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

    /// Returns the letters of revisions.
    #[must_use]
    pub fn revisions(&self) -> &RevisionNames {
        &self.revisions
    }
}

fn line(began: Timestamp, time: Timestamp, user_agent: &str, what: &str) -> String {
    let (time, actor) = (since(began, time), actor(user_agent));
    format!("  {time:<8} {actor:<27} {what}")
}

/// The virtual time from `began` to `time`, such as `+1.5s`.
pub(crate) fn since(began: Timestamp, time: Timestamp) -> String {
    let elapsed = time.duration_since(began).unsigned_abs();
    format!("+{}", HumanDuration(elapsed))
}
