//! The timeline of a step in fewer lines.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::{INDENTATION, Line, NEXT_SYNC, THEN, THEN_NEXT_SYNC, WIDTH, lists};
use crate::timeline::written;
use crate::user_agent::SCENARIO_ACTOR;

/// The column at which a line says what changed.
pub(super) const WHAT_COLUMN: usize = 39;
/// The writer of a pod's life on its node.
pub(super) const KUBELET: &str = "kubelet";
/// Changes that a kubelet makes to every pod, and their short forms.
const ROUTINE: &[(&str, &str)] = &[
    ("Running, not ready", "running"),
    ("Running, ready", "running and ready"),
    ("ready", "ready"),
    ("not ready", "not ready"),
    ("Succeeded, not ready", "stopped"),
    ("Succeeded", "succeeded"),
    ("gone", "gone"),
];
/// Changes that OpenKruise's controllers make to every pod, and their short forms.
const KRUISE_ROUTINE: &[(&str, &str)] = &[
    ("condition InPlaceUpdateReady True", "InPlaceUpdateReady"),
    ("state Normal", "Normal"),
];
/// The first of the two writes of an update in place.
const IN_PLACE_BEGINS: &str = "not ready, condition InPlaceUpdateReady False";
/// Lines that are repeated with each retry.
const RETRIED: &[&str] = &["event", "refused"];

static COUNT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r" \((?:×\d+|repeatedly)\)$").expect("a regex"));
static HASH: LazyLock<Regex> = LazyLock::new(|| Regex::new("sha256 [0-9a-f]+").expect("a regex"));
static STATUS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^status (.*?) (cur=\S+ upd=[^\s,]+)(.*)$").expect("a regex"));

/// The lines of one step, in their order.
pub(super) fn fold(lines: &[Line]) -> Vec<Line> {
    let items = lines.iter().map(Item::of).collect();
    let items = chained(listed(lives(retries(items))));
    let mut syncs = BTreeMap::new();
    let lines = items.into_iter();
    lines.map(|item| item.into_line(&mut syncs)).collect()
}

/// The time and the sync of the last change of each writer.
type LastSyncs = BTreeMap<String, (String, Option<usize>)>;

/// A line of the timeline, or of a step's own output.
enum Item {
    Said(Line),
    Written(Written),
}

/// One or several writes.
struct Written {
    line: Line,
    time: String,
    actor: String,
    /// The kind of the object, or `event` or `refused`.
    noun: String,
    /// The names of the objects; none for `event` and `refused`.
    names: Vec<String>,
    words: String,
    /// Further changes of the same objects.
    then: Vec<Change>,
    /// How often it happened, and when for the last time.
    repeated: Option<(usize, String)>,
}

/// A further change of an object.
#[derive(Clone)]
struct Change {
    time: String,
    words: String,
    /// The sync that wrote it; none if it is a routine of pods.
    sync: Option<usize>,
}

impl Item {
    fn of(line: &Line) -> Self {
        match Written::of(line) {
            Some(written) => Self::Written(written),
            None => Self::Said(line.clone()),
        }
    }

    fn into_line(self, syncs: &mut LastSyncs) -> Line {
        match self {
            Self::Said(line) => line,
            Self::Written(written) => Line {
                text: written.text(syncs),
                ..written.line
            },
        }
    }
}

impl Written {
    fn of(line: &Line) -> Option<Self> {
        let (time, actor, what) = columns(&line.text)?;
        let (noun, rest) = what.split_once(' ')?;
        let (names, words) = match rest.split_once(' ') {
            Some((name, words)) if !RETRIED.contains(&noun) => (vec![name.to_owned()], words),
            _ => (Vec::new(), rest),
        };
        Some(Self {
            time: time.to_owned(),
            actor: actor.to_owned(),
            noun: noun.to_owned(),
            names,
            words: words.to_owned(),
            then: Vec::new(),
            repeated: None,
            line: line.clone(),
        })
    }

