//! The changes that a version made: pods that were replaced or restarted, with the template that changed, and objects that it
//! wrote.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use crate::heartbeat::is_heartbeat;
use crate::scenario::FindingKind;
use crate::timeline::fields;
use crate::user_agent::{SCENARIO, actor};

/// Fields of metadata that the server writes.
const SERVER_FIELDS: [&str; 5] = [
    "resourceVersion",
    "managedFields",
    "generation",
    "uid",
    "creationTimestamp",
];
/// Fields of a pod's spec that admission and the scheduler fill in.
const POD_FIELDS: [&str; 5] = [
    "nodeName",
    "hostname",
    "volumes",
    "tolerations",
    "serviceAccount",
];
/// The number of characters of a value that is shown whole.
const VALUE_MAX: usize = 160;
/// The number of characters of a longer value that are shown.
const VALUE_SHOWN: usize = 100;
/// The number of those before the first difference.
const VALUE_CONTEXT: usize = 20;

/// A finding of an upgrade test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// The object: `pod/web-0`; empty for findings about none.
    pub object: String,
    /// What happened and why, a line each.
    pub lines: Vec<String>,
}

impl Finding {
    /// A finding with one line.
    pub(super) fn about(kind: FindingKind, object: &str, words: String) -> Self {
        Self {
            kind,
            object: object.to_owned(),
            lines: vec![words],
        }
    }
}

/// `pod/web-0`
pub(super) fn name_of(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{kind}/{name}")
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Refusals of the program, each once, with how often it came.
pub(super) fn of_refusals(refusals: &[String]) -> Vec<Finding> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for refusal in refusals {
        *counts.entry(refusal).or_default() += 1;
    }
    let findings = counts.into_iter().map(|(refusal, count)| {
        let times = match count {
            1 => String::new(),
            count => format!(" (×{count})"),
        };
        Finding::about(FindingKind::Refused, "", format!("{refusal}{times}"))
    });
    findings.collect()
}

/// The findings in the writes of `journal` from index `before` on. `others` are the writers of this process: the nodes,
/// the controllers and the scenario.
pub(super) fn of(journal: &[JournalEntry], before: usize, others: &BTreeSet<&str>) -> Vec<Finding> {
    let (past, writes) = journal.split_at(before.min(journal.len()));
    let mut known: BTreeMap<String, &Value> = BTreeMap::new();
    for entry in journal {
        known.insert(uid(&entry.object).to_owned(), &entry.object);
    }
    let mut old_pods: BTreeMap<&str, &Value> = BTreeMap::new();
    for entry in past.iter().filter(|entry| is_pod(entry)) {
        match entry.event {
            EventType::Deleted => old_pods.remove(uid(&entry.object)),
            EventType::Added | EventType::Modified => {
                old_pods.insert(uid(&entry.object), &entry.object)
            }
        };
    }
    let templates = changed_templates(writes);
    let mut findings = Vec::new();
    for entry in writes.iter().filter(|entry| is_pod(entry)) {
        let pod: &Value = &entry.object;
        let Some(old) = old_pods.get(uid(pod)) else {
            continue;
        };
        let owners = owners(pod, &known);
        if entry.event == EventType::Deleted {
            let mut lines = vec![of_owner(&owners)];
            lines.extend(reasons(&owners, &templates));
            if lines.len() == 1 {
                lines.push(without_template(old, writes));
            }
            findings.push(Finding {
                kind: FindingKind::Replaced,
                object: name_of(pod),
                lines,
            });
        } else if let Some(restart) = restart(entry.previous.as_deref(), pod) {
            let mut lines = vec![format!("{restart}{}", of_owner(&owners))];
            lines.extend(reasons(&owners, &templates));
            findings.push(Finding {
                kind: FindingKind::Restarted,
                object: name_of(pod),
                lines,
            });
        }
    }
    findings.extend(written(writes, others));
    findings
}

fn is_pod(entry: &JournalEntry) -> bool {
    entry.gvr.group.is_empty() && entry.gvr.resource == "pods"
}

