//! Recordings: what a control plane did in a scenario, object by object, in a form that does not depend on time.
//!
//! `kubeproof run --kubeconfig FILE --record` writes one next to the golden. A golden is evidence where a recording of
//! a real control plane says the same: [`differences`] compares the two without a cluster.
//!
//! - `facts`: the final state of an object, a line for each fact
//! - `listed`: differences that are known, each with its reason

mod facts;
mod listed;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;
use regex::Regex;

use crate::generated::GeneratedNames;
use crate::log::Taken;
use crate::timeline::Timeline;

pub use listed::{Listed, ListedError};

/// The recorded resources: group, version, kind and plural. Of several versions of a resource the first that is
/// served counts.
pub(crate) const RESOURCES: &[(&str, &str, &str, &str)] = &[
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "ControllerRevision", "controllerrevisions"),
    ("batch", "v1", "Job", "jobs"),
    ("batch", "v1", "CronJob", "cronjobs"),
    ("", "v1", "ReplicationController", "replicationcontrollers"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "ConfigMap", "configmaps"),
    (
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
    ),
    ("", "v1", "Event", "events"),
    ("apps.kruise.io", "v1beta1", "StatefulSet", "statefulsets"),
    ("apps.kruise.io", "v1beta1", "CloneSet", "clonesets"),
    ("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets"),
];
/// The names of objects that every namespace gets, from Kubernetes and from OpenShift.
const PUBLISHED: &[&str] = &["kube-root-ca.crt", "openshift-service-ca.crt"];
/// The beginnings of changes of claims that come with the volume and not with the controller.
const OF_VOLUMES: &[&str] = &[
    "annotation pv.kubernetes.io/",
    "annotation volume.kubernetes.io/",
    "annotation volume.beta.kubernetes.io/",
];
/// The workloads, whose status is a summary of their pods.
const WORKLOADS: &[&str] = &[
    "statefulset",
    "deployment",
    "replicaset",
    "daemonset",
    "job",
    "cronjob",
    "replicationcontroller",
    "poddisruptionbudget",
    "cloneset",
];
/// The beginnings of changes that report a workload's status.
const STATUS: &[&str] = &[
    "status",
    "observedGeneration",
    "condition",
    "collisionCount",
];
/// Event sources whose Normal events come from nodes and volumes, not from the controllers.
const HIDDEN_SOURCES: &[&str] = &[
    "default-scheduler",
    "kubelet",
    "persistentvolume-controller",
    "rancher.io/local-path_local-path-provisioner",
];
/// The heading of the final state.
const OUTCOME: &str = "outcome";
/// The heading of the events.
const EVENTS: &str = "events";

/// Changes or facts by object, such as `pod web-0`.
type ByObject = BTreeMap<String, Vec<String>>;

/// The changes, final objects and events of a scenario on a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Where it was recorded, such as `kube-controller-manager v1.36.2 on kube-apiserver v1.36.2`.
    pub origin: Option<String>,
    /// The title of the scenario.
    title: String,
    /// The changes of each object in their order, by step.
    steps: Vec<(String, ByObject)>,
    /// The final state.
    outcome: ByObject,
    /// The events, without how often each occurred.
    events: BTreeSet<String>,
}

/// A run from which a [`Recording`] is made.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Every write, in the order of versions.
    pub journal: &'a [JournalEntry],
    /// The steps.
    pub steps: &'a [Taken],
    /// The namespace of the run.
    pub namespace: &'a str,
    /// The namespace that the scenario states: the recording has this one.
    pub stated: &'a str,
}

