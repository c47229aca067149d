//! The outcome of a transcript: final tables, status numbers, events.

mod counted;
mod facts;
mod objects;
mod portable;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::fault::{Effect, Fault};
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_machinery::json::Value;
use regex::{Captures, Regex};

use crate::api::{Api, ApiError};
use crate::fold;
use crate::generated::GeneratedNames;
use crate::table;
use crate::timeline::Timeline;

pub(crate) use counted::{EventKey, Occurrences, reported};
pub(crate) use facts::{Facts, PRESENCE, facts};
pub use objects::Unstable;
pub(crate) use objects::{object_names, objects_in_words, program_objects};
pub use portable::portable_outcome;

/// The title of the requests that faults have met.
const FAULTS: &str = "faults met";
/// The column that says how long an object has been there.
const AGE: &str = "age";

/// The tables shown, when they have rows.
const TABLES: &[&str] = &[
    "statefulsets",
    "asts",
    "clonesets",
    "deployments",
    "replicasets",
    "daemonsets",
    "pods",
    "controllerrevisions",
    "persistentvolumeclaims",
];
/// The lines of the outcome, with the tables of `more` first. Events up to version `given_rv` are those of the given
/// state.
///
/// # Errors
/// [`ApiError`] when a table cannot be read.
pub(crate) async fn describe(
    api: &Api,
    journal: &[JournalEntry],
    timeline: &Timeline,
    names: &GeneratedNames,
    given_rv: ResourceVersion,
    more: impl Iterator<Item = &str>,
) -> Result<Vec<String>, ApiError> {
    let mut lines = tables(api, more.chain(TABLES.iter().copied()), names).await?;
    lines.extend(section("status", statuses(journal, timeline)));
    lines.extend(section("pods", pods(journal, timeline, names)));
    let (given, since) = journal.split_at(journal.partition_point(|entry| entry.rv <= given_rv));
    let before = events(given, &[]);
    let after = events(given, since)
        .into_iter()
        .filter_map(|(line, count)| {
            let known = before.iter().find(|(known, _)| *known == line);
            let count = count - known.map_or(0, |(_, count)| *count);
            (count > 0).then_some((line, count))
        });
    let after = after.collect();
    lines.extend(section("events of given", counted(before)));
    lines.extend(section("events", counted(after)));
    Ok(lines)
}

fn counted(events: Vec<(String, i64)>) -> Vec<String> {
    let lines = events.into_iter();
    lines
        .map(|(line, count)| format!("×{count} {line}"))
        .collect()
}

/// Removes the column of ages from a table, and the time of restarts: both depend on when the table is read.
pub(crate) fn without_ages(table: &mut Value) {
    let columns = table["columnDefinitions"].as_array();
    let is_age = |column: &Value| {
        column["name"]
            .as_str()
            .is_some_and(|name| name.eq_ignore_ascii_case(AGE))
    };
    let age = columns.and_then(|columns| columns.iter().position(is_age));
    if let (Some(age), Some(columns)) = (age, table["columnDefinitions"].as_array_mut()) {
        columns.remove(age);
    }
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        let Some(cells) = row["cells"].as_array_mut() else {
            continue;
        };
        if let Some(age) = age.filter(|age| *age < cells.len()) {
            cells.remove(age);
        }
        for cell in cells {
            let restarts = cell.as_str().and_then(|cell| cell.strip_suffix(" ago)"));
            let restarts = restarts.and_then(|cell| cell.split_once(" ("));
            if let Some((count, _)) = restarts {
                *cell = count.into();
            }
        }
    }
}

/// The custom resources that were defined.
pub(crate) fn custom_resources(journal: &[JournalEntry]) -> Vec<&str> {
    let definitions = present(journal, "customresourcedefinitions").into_iter();
    let names = definitions.map(|definition| definition["metadata"]["name"].as_str());
    names.flatten().collect()
}

/// The tables of `resources` that have rows, each resource once, by whatever name.
async fn tables(
    api: &Api,
    resources: impl Iterator<Item = &str>,
    names: &GeneratedNames,
) -> Result<Vec<String>, ApiError> {
    let (mut lines, mut seen) = (Vec::new(), Vec::new());
    for resource in resources {
        let Ok(known) = api.resource(resource) else {
            continue;
        };
        if seen.iter().any(|other| Arc::ptr_eq(other, &known)) {
            continue;
        }
        seen.push(known);
        let mut table = masked(api.table(resource, None).await?);
        without_ages(&mut table);
        names.mask_table(&mut table);
        let rows = table::render(&table, false);
        if !rows.is_empty() {
            lines.push(String::new());
            lines.extend(indented(rows));
        }
    }
    Ok(lines)
}

/// The number of requests that each fault has met, without faults of unreachable servers, whose number of retries
/// says nothing.
pub(crate) fn faults(met: &[(Fault, u32)]) -> Vec<String> {
    let counted = met
        .iter()
        .filter(|(fault, _)| fault.effect != Effect::Unreachable);
    let lines = counted.map(|(fault, met)| format!("×{met} {}", fault.name));
    section(FAULTS, lines.collect())
}