/// The controllers above an object, the nearest first.
fn owners<'a>(object: &Value, known: &BTreeMap<String, &'a Value>) -> Vec<&'a Value> {
    let (mut owners, mut object): (Vec<&Value>, &Value) = (Vec::new(), object);
    loop {
        let references = object["metadata"]["ownerReferences"].as_array();
        let mut references = references.into_iter().flatten();
        let controller = references.find(|reference| reference["controller"] == true);
        let owner = controller.and_then(|reference| known.get(reference["uid"].as_str()?));
        match owner {
            // A circle of owners has no end.
            Some(owner) if !owners.iter().any(|known| uid(known) == uid(owner)) => {
                owners.push(owner);
                object = owner;
            }
            _ => return owners,
        }
    }
}

fn of_owner(owners: &[&Value]) -> String {
    match owners.last() {
        Some(root) => format!("a pod of {}", name_of(root)),
        None => "a pod without a controller".to_owned(),
    }
}

/// The changes of templates, by the uid of the object: the fields and the writer.
fn changed_templates(writes: &[JournalEntry]) -> BTreeMap<&str, Vec<String>> {
    let mut changed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for entry in writes {
        let Some(previous) = entry.previous.as_deref() else {
            continue;
        };
        if entry.event != EventType::Modified {
            continue;
        }
        for template in ["template", "jobTemplate"] {
            let path = format!("spec.{template}");
            let (old, new) = (&previous["spec"][template], &entry.object["spec"][template]);
            let writer = actor(&entry.user_agent);
            let lines = fields(&path, old, new).into_iter();
            let lines = lines.map(|field| {
                let field = shortened(&field);
                format!("{} {field}, by {writer}", name_of(&entry.object))
            });
            changed.entry(uid(&entry.object)).or_default().extend(lines);
        }
    }
    changed
}

fn reasons(owners: &[&Value], templates: &BTreeMap<&str, Vec<String>>) -> Vec<String> {
    let of_owners = owners.iter().filter_map(|owner| templates.get(uid(owner)));
    of_owners.flatten().cloned().collect()
}

/// The reason for a pod's end where no template has changed: the difference from the pod of the same name that came
/// after it.
fn without_template(old: &Value, writes: &[JournalEntry]) -> String {
    let is_next = |entry: &&JournalEntry| {
        let is_same_name = entry.object["metadata"]["name"] == old["metadata"]["name"];
        let is_same_place = entry.object["metadata"]["namespace"] == old["metadata"]["namespace"];
        is_pod(entry) && entry.event == EventType::Added && is_same_name && is_same_place
    };
    let Some(next) = writes.iter().find(is_next) else {
        return "no template changed".to_owned();
    };
    let spec = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|name, _| !POD_FIELDS.contains(&name.as_str()));
        }
        spec
    };
    let differing = fields("spec", &spec(old), &spec(&next.object));
    match differing.is_empty() {
        true => "no template changed, and the next pod of the name is the same".to_owned(),
        false => format!("the next pod of the name has {}", differing.join(", ")),
    }
}

/// Returns the message about containers that a write restarted, or `None` if it restarted none.
fn restart(previous: Option<&Value>, pod: &Value) -> Option<String> {
    let previous = previous?;
    let count = |pod: &Value| -> i64 {
        let statuses = pod["status"]["containerStatuses"].as_array();
        let counts = statuses.into_iter().flatten();
        counts
            .filter_map(|status| status["restartCount"].as_i64())
            .sum()
    };
    let (old, new) = (count(previous), count(pod));
    if new > old {
        return Some(format!("restarts {old} → {new}, "));
    }
    let images = fields(
        "spec.containers",
        &previous["spec"]["containers"],
        &pod["spec"]["containers"],
    );
    let images: Vec<String> = images
        .into_iter()
        .filter(|field| field.contains(".image "))
        .collect();
    (!images.is_empty()).then(|| format!("{}, ", images.join(", ")))
}