impl Recording {
    /// Describes a run of the scenario called `title`.
    #[must_use]
    pub fn of(title: &str, observed: Observed<'_>) -> Self {
        let mut timeline = Timeline::default();
        let mut recording = Self {
            title: title.trim().to_owned(),
            ..Self::default()
        };
        let mask = Mask::of(observed);
        let headings = observed.steps.iter();
        recording.steps = headings
            .map(|step| (mask.apply(&step.heading), ByObject::new()))
            .collect();
        let mut present: BTreeMap<(String, String), &Value> = BTreeMap::new();
        for entry in observed.journal.iter().filter(|entry| observed.has(entry)) {
            let words = timeline.words_of(entry);
            let name = entry.object["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            let key = (entry.gvr.resource.clone(), name.to_owned());
            if entry.gvr.resource == "events" {
                if entry.event != EventType::Deleted {
                    recording
                        .events
                        .extend(event(&entry.object).map(|line| mask.apply(&line)));
                }
                continue;
            }
            match entry.event {
                EventType::Deleted => present.remove(&key),
                EventType::Added | EventType::Modified => present.insert(key, &entry.object),
            };
            let before = |step: &&Taken| step.after_rv < entry.rv;
            let Some(step) = observed.steps.iter().filter(before).count().checked_sub(1) else {
                continue;
            };
            for line in words {
                let (object, change) = split(&line, name);
                let changes = &mut recording.steps[step].1;
                let changes = changes.entry(mask.apply(&object)).or_default();
                changes.push(mask.apply(&change));
            }
        }
        for ((resource, name), object) in present {
            let noun = noun(&resource, object);
            let object_name = mask.apply(&format!("{noun} {name}"));
            let facts = facts::of(object).into_iter();
            let facts: Vec<String> = facts.map(|fact| mask.apply(&fact)).collect();
            recording.outcome.insert(object_name, facts);
        }
        recording
    }

    /// Says where the recording was made.
    #[must_use]
    pub fn made_by(self, origin: &str) -> Self {
        Self {
            origin: Some(origin.to_owned()),
            ..self
        }
    }

    /// Reads a file that [`Recording`]'s `Display` has written.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut recording = Self::default();
        let mut section = String::new();
        let mut object = String::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(head) = line.strip_prefix("# ") {
                match head.strip_prefix("recorded: ") {
                    Some(origin) => recording.origin = Some(origin.to_owned()),
                    None => recording.title = head.to_owned(),
                }
            } else if let Some(item) = line.strip_prefix("    ") {
                let objects = match (section.as_str(), recording.steps.last_mut()) {
                    (OUTCOME, _) | (_, None) => &mut recording.outcome,
                    (_, Some((_, changes))) => changes,
                };
                let items = objects.entry(object.clone()).or_default();
                items.push(item.to_owned());
            } else if let Some(item) = line.strip_prefix("  ") {
                match section.as_str() {
                    EVENTS => drop(recording.events.insert(item.to_owned())),
                    _ => item.clone_into(&mut object),
                }
                if section == OUTCOME {
                    recording.outcome.entry(object.clone()).or_default();
                }
            } else {
                line.clone_into(&mut section);
                if section != OUTCOME && section != EVENTS {
                    recording.steps.push((section.clone(), ByObject::new()));
                }
            }
        }
        recording
    }

    /// Returns the facts that are compared, each as a line that is complete without the others.
    ///
    /// Objects with generated names are interchangeable. The status of a workload counts in the outcome only: how often
    /// it is written on the way depends on how fast its pods change. `rest` leaves out what is known of a line.
    fn compared(&self, rest: impl Fn(String) -> Option<String>) -> Vec<String> {
        let mut blocks: Vec<Vec<String>> = Vec::new();
        let mut changes = ByObject::new();
        for (_, by_object) in &self.steps {
            for (object, own) in by_object {
                let own = own.iter().filter_map(|change| decided(object, change));
                changes.entry(object.clone()).or_default().extend(own);
            }
        }
        let block = |objects: &ByObject, word: &str| -> Vec<Vec<String>> {
            let lines = |(object, items): (&String, &Vec<String>)| {
                let object = interchangeable(object);
                let items = in_order(items).map(interchangeable);
                let lines = items.map(|item| format!("{object}{word} {item}"));
                lines.filter_map(&rest).collect()
            };
            objects.iter().map(lines).collect()
        };
        blocks.extend(block(&changes, ":"));
        let mut outcome = block(&self.outcome, " is");
        blocks.sort();
        outcome.sort();
        let events = self.events.iter().map(|event| interchangeable(event));
        let events = events.map(|event| format!("event {event}"));
        let events: BTreeSet<String> = events.filter_map(&rest).collect();
        let blocks = blocks.into_iter().chain(outcome).flatten();
        blocks.chain(events).collect()
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("# {}\n", self.title);
        if let Some(origin) = &self.origin {
            let _ = writeln!(text, "# recorded: {origin}");
        }
        let outcome = (OUTCOME.to_owned(), self.outcome.clone());
        for (heading, objects) in self.steps.iter().chain([&outcome]) {
            let _ = writeln!(text, "\n{heading}");
            for (object, items) in objects {
                let _ = writeln!(text, "  {object}");
                for item in items {
                    let _ = writeln!(text, "    {item}");
                }
            }
        }
        let _ = writeln!(text, "\n{EVENTS}");
        for event in &self.events {
            let _ = writeln!(text, "  {event}");
        }
        f.write_str(&text)
    }
}