    fn change(&self) -> Change {
        Change {
            time: self.time.clone(),
            words: self.words.clone(),
            sync: self.line.sync,
        }
    }

    fn what(&self) -> String {
        let Some(first) = self.names.first() else {
            return format!("{} {}", self.noun, self.words);
        };
        let name = match lists::parts(first) {
            Some((prefix, _)) if self.names.len() > 1 => {
                let names = self.names.iter();
                let suffixes: Vec<String> = names
                    .map(|name| name.trim_start_matches(prefix).to_owned())
                    .collect();
                lists::joined(prefix, &suffixes)
            }
            _ => first.clone(),
        };
        let words = short_fields(&self.words.replace(first, &name));
        format!("{} {name} {words}", self.noun)
    }

    fn text(&self, syncs: &mut LastSyncs) -> String {
        let mut what = match &self.repeated {
            None => self.what(),
            Some((count, last)) => {
                let what = self.what();
                format!("{} (×{count}, last {last})", COUNT.replace(&what, ""))
            }
        };
        if self.is_next_sync(syncs, &self.time, self.line.sync) {
            what.insert_str(0, NEXT_SYNC);
        }
        let (mut time, mut words) = (&self.time, &self.words);
        for next in &self.then {
            what.push_str(match self.is_next_sync(syncs, &next.time, next.sync) {
                true => THEN_NEXT_SYNC,
                false => THEN,
            });
            if next.time != *time {
                what.push_str(&format!("{} ", next.time));
            }
            what.push_str(&self.short(words, &next.words));
            (time, words) = (&next.time, &next.words);
        }
        written(&self.time, &self.actor, &what)
    }

    /// Whether the writer's change before was at the same time, but in another sync.
    fn is_next_sync(&self, syncs: &mut LastSyncs, time: &str, sync: Option<usize>) -> bool {
        if sync.is_none() {
            return false;
        }
        let before = syncs.insert(self.actor.clone(), (time.to_owned(), sync));
        before.is_some_and(|(known, before)| known == time && before != sync)
    }

    /// The change `words`, after the change `before`, in few words.
    fn short(&self, before: &str, words: &str) -> String {
        if self.noun == "pod" {
            let mut known = ROUTINE.iter().chain(KRUISE_ROUTINE);
            let known = known.find(|(routine, _)| *routine == words);
            return known.map_or(words, |(_, short)| short).to_owned();
        }
        let revisions = |words: &str| Some(STATUS.captures(words)?[2].to_owned());
        match STATUS.captures(words) {
            Some(found) if revisions(before).as_deref() == Some(&found[2]) => {
                format!("{}{}", &found[1], &found[3])
            }
            Some(found) => format!("{} {}{}", &found[1], &found[2], &found[3]),
            None => short_fields(words),
        }
    }

    /// Whether `next`, of the same pod, is what happens to every pod after this.
    fn goes_on_with(&self, next: &Self) -> bool {
        if next.line.marked {
            return false;
        }
        let words = next.words.as_str();
        let is_restart = words.starts_with("container ") && words.contains(" restarted (");
        match next.actor == KUBELET {
            true => is_restart || ROUTINE.iter().any(|(routine, _)| *routine == words),
            false if next.actor != self.actor => false,
            false if words.starts_with("now @") => self.words == IN_PLACE_BEGINS,
            false => KRUISE_ROUTINE.iter().any(|(routine, _)| *routine == words),
        }
    }

    /// Whether `other` is the same change at the same time of an object whose name differs in its last part.
    fn is_like(&self, other: &Self) -> bool {
        let prefix = |written: &Self| {
            let name = written.names.first()?;
            lists::parts(name).map(|(prefix, _)| prefix.to_owned())
        };
        let changes = |written: &Self| {
            let name = written.names.first().map_or("", String::as_str);
            let then = written.then.iter();
            let then = then.map(|then| (then.time.clone(), then.words.replace(name, "\0")));
            (written.words.replace(name, "\0"), then.collect::<Vec<_>>())
        };
        self.noun == other.noun
            && self.line.sync == other.line.sync
            && !self.line.marked
            && !other.line.marked
            && prefix(self).is_some()
            && prefix(self) == prefix(other)
            && changes(self) == changes(other)
    }
}