/// The objects that the program wrote, but heartbeats and events.
fn written(writes: &[JournalEntry], others: &BTreeSet<&str>) -> Vec<Finding> {
    let mut by_object: BTreeMap<(String, &str), Vec<&JournalEntry>> = BTreeMap::new();
    for entry in writes {
        let writer = actor(&entry.user_agent);
        let is_other = others.contains(writer) || *entry.user_agent == *SCENARIO;
        if is_other || is_heartbeat(entry) || entry.gvr.resource == "events" {
            continue;
        }
        let namespace = entry.object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default();
        let key = format!("{namespace} {}", name_of(&entry.object));
        by_object.entry((key, writer)).or_default().push(entry);
    }
    let findings = by_object.into_iter().filter_map(|((_, writer), entries)| {
        let (first, last) = (entries.first()?, entries.last()?);
        let times = match entries.len() {
            1 => String::new(),
            times => format!(" {times} times"),
        };
        let mut lines = vec![format!("by {writer}{times}")];
        match (&first.previous, last.event) {
            (_, EventType::Deleted) => lines[0].push_str(", deleted"),
            (None, _) => lines[0].push_str(", created"),
            (Some(previous), _) => {
                let changed = fields("", &own_fields(previous), &own_fields(&last.object));
                match changed.is_empty() {
                    true => lines.push("in the end as before".to_owned()),
                    false => lines.extend(changed.iter().map(|line| shortened(line))),
                }
            }
        }
        Some(Finding {
            kind: FindingKind::Written,
            object: name_of(&last.object),
            lines,
        })
    });
    findings.collect()
}

/// A change of a field with the beginnings of long values, from where they differ on.
fn shortened(change: &str) -> String {
    let Some((old, new)) = change.split_once(" → ") else {
        return change.to_owned();
    };
    let (path, old) = old.split_once(' ').unwrap_or(("", old));
    let pairs = old.char_indices().zip(new.chars());
    let same = pairs.take_while(|((_, one), other)| one == other);
    let same = same.last().map_or(0, |((index, _), _)| index);
    let short = |value: &str| {
        let length = value.chars().count();
        if length <= VALUE_MAX {
            return value.to_owned();
        }
        let begin = value[..same].chars().rev().take(VALUE_CONTEXT);
        let begin = same - begin.map(char::len_utf8).sum::<usize>();
        let shown: String = value[begin..].chars().take(VALUE_SHOWN).collect();
        let before = if begin > 0 { "…" } else { "" };
        let after = match value[begin..].chars().count() > VALUE_SHOWN {
            true => "…",
            false => "",
        };
        format!("{before}{shown}{after} ({length} characters)")
    };
    format!("{path} {} → {}", short(old), short(new))
}