/// Compares a derived recording with a recorded one, both without the lines that `listed` explains for `scenario`.
/// Returns the lines that differ: `-` for a derived one, `+` for a recorded one. Different titles are a difference, so that
/// a recording says what its scenario says.
#[must_use]
pub fn differences(
    scenario: &str,
    derived: &Recording,
    recorded: &Recording,
    listed: &Listed,
) -> Option<String> {
    if derived.title != recorded.title {
        let (now, then) = (&derived.title, &recorded.title);
        return Some(format!("the title is {now:?}, in the recording {then:?}\n"));
    }
    let origin = recorded.origin.as_deref().unwrap_or_default();
    let all = [derived, recorded].map(|recording| recording.compared(Some));
    let stale = listed.stale((scenario, origin), &all[0], &all[1]);
    if !stale.is_empty() {
        return Some(format!(
            "listed differences that are none: {}",
            stale.join("; ")
        ));
    }
    let [derived, recorded] = [derived, recorded].map(|recording| {
        let mut lines = recording.compared(|line| listed.rest(scenario, origin, line));
        lines.iter_mut().for_each(|line| line.push('\n'));
        lines.concat()
    });
    (derived != recorded).then(|| {
        similar::TextDiff::from_lines(&derived, &recorded)
            .unified_diff()
            .context_radius(1)
            .header("derived", "recorded")
            .to_string()
    })
}

impl Observed<'_> {
    /// Whether the write belongs to the recording.
    pub(crate) fn has(&self, entry: &JournalEntry) -> bool {
        let metadata = &entry.object["metadata"];
        let is_watched = RESOURCES.iter().any(|(group, _, _, plural)| {
            *group == entry.gvr.group && *plural == entry.gvr.resource
        });
        let name = metadata["name"].as_str().unwrap_or_default();
        let is_published = PUBLISHED.contains(&name);
        is_watched && !is_published && metadata["namespace"] == self.namespace
    }
}

/// What differs from run to run whatever the scenario is, each with its replacement.
static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let masks = [
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
            "<time>",
        ),
        (r"\b\d+\.\d+\.\d+\.\d+\b", "<ip>"),
        // The minute for which a cron job has started a job.
        (r"-\d{8,10}\b", "-<minute>"),
        ("containerd://[0-9a-f]{64}", "containerd://<id>"),
        // The version of an object that a status refers to.
        (r"(resourceVersion) \d+\b", "${1} <version>"),
        // The end of the name of a CloneSet's pod.
        (r"(cloneset-instance-id[ =])[0-9a-z]{5}\b", "${1}<id>"),
    ];
    let masks = masks.map(|(text, mask)| (pattern(text), mask));
    masks.into()
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a regular expression")
}

/// Replaces values that differ from run to run.
struct Mask<'a> {
    names: GeneratedNames,
    namespace: &'a str,
    /// What stands for the namespace.
    stated: &'a str,
    /// The names that the server generated for objects that were refused, each with its replacement.
    refused: Vec<(Regex, String)>,
}

impl<'a> Mask<'a> {
    fn of(observed: Observed<'a>) -> Self {
        let prefixes = observed.journal.iter().filter(|entry| observed.has(entry));
        let prefixes =
            prefixes.filter_map(|entry| entry.object["metadata"]["generateName"].as_str());
        // Objects that were refused have a generated name, too.
        let refused = |prefix: &str| {
            let name = format!("\"{}[a-z0-9]{{5}}\"", regex::escape(prefix));
            (pattern(&name), format!("\"{prefix}*\""))
        };
        let prefixes: BTreeSet<&str> = prefixes.collect();
        Self {
            names: GeneratedNames::of(observed.journal),
            namespace: observed.namespace,
            stated: observed.stated,
            refused: prefixes.into_iter().map(refused).collect(),
        }
    }