/// The time, the writer and the change of a line.
pub(super) fn columns(text: &str) -> Option<(&str, &str, &str)> {
    let text = text
        .strip_prefix(INDENTATION)
        .filter(|text| text.starts_with('+'))?;
    let (time, rest) = text.split_once(' ')?;
    let (actor, what) = rest.trim_start().split_once(' ')?;
    let what = what.trim_start();
    Some((time, actor, what.strip_prefix(NEXT_SYNC).unwrap_or(what)))
}

/// The text of a retried line by which repetitions are known.
pub(super) fn retried(what: &str) -> Option<String> {
    let noun = what.split(' ').next()?;
    let is_retried = RETRIED.contains(&noun);
    is_retried.then(|| HASH.replace_all(&COUNT.replace(what, ""), "…").into_owned())
}

/// `status.a 1 → 2, status.b 3 → 4` as `status.a 1 → 2, .b 3 → 4`.
fn short_fields(words: &str) -> String {
    match words.split_once("status.") {
        Some((before, fields)) => {
            format!("{before}status.{}", fields.replace(", status.", ", ."))
        }
        None => words.to_owned(),
    }
}

/// Undoes [`short_fields`].
pub(super) fn full_fields(words: &str) -> String {
    match words.split_once("status.") {
        Some((before, fields)) => {
            format!("{before}status.{}", fields.replace(", .", ", status."))
        }
        None => words.to_owned(),
    }
}