fn section(title: &str, content: Vec<String>) -> Vec<String> {
    if content.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), format!("  {title}")];
    lines.extend(content.into_iter().map(|line| format!("    {line}")));
    lines
}

fn indented(rows: Vec<String>) -> impl Iterator<Item = String> {
    rows.into_iter().map(|row| format!("  {row}"))
}

/// The last state of every object of `resource` that is still there, by namespace and name.
fn present<'a>(journal: &'a [JournalEntry], resource: &str) -> Vec<&'a Value> {
    let mut objects = BTreeMap::new();
    for entry in journal
        .iter()
        .filter(|entry| entry.gvr.resource == resource)
    {
        let metadata = &entry.object["metadata"];
        let key = (
            metadata["namespace"].to_string(),
            metadata["name"].to_string(),
        );
        match entry.event {
            kubeproof_apiserver::EventType::Deleted => objects.remove(&key),
            _ => objects.insert(key, &*entry.object),
        };
    }
    objects.into_values().collect()
}

fn statuses(journal: &[JournalEntry], timeline: &Timeline) -> Vec<String> {
    let sets = present(journal, "statefulsets").into_iter();
    let sets = sets.chain(present(journal, "clonesets"));
    sets.map(|set| {
        let (status, kind) = (&set["status"], set["kind"].as_str().unwrap_or_default());
        let words = match kind {
            "CloneSet" => crate::timeline::clone_set_words(status, timeline.revisions()),
            _ => crate::timeline::status_words(status, timeline.revisions()),
        };
        format!(
            "{} {}: {words}, generation {}, observedGeneration {}, collisionCount {}",
            kind.to_lowercase(),
            set["metadata"]["name"].as_str().unwrap_or_default(),
            set["metadata"]["generation"],
            status["observedGeneration"],
            status["collisionCount"]
        )
    })
    .collect()
}

fn pods(journal: &[JournalEntry], timeline: &Timeline, names: &GeneratedNames) -> Vec<String> {
    let mut rows: Vec<Vec<String>> = present(journal, "pods")
        .into_iter()
        .map(|pod| {
            let metadata = &pod["metadata"];
            let images = pod["spec"]["containers"].as_array().into_iter().flatten();
            let images: Vec<&str> = images.filter_map(|item| item["image"].as_str()).collect();
            let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            let owners: Vec<String> = owners
                .map(|owner| owner["name"].as_str().unwrap_or_default().to_owned())
                .collect();
            vec![
                revised(metadata, timeline, names),
                images.join(","),
                if owners.is_empty() {
                    "no owner".to_owned()
                } else {
                    format!("owned by {}", owners.join(", "))
                },
            ]
        })
        .collect();
    // As the tables have them.
    rows.sort();
    table::align(&rows)
}

/// A pod's name, with the revision it was made from if it is labelled with one.
fn revised(metadata: &Value, timeline: &Timeline, names: &GeneratedNames) -> String {
    let name = names.mask(metadata["name"].as_str().unwrap_or_default());
    let name = format!("{name}{}", timeline.generation(metadata));
    match metadata["labels"]["controller-revision-hash"].as_str() {
        Some(revision) => format!("{name}@{}", timeline.revisions().short(revision)),
        None => name,
    }
}

/// Events by their lines, in the order in which each first occurred, with how often each did.
fn events(given: &[JournalEntry], since: &[JournalEntry]) -> Vec<(String, i64)> {
    let line = |entry: &JournalEntry| {
        let event = &entry.object;
        let message = event["message"].as_str().unwrap_or_default();
        let message = crate::refusals::first_line(message);
        let message = fold::mask_json(&message);
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        format!("{} {} {message}", text("type"), text("reason"))
    };
    counted::events(given.iter().chain(since), line)
}

const UID_PATTERN: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

static UID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(UID_PATTERN).expect("the pattern is a regular expression"));

// Some uids read as numbers and are quoted; a golden must not show which.
static MAYBE_QUOTED_UID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!("\"({UID_PATTERN})\"|{UID_PATTERN}"))
        .expect("the pattern is a regular expression")
});

/// Replaces uids by `<uid:1>`, `<uid:2>`… in order of appearance: the same uid, the same number.
pub(crate) fn mask_uids(text: &str) -> String {
    let mut seen: Vec<String> = Vec::new();
    MAYBE_QUOTED_UID
        .replace_all(text, |found: &Captures<'_>| {
            let uid = found.get(1).map_or(&found[0], |bare| bare.as_str());
            let index = seen
                .iter()
                .position(|known| known == uid)
                .unwrap_or_else(|| {
                    seen.push(uid.to_owned());
                    seen.len() - 1
                });
            format!("<uid:{}>", index + 1)
        })
        .into_owned()
}

/// A table whose cells are as wide as they are once uids are masked.
pub(crate) fn masked(mut table: Value) -> Value {
    let rows = table["rows"].as_array_mut().into_iter().flatten();
    for row in rows {
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if let Some(text) = cell.as_str() {
                *cell = Value::String(UID.replace_all(text, "<uid>").into_owned().into());
            }
        }
    }
    table
}