    fn apply(&self, text: &str) -> String {
        let text = self.names.mask(&text.replace('\n', "\\n"));
        let text = text.replace(self.namespace, self.stated);
        let refused = self
            .refused
            .iter()
            .map(|(name, mask)| (name, mask.as_str()));
        let masks = MASKS.iter().map(|(pattern, mask)| (pattern, *mask));
        masks.chain(refused).fold(text, |text, (pattern, mask)| {
            match pattern.replace_all(&text, mask) {
                Cow::Borrowed(_) => text,
                Cow::Owned(masked) => masked,
            }
        })
    }
}

/// Splits `pod web-0 created` after the name.
fn split(line: &str, name: &str) -> (String, String) {
    let end = line
        .find(' ')
        .map_or(line.len(), |noun| noun + 1 + name.len());
    match (line.get(..end), line.get(end + 1..)) {
        (Some(object), Some(change)) => (object.to_owned(), change.to_owned()),
        _ => (line.to_owned(), String::new()),
    }
}

fn noun(resource: &str, object: &Value) -> String {
    match resource {
        "pods" => "pod".to_owned(),
        "persistentvolumeclaims" => "claim".to_owned(),
        _ => object["kind"].as_str().unwrap_or(resource).to_lowercase(),
    }
}

/// Returns the parts of a change that the controllers of workloads or a client have decided; `None` if there are none.
fn decided(object: &str, change: &str) -> Option<String> {
    let noun = object.split(' ').next().unwrap_or_default();
    let left_out = match noun {
        "claim" => OF_VOLUMES,
        noun if WORKLOADS.contains(&noun) => STATUS,
        _ => return Some(change.to_owned()),
    };
    let parts = change.split(", ");
    let parts: Vec<&str> = parts
        .filter(|part| !left_out.iter().any(|word| part.starts_with(word)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the facts with the conditions by type: their order in the list says only which was written first.
fn in_order(facts: &[String]) -> impl Iterator<Item = &str> {
    let is_condition = |fact: &&str| fact.starts_with("status.conditions[");
    let facts = || facts.iter().map(String::as_str);
    let first = facts().position(|fact| is_condition(&fact));
    let mut conditions: Vec<&str> = facts().filter(is_condition).collect();
    conditions.sort_unstable();
    let before = facts().take(first.unwrap_or_default());
    let after = facts().skip(first.unwrap_or_default());
    before
        .chain(conditions)
        .chain(after.filter(move |fact| !is_condition(fact)))
}

/// Replaces the numbers that stand for generated names: nothing tells such objects apart.
fn interchangeable(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let (name, number) = word.rsplit_once('-').unwrap_or((word, ""));
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        match digits == 5 && !number[5..].starts_with(|next: char| next.is_alphanumeric()) {
            true => format!("{name}-*{}", &number[5..]),
            false => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Describes an event; `None` for one of nodes and volumes.
fn event(event: &Value) -> Option<String> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let source = text("/source/component").filter(|source| !source.is_empty());
    let source = source
        .or_else(|| text("/reportingComponent"))
        .unwrap_or_default();
    let (kind, is_normal) = (
        text("/involvedObject/kind").unwrap_or_default(),
        text("/type") == Some("Normal"),
    );
    if kind == "Node" || is_normal && HIDDEN_SOURCES.contains(&source) {
        return None;
    }
    let reason = text("/reason").unwrap_or_default();
    let message = match reason {
        // The number of nodes depends on the cluster.
        "FailedScheduling" => String::new(),
        _ => crate::refusals::first_line(text("/message").unwrap_or_default()),
    };
    let message = message.replace("(combined from similar events): ", "");
    let line = format!(
        "{} {reason} {} {} by {source}: {message}",
        text("/type").unwrap_or_default(),
        kind.to_lowercase(),
        text("/involvedObject/name").unwrap_or_default(),
    );
    Some(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests;