/// Undoes [`Written::short`] for a pod. The writer is [`KUBELET`] if the change is one of a kubelet.
pub(super) fn full_routine(short: &str) -> (&str, bool) {
    let routine = |all: &[(&'static str, &str)]| {
        let known = all.iter().find(|(_, known)| *known == short);
        known.map(|(routine, _)| *routine)
    };
    match (routine(ROUTINE), routine(KRUISE_ROUTINE)) {
        (Some(routine), _) => (routine, true),
        (None, Some(routine)) => (routine, false),
        (None, None) => (short, short.starts_with("container ")),
    }
}

/// Puts the repetitions of an event or a refusal into the line of the first.
fn retries(items: Vec<Item>) -> Vec<Item> {
    let mut first = BTreeMap::new();
    let mut kept: Vec<Item> = Vec::new();
    for item in items {
        let Item::Written(written) = &item else {
            kept.push(item);
            continue;
        };
        let what = format!("{} {}", written.noun, written.words);
        let key = retried(&what).filter(|_| !written.line.marked);
        let Some(key) = key.map(|key| (written.actor.clone(), key)) else {
            kept.push(item);
            continue;
        };
        match first
            .get(&key)
            .and_then(|index: &usize| kept.get_mut(*index))
        {
            Some(Item::Written(known)) => {
                let count = known.repeated.as_ref().map_or(1, |(count, _)| *count);
                known.repeated = Some((count + 1, written.time.clone()));
            }
            _ => {
                first.insert(key, kept.len());
                kept.push(item);
            }
        }
    }
    kept
}

/// Puts what happens to every pod into the line before it of the same pod.
fn lives(items: Vec<Item>) -> Vec<Item> {
    let mut last = BTreeMap::new();
    let mut kept: Vec<Item> = Vec::new();
    for item in items {
        let pod = match &item {
            Item::Written(written) if written.noun == "pod" => written.names.first().cloned(),
            _ => None,
        };
        if let (Some(pod), Item::Written(next)) = (&pod, &item)
            && let Some(Item::Written(before)) =
                last.get(pod).and_then(|index: &usize| kept.get_mut(*index))
            && before.goes_on_with(next)
        {
            before.then.push(Change {
                sync: None,
                ..next.change()
            });
            continue;
        }
        if let Some(pod) = pod {
            last.insert(pod, kept.len());
        }
        kept.push(item);
    }
    kept
}

/// Puts equal changes by one writer at one time into one line.
fn listed(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<Item> = Vec::new();
    // The writes since the time or the writer changed.
    let mut since = 0;
    for item in items {
        let Item::Written(written) = &item else {
            kept.push(item);
            since = kept.len();
            continue;
        };
        let together = |known: &Written| known.time == written.time && known.actor == written.actor;
        if !matches!(kept.last(), Some(Item::Written(known)) if together(known)) {
            since = kept.len();
        }
        let like = kept[since..].iter_mut().find_map(|known| match known {
            Item::Written(known) if known.is_like(written) => Some(known),
            _ => None,
        });
        let is_listed = like.is_some_and(|known| {
            known.names.extend(written.names.iter().cloned());
            let first = &known.names[0];
            let whats = known.names.iter().map(|name| {
                let words = known.words.replace(first, name);
                format!("{} {name} {}", known.noun, short_fields(&words))
            });
            let is_clear = lists::split(&known.what()) == whats.collect::<Vec<_>>();
            if !is_clear {
                known.names.pop();
            }
            is_clear
        });
        if !is_listed {
            kept.push(item);
        }
    }
    kept
}

/// Puts further changes of an object by the same writer into the line of the first, as far as there is room. What
/// comes after a marked line or a write of the scenario stays after it.
fn chained(items: Vec<Item>) -> Vec<Item> {
    let mut last: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut kept: Vec<Item> = Vec::new();
    for item in items {
        let Item::Written(next) = &item else {
            kept.push(item);
            continue;
        };
        if next.line.marked || next.actor == SCENARIO_ACTOR {
            last.clear();
        }
        if let ([name], false) = (next.names.as_slice(), next.noun == "pod") {
            let object = (next.actor.clone(), next.noun.clone(), name.clone());
            let before = last.get(&object).and_then(|index| kept.get_mut(*index));
            if let Some(Item::Written(before)) = before {
                before.then.push(next.change());
                if before.text(&mut BTreeMap::new()).chars().count() <= WIDTH {
                    continue;
                }
                before.then.pop();
            }
            last.insert(object, kept.len());
        }
        kept.push(item);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::unfold;

    fn folded(lines: &[&str]) -> Vec<String> {
        let line = |text: &&str| Line {
            marked: text.starts_with('►'),
            ..Line::new(text.replace('►', " "))
        };
        let lines: Vec<Line> = lines.iter().map(line).collect();
        let folded = fold(&lines);
        assert_eq!(unfold::step_facts(&folded), unfold::step_facts(&lines));
        folded.iter().flat_map(Line::shown).collect()
    }

    fn change(time: &str, actor: &str, what: &str) -> String {
        written(time, actor, what)
    }

    /// Folds changes, each with time, writer and what changed.
    fn changes(changes: &[(&str, &str, &str)]) -> Vec<String> {
        let lines = changes
            .iter()
            .map(|(time, actor, what)| change(time, actor, what));
        let lines: Vec<String> = lines.collect();
        folded(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn the_life_of_a_pod_is_one_line() {
        let lines = changes(&[
            ("+0s", "sts", "pod web-1 terminating (grace 10s)"),
            ("+0s", "sts", "statefulset web status 2/2/2/2/0 cur=A upd=B"),
            ("+1s", "kubelet", "pod web-1 Succeeded, not ready"),
            ("+1s", "kubelet", "pod web-1 gone"),
            ("+1s", "sts", "pod web-1² created @B"),
            ("+2s", "kubelet", "pod web-1² Running, not ready"),
            ("+3s", "node-controller", "pod web-1² not ready"),
        ]);
        let expected = [
            (
                "+0s",
                "sts",
                "pod web-1 terminating (grace 10s) · +1s stopped · gone",
            ),
            ("+0s", "sts", "statefulset web status 2/2/2/2/0 cur=A upd=B"),
            ("+1s", "sts", "pod web-1² created @B · +2s running"),
            ("+3s", "node-controller", "pod web-1² not ready"),
        ];
        assert_eq!(
            lines,
            expected.map(|(time, actor, what)| change(time, actor, what))
        );
    }

    #[test]
    fn a_marked_line_stays_alone() {
        let created = change("+0s", "sts", "pod web-0 created @A");
        let ready = change("+1s", "kubelet", "pod web-0 ready").replacen(' ', "►", 1);
        let gone = change("+2s", "kubelet", "pod web-0 gone");
        let lines = folded(&[&created, &ready, &gone]);
        assert_eq!(lines[0], created);
        assert_eq!(lines[1], format!("{ready} · +2s gone"));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn equal_changes_are_listed() {
        let lines = changes(&[
            ("+0s", "sts", "pod web-0 created @A"),
            ("+0s", "sts", "claim data-web-1 created"),
            ("+0s", "sts", "pod web-1 created @A"),
            ("+0s", "sts", "pod web-2 created @B"),
            ("+1s", "sts", "pod web-3 created @B"),
        ]);
        assert_eq!(lines[0], change("+0s", "sts", "pod web-{0,1} created @A"));
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn changes_of_one_object_are_chained() {
        let lines = changes(&[
            (
                "+0s",
                "sts",
                "statefulset web status 2/2/2/2/0 cur=A upd=B, observedGeneration 2",
            ),
            ("+0s", "sts", "statefulset web status 2/1/1/2/0 cur=A upd=B"),
            ("+1s", "sts", "pod web-0 created"),
            (
                "+1s",
                "sts",
                "statefulset web status 2/2/2/2/2 cur=B upd=B, collisionCount 1",
            ),
            ("+1s", "rs", "replicaset a status.a 1 → 2, status.b 2 → 3"),
        ]);
        let expected = "statefulset web status 2/2/2/2/0 cur=A upd=B, observedGeneration 2 \
            · 2/1/1/2/0 · +1s 2/2/2/2/2 cur=B upd=B, collisionCount 1";
        assert_eq!(lines[0], change("+0s", "sts", expected));
        let expected = "replicaset a status.a 1 → 2, .b 2 → 3";
        assert_eq!(lines[2], change("+1s", "rs", expected));
    }

    #[test]
    fn syncs_at_one_time_are_told_apart() {
        let change = |sync, time, what| Line {
            sync: Some(sync),
            ..Line::new(change(time, "sts", what))
        };
        let lines = fold(&[
            change(1, "+0s", "pod web-2 terminating"),
            change(1, "+0s", "statefulset web status 3/3/3/2/0 cur=A upd=B"),
            change(2, "+0s", "pod web-1 terminating"),
            change(2, "+0s", "statefulset web status 3/3/3/1/0 cur=A upd=B"),
            change(3, "+1s", "statefulset web status 2/2/2/1/0 cur=A upd=B"),
            change(4, "+1s", "statefulset web status 1/1/1/1/0 cur=A upd=B"),
        ]);
        let whats = lines.iter().map(|line| line.text[39..].to_owned());
        let expected = [
            "pod web-2 terminating",
            "statefulset web status 3/3/3/2/0 cur=A upd=B ‖ 3/3/3/1/0 · +1s 2/2/2/1/0 ‖ 1/1/1/1/0",
            "pod web-1 terminating",
        ];
        assert_eq!(whats.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn retries_are_counted() {
        let lines = changes(&[
            (
                "+0s",
                "sts",
                "event Warning FailedCreate: no <json, 200 characters, sha256 ab>",
            ),
            ("+0s", "sts", "statefulset web observedGeneration 2"),
            (
                "+1s",
                "sts",
                "event Warning FailedCreate: no <json, 200 characters, sha256 cd>",
            ),
            (
                "+2s",
                "sts",
                "event Warning FailedCreate: no <json, 200 characters, sha256 cd> (×2)",
            ),
        ]);
        let expected =
            "event Warning FailedCreate: no <json, 200 characters, sha256 ab> (×3, last +2s)";
        assert_eq!(lines[0], change("+0s", "sts", expected));
        assert_eq!(lines.len(), 2);
    }
}
