//! The facts of an outcome: the fields of each object, by the columns of its tables and the words of its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::portable::{cell, compared, portable_line};
use crate::fold;

/// The field of an object that is there.
pub(crate) const PRESENCE: &str = "presence";
const THERE: &str = "there";

/// The kinds of objects, by what the headers of their tables begin with.
const KINDS: &[(&[&str], &str)] = &[
    (&["NAME", "READY", "STATUS"], "pod"),
    (&["NAME", "READY", "UP-TO-DATE"], "deployment"),
    (&["NAME", "READY"], "statefulset"),
    (&["NAME", "DESIRED", "UPDATED"], "cloneset"),
    (&["NAME", "DESIRED", "CURRENT", "UPDATED"], "statefulset"),
    (
        &["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE"],
        "daemonset",
    ),
    (&["NAME", "DESIRED", "CURRENT", "READY"], "replicaset"),
    (&["NAME", "CONTROLLER", "REVISION"], "controllerrevision"),
    (&["NAME", "STATUS", "VOLUME"], "persistentvolumeclaim"),
];

static STATUS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "^(?<kind>\\S+) (?<name>\\S+): (?<counts>.*?)(?: cur=(?<cur>\\S+) upd=(?<upd>[^\\s,]+))?, generation \
         (?<generation>\\S+), observedGeneration (?<observedGeneration>\\S+), collisionCount (?<collisionCount>\\S+)$",
    )
    .expect("a regex")
});

/// An object of an outcome. Pods with a revision have their names. Of other objects with generated names, the n-th of a
/// kind and beginning stands for the n-th.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Object {
    /// The kind in lower case; empty if it is not known.
    pub(crate) kind: String,
    /// The name; of a generated name only the beginning, and `*`.
    pub(crate) name: String,
    place: usize,
}

impl Object {
    /// The object of this kind and name.
    pub(crate) fn named(kind: &str, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            place: 0,
        }
    }
}

/// The fields of each object.
pub(crate) type Facts = BTreeMap<Object, BTreeMap<String, String>>;

/// Returns the fields of the objects in the outcome of a transcript; `named` replaces the letters of revisions.
pub(crate) fn facts(transcript: &str, named: impl Fn(&str) -> String) -> Facts {
    let outcome = fold::unfold_outcome(transcript);
    let outcome: Vec<String> = outcome.iter().map(|line| named(line)).collect();
    let mut facts = Facts::new();
    let revised = outcome
        .iter()
        .filter_map(|line| line.trim().split_once('@'));
    let revised: BTreeSet<&str> = revised.map(|(name, _)| name).collect();
    for section in outcome.split(String::is_empty) {
        let Some((title, lines)) = section.split_first() else {
            continue;
        };
        // Sections are about other fields of the same objects, in the same order.
        let mut places = BTreeMap::new();
        let mut take = |kind: &str, name: &str, fields: Vec<(String, String)>| {
            let kind = kind.to_owned();
            let name = match kind == "pod" && revised.contains(name) {
                true => name.to_owned(),
                false => portable_line(name),
            };
            let place: &mut usize = places.entry((kind.clone(), name.clone())).or_default();
            let object = Object {
                kind,
                name,
                place: *place,
            };
            *place += 1;
            let known: &mut BTreeMap<_, _> = facts.entry(object).or_default();
            known.insert(PRESENCE.to_owned(), THERE.to_owned());
            known.extend(fields);
        };
        match title.trim() {
            "status" => {
                for found in lines.iter().filter_map(|line| STATUS.captures(line.trim())) {
                    let names = STATUS.capture_names().flatten().skip(2);
                    let fields = names.filter_map(|name| {
                        Some((name.to_owned(), found.name(name)?.as_str().to_owned()))
                    });
                    take(&found["kind"], &found["name"], fields.collect());
                }
            }
            "pods" => {
                for line in lines {
                    let cells: Vec<&str> = line.trim().split("   ").collect();
                    let cells = cells.iter().map(|cell| cell.trim());
                    let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
                    let [name, image, owner] = cells[..] else {
                        continue;
                    };
                    let (name, revision) = name.split_once('@').unwrap_or((name, "-"));
                    let fields = [("REVISION", revision), ("IMAGE", image), ("OWNER", owner)];
                    let fields =
                        fields.map(|(field, value)| (field.to_owned(), portable_line(value)));
                    take("pod", name, fields.to_vec());
                }
            }
            header if header.starts_with("NAME") => {
                let columns = compared(title);
                let header: Vec<String> = columns
                    .iter()
                    .map(|range| cell(title, *range).trim().to_owned())
                    .collect();
                let kind = kind_of(&header);
                for line in lines {
                    let cells: Vec<String> =
                        columns.iter().map(|range| cell(line, *range)).collect();
                    let name = cells.first().map_or("", |name| name.trim());
                    let values = cells.iter().map(|cell| portable_line(cell));
                    let fields = header.iter().cloned().zip(values).skip(1);
                    take(kind, name, fields.collect());
                }
            }
            _ => {}
        }
    }
    facts
}

/// The kind of the objects in a table; the longest header that fits decides.
fn kind_of(header: &[String]) -> &'static str {
    let fits = |columns: &&[&str]| {
        columns
            .iter()
            .zip(header)
            .filter(|(one, own)| **one == *own)
            .count()
            == columns.len()
    };
    let found = KINDS.iter().filter(|(columns, _)| fits(columns));
    found
        .max_by_key(|(columns, _)| columns.len())
        .map_or("", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_statuses_and_pods_are_fields_of_objects() {
        let transcript = "# t\noutcome\n\n  NAME   READY\n  web    1/1\n\n  statefulset web: 1/1/1/1/1 cur=A upd=B, \
             generation 2 observed\n\n  NAME           READY   STATUS    RESTARTS   REVISION   IMAGE          OWNER\n  \
             sample-00001   1/1     Running   0          A          nginx:alpine   sample\n  \
             sample-00002   0/1     Pending   0          B          nginx:alpine   sample\n  \
             site-00003     1/1     Running   0          -          nginx:alpine   site\n  \
             site-00004     0/1     Pending   0          -          nginx:alpine   site\n";
        let facts = facts(transcript, |line| line.replace("upd=B", "upd=web-b"));
        let field = |kind: &str, name: &str, place: usize, field: &str| {
            let object = Object {
                kind: kind.to_owned(),
                name: name.to_owned(),
                place,
            };
            facts[&object].get(field).map(String::as_str)
        };
        assert_eq!(facts.len(), 5, "{facts:?}");
        assert_eq!(field("statefulset", "web", 0, "READY"), Some("1/1"));
        assert_eq!(field("statefulset", "web", 0, "counts"), Some("1/1/1/1/1"));
        assert_eq!(field("statefulset", "web", 0, "upd"), Some("web-b"));
        let observed = field("statefulset", "web", 0, "observedGeneration");
        assert_eq!(observed, Some("2"));
        assert_eq!(field("pod", "sample-00002", 0, "STATUS"), Some("Pending"));
        assert_eq!(field("pod", "sample-00002", 0, "REVISION"), Some("B"));
        assert_eq!(field("pod", "sample-00002", 0, PRESENCE), Some(THERE));
        assert_eq!(field("pod", "sample-00002", 0, "AGE"), None);
        assert_eq!(field("pod", "site-*", 0, "STATUS"), Some("Running"));
        assert_eq!(field("pod", "site-*", 1, "STATUS"), Some("Pending"));
    }
}