/// An object without what the server writes.
pub(super) fn own_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()));
    }
    object
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kubeproof_apiserver::meta::{GroupVersionResource, ResourceVersion};
    use kubeproof_machinery::json::json;

    use super::*;

    fn write(
        agent: &str,
        resource: &str,
        previous: Option<&Value>,
        object: &Value,
    ) -> JournalEntry {
        JournalEntry {
            rv: ResourceVersion::new(1),
            time: Timestamp::UNIX_EPOCH,
            gvr: GroupVersionResource {
                group: if resource == "pods" { "" } else { "apps" }.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
            },
            event: match previous {
                Some(_) => EventType::Modified,
                None => EventType::Added,
            },
            user_agent: agent.into(),
            object: object.clone().into(),
            previous: previous.map(|previous| previous.clone().into()),
        }
    }

    fn deleted(agent: &str, object: &Value) -> JournalEntry {
        JournalEntry {
            event: EventType::Deleted,
            ..write(agent, "pods", Some(object), object)
        }
    }

    fn set(image: &str) -> Value {
        let containers = json!([{"name": "web", "image": image}]);
        json!({
            "kind": "StatefulSet",
            "metadata": {"name": "web", "uid": "set"},
            "spec": {"template": {"spec": {"containers": containers}}},
        })
    }

    fn pod(uid: &str, image: &str, restarts: u32) -> Value {
        json!({
            "kind": "Pod",
            "metadata": {
                "name": "web-0", "uid": uid,
                "ownerReferences": [{"uid": "set", "controller": true}],
            },
            "spec": {"containers": [{"name": "web", "image": image}], "nodeName": uid},
            "status": {"containerStatuses": [{"restartCount": restarts}]},
        })
    }

    fn described(findings: &[Finding]) -> Vec<String> {
        let findings = findings.iter();
        findings
            .map(|one| {
                format!(
                    "{} {}: {}",
                    one.kind.as_str(),
                    one.object,
                    one.lines.join("; ")
                )
            })
            .collect()
    }

    #[test]
    fn a_replaced_pod_names_the_field_of_the_template() {
        let (old, new) = (set("nginx:1.25"), set("nginx:1.26"));
        let journal = [
            write("manager/v1", "statefulsets", None, &old),
            write(
                "statefulset-controller",
                "pods",
                None,
                &pod("a", "nginx:1.25", 0),
            ),
            write("manager/v2", "statefulsets", Some(&old), &new),
            deleted("kubelet", &pod("a", "nginx:1.25", 0)),
            write(
                "statefulset-controller",
                "pods",
                None,
                &pod("b", "nginx:1.26", 0),
            ),
        ];
        let others = BTreeSet::from(["statefulset-controller", "kubelet"]);
        let field = "spec.template.spec.containers[web].image nginx:1.25 → nginx:1.26";
        assert_eq!(
            described(&of(&journal, 2, &others)),
            [
                format!(
                    "replaced pod/web-0: a pod of statefulset/web; statefulset/web {field}, by manager"
                ),
                format!("written statefulset/web: by manager; {field}"),
            ]
        );
        assert_eq!(described(&of(&journal, 5, &others)), [""; 0]);
    }

    #[test]
    fn a_pod_that_a_program_replaces_itself_is_compared_with_the_next_one() {
        let journal = [
            write("x", "statefulsets", None, &set("a")),
            write("x", "pods", None, &pod("a", "a", 0)),
            deleted("x", &pod("a", "a", 0)),
            write("x", "pods", None, &pod("b", "b", 0)),
        ];
        let others = BTreeSet::from(["x"]);
        let found = of(&journal, 2, &others);
        let lines = [
            "a pod of statefulset/web",
            "the next pod of the name has spec.containers[web].image a → b",
        ];
        assert_eq!(found[0].lines, lines);
        assert_eq!(
            of(&journal[..3], 2, &others)[0].lines[1],
            "no template changed"
        );
    }

    #[test]
    fn restarts_and_writes_of_the_program_are_findings_and_leases_are_not() {
        let (old, new) = (pod("a", "a", 0), pod("a", "a", 2));
        let mut renewed = write("manager", "leases", None, &json!({"kind": "Lease"}));
        renewed.gvr.group = "coordination.k8s.io".to_owned();
        let map = |value: &str| {
            let metadata = json!({"name": "a", "resourceVersion": value});
            json!({"kind": "ConfigMap", "metadata": metadata, "data": {"k": value}})
        };
        let journal = [
            write("x", "pods", None, &old),
            renewed,
            write("kubelet", "pods", Some(&old), &new),
            write("manager", "configmaps", Some(&map("1")), &map("2")),
            write("manager", "configmaps", Some(&map("2")), &map("1")),
            write(
                "manager",
                "secrets",
                None,
                &json!({"kind": "Secret", "metadata": {"name": "s"}}),
            ),
        ];
        let others = BTreeSet::from(["x", "kubelet"]);
        assert_eq!(
            described(&of(&journal, 1, &others)),
            [
                "restarted pod/web-0: restarts 0 → 2, a pod without a controller",
                "written configmap/a: by manager 2 times; in the end as before",
                "written secret/s: by manager, created",
            ]
        );
    }

    #[test]
    fn long_values_are_told_from_their_difference_on() {
        let short = "spec.replicas 1 → 2";
        assert_eq!(shortened(short), short);
        let same = "é".repeat(200);
        let long = format!("data.key {same}old → {same}new{same}");
        let expected = format!(
            "data.key …{}old (203 characters) → …{}new{}… (403 characters)",
            "é".repeat(21),
            "é".repeat(21),
            "é".repeat(76)
        );
        assert_eq!(shortened(&long), expected);
        let gone = format!("spec.volumes[a] {same} → unset");
        let expected = format!(
            "spec.volumes[a] {}… (200 characters) → unset",
            "é".repeat(100)
        );
        assert_eq!(shortened(&gone), expected);
    }

    #[test]
    fn equal_refusals_are_one_finding() {
        let refusals = ["create pods a: 403 no", "create pods a: 403 no", "x"].map(str::to_owned);
        let found = of_refusals(&refusals);
        assert_eq!(
            described(&found),
            ["refused : create pods a: 403 no (×2)", "refused : x"]
        );
    }
}
