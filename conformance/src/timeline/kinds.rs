//! The meaning of a write, by kind.

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::names::RevisionNames;
use super::{autoscaler, conditions, diff, images, meta, node};

/// Resources whose writes say nothing about the controllers under test.
const HIDDEN_RESOURCES: &[&str] = &[
    "endpoints",
    "endpointslices",
    "leases",
    "persistentvolumes",
    "serviceaccounts",
];

/// The lines for one write.
pub(super) fn describe(entry: &JournalEntry, revisions: &RevisionNames) -> Vec<String> {
    let resource = entry.gvr.resource.as_str();
    let is_published = entry.object["metadata"]["name"] == "kube-root-ca.crt";
    if HIDDEN_RESOURCES.contains(&resource) || is_published {
        return Vec::new();
    }
    if resource == "events" {
        return event(entry).into_iter().collect();
    }
    let noun = match resource {
        "pods" => "pod".to_owned(),
        "persistentvolumeclaims" => "claim".to_owned(),
        _ => entry.object["kind"]
            .as_str()
            .unwrap_or(resource)
            .to_lowercase(),
    };
    let name = entry.object["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    let what = match (entry.event, entry.previous.as_deref()) {
        (EventType::Added, _) => created(resource, &entry.object, revisions),
        (EventType::Deleted, _) => gone(&entry.object),
        (EventType::Modified, Some(previous)) => {
            changed(resource, previous, &entry.object, revisions)
        }
        (EventType::Modified, None) => vec!["changed".to_owned()],
    };
    if what.is_empty() {
        return Vec::new();
    }
    vec![format!("{noun} {name} {}", what.join(", "))]
}

fn created(resource: &str, object: &Value, revisions: &RevisionNames) -> Vec<String> {
    let mut words = "created".to_owned();
    let metadata = &object["metadata"];
    match resource {
        "pods" => {
            if let Some(revision) = metadata["labels"][meta::REVISION_LABEL].as_str() {
                words.push_str(&format!(" @{}", revisions.short(revision)));
            }
        }
        "controllerrevisions" => words.push_str(&format!(
            " (revision {}) = {}",
            object["revision"],
            revisions.short(metadata["name"].as_str().unwrap_or_default())
        )),
        _ => {
            if let Some(replicas) = object["spec"]["replicas"].as_i64() {
                words.push_str(&format!(" (replicas {replicas})"));
            }
        }
    }
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    // The owner is worth a word where it is a decision: of a claim it depends on the policy.
    if resource == "persistentvolumeclaims" {
        words.extend(owners.map(|owner| format!(", owner {}", meta::owner(owner))));
    }
    vec![words]
}

fn gone(object: &Value) -> Vec<String> {
    let graceful = !object["metadata"]["deletionTimestamp"].is_null();
    vec![
        if graceful {
            "gone"
        } else {
            "deleted, gone at once"
        }
        .to_owned(),
    ]
}

fn changed(resource: &str, old: &Value, new: &Value, revisions: &RevisionNames) -> Vec<String> {
    let mut changes = meta::changes(old, new, revisions);
    match resource {
        "pods" => changes.extend(pod(old, new)),
        "imagepulljobs" => changes.extend(images::image_pull_job(old, new)),
        "nodeimages" => changes.extend(images::node_image(old, new)),
        "nodes" => changes.extend(node::changes(old, new)),
        "horizontalpodautoscalers" => changes.extend(autoscaler::changes(old, new)),
        "statefulsets" | "clonesets" => {
            changes.extend(diff::fields("spec", &old["spec"], &new["spec"]));
            let is_advanced = new["apiVersion"]
                .as_str()
                .is_some_and(|it| it.contains("kruise"));
            let (before, after) = (&old["status"], &new["status"]);
            changes.extend(match is_advanced {
                true => advanced_status(before, after, revisions),
                false => workload_status(before, after, revisions),
            });
        }
        "controllerrevisions" => {
            if old["revision"] != new["revision"] {
                let letter = revisions.short(new["metadata"]["name"].as_str().unwrap_or_default());
                changes.push(format!(
                    "= {letter} revision {} → {}",
                    old["revision"], new["revision"]
                ));
            }
        }
        "persistentvolumeclaims" => {
            if old["status"]["phase"] != new["status"]["phase"] {
                let phase = new["status"]["phase"].as_str().unwrap_or_default();
                changes.push(phase.to_lowercase());
            } else {
                let capacity = |claim: &Value| claim["status"]["capacity"].clone();
                let (before, after) = (capacity(old), capacity(new));
                changes.extend(diff::fields("status.capacity", &before, &after));
            }
            let resources = |claim: &Value| claim["spec"]["resources"].clone();
            let (before, after) = (resources(old), resources(new));
            changes.extend(diff::fields("spec.resources", &before, &after));
        }
        _ => {
            for part in ["data", "spec"] {
                changes.extend(diff::fields(part, &old[part], &new[part]));
            }
            let (before, after) = (&old["status"], &new["status"]);
            let names_accepted = after["acceptedNames"] == new["spec"]["names"];
            let rest = |status| {
                let mut rest = active_by_name(conditions::without(status));
                if let Some(rest) = rest.as_object_mut().filter(|_| names_accepted) {
                    // The condition NamesAccepted says it.
                    rest.remove("acceptedNames");
                }
                rest
            };
            changes.extend(diff::fields("status", &rest(before), &rest(after)));
            changes.extend(conditions::changes(before, after));
        }
    }
    changes
}

/// Reduces the jobs in a cron job's status to their names.
fn active_by_name(mut status: Value) -> Value {
    let jobs = status.get_mut("active").and_then(Value::as_array_mut);
    for job in jobs.into_iter().flatten() {
        *job = job["name"].take();
    }
    status
}

fn pod(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    let phase = |pod: &Value| {
        pod["status"]["phase"]
            .as_str()
            .unwrap_or("Pending")
            .to_owned()
    };
    let (phase_before, phase_now) = (phase(old), phase(new));
    if phase_before != phase_now {
        changes.push(match new["status"]["reason"].as_str() {
            Some(reason) => format!("{phase_now} ({reason})"),
            None => phase_now.clone(),
        });
    }
    let (ready_before, ready_now) = (is_ready(old), is_ready(new));
    if ready_now != ready_before {
        changes.push(if ready_now { "ready" } else { "not ready" }.to_owned());
    } else if phase_before != phase_now && phase_now == "Running" && !ready_now {
        changes.push("not ready".to_owned());
    }
    changes.extend(diff::fields(
        "spec.containers",
        &old["spec"]["containers"],
        &new["spec"]["containers"],
    ));
    changes.extend(restarts(old, new));
    changes.extend(readiness_gates(old, new));
    changes.extend(disruption(old, new));
    changes
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready") == Some("True")
}

fn condition<'a>(pod: &'a Value, wanted: &str) -> Option<&'a str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == wanted)?;
    found["status"].as_str()
}

fn restarts(old: &Value, new: &Value) -> Vec<String> {
    let count = |pod: &Value, index: usize| {
        pod["status"]["containerStatuses"][index]["restartCount"]
            .as_i64()
            .unwrap_or(0)
    };
    let containers = new["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    containers
        .enumerate()
        .filter(|(index, _)| count(old, *index) != count(new, *index))
        .map(|(index, container)| {
            let name = container["name"].as_str().unwrap_or_default();
            format!(
                "container {name} restarted (restartCount {})",
                count(new, index)
            )
        })
        .collect()
}

/// Conditions that the pod's readiness gates name; the kubelet's own are shown as readiness.
fn readiness_gates(old: &Value, new: &Value) -> Vec<String> {
    let gates = new["spec"]["readinessGates"]
        .as_array()
        .into_iter()
        .flatten();
    gates
        .filter_map(|gate| gate["conditionType"].as_str())
        .filter(|gate| condition(old, gate) != condition(new, gate))
        .map(|gate| {
            format!(
                "condition {gate} {}",
                condition(new, gate).unwrap_or("unset")
            )
        })
        .collect()
}

/// Why the control plane deletes the pod.
fn disruption(old: &Value, new: &Value) -> Option<String> {
    let reason = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array()?;
        let known = conditions
            .iter()
            .find(|known| known["type"] == "DisruptionTarget")?;
        Some(known["reason"].as_str().unwrap_or_default().to_owned())
    };
    let reason = reason(new).filter(|current| reason(old).as_ref() != Some(current))?;
    Some(format!("condition DisruptionTarget ({reason})"))
}

/// `status 3/3/3/2/1 cur=A upd=B`: replicas, ready, available, current, updated.
fn workload_status(old: &Value, new: &Value, revisions: &RevisionNames) -> Vec<String> {
    let shown = |status: &Value| status_words(status, revisions);
    let mut changes = Vec::new();
    if shown(old) != shown(new) {
        changes.push(format!("status {}", shown(new)));
    }
    if old["observedGeneration"] != new["observedGeneration"] {
        changes.push(format!("observedGeneration {}", new["observedGeneration"]));
    }
    let collisions = |status: &Value| status["collisionCount"].as_i64().unwrap_or(0);
    if collisions(old) != collisions(new) {
        changes.push(format!("collisionCount {}", collisions(new)));
    }
    changes.extend(conditions::changes(old, new));
    changes
}

/// The status of OpenKruise's workloads, with conditions in words.
fn advanced_status(old: &Value, new: &Value, revisions: &RevisionNames) -> Vec<String> {
    let (counts, rest) = (conditions::without(old), conditions::without(new));
    let shown = |status: &Value| match status["expectedUpdatedReplicas"].is_null()
        && status["currentReplicas"].is_i64()
    {
        true => status_words(status, revisions),
        false => clone_set_words(status, revisions),
    };
    let mut changes = workload_status(&counts, &rest, revisions);
    changes.retain(|change| !change.starts_with("status "));
    if shown(old) != shown(new) {
        changes.insert(0, format!("status {}", shown(new)));
    }
    changes.extend(conditions::changes(old, new));
    changes
}

/// `5/5/5 updated 2/2/1 of 3 cur=A upd=B`: replicas, ready, available; of the updated ones all, ready,
/// available; how many there are to be.
pub(crate) fn clone_set_words(status: &Value, revisions: &RevisionNames) -> String {
    let counts = |fields: [&str; 3]| {
        let counts = fields.map(|field| status[field].as_i64().unwrap_or(0).to_string());
        counts.join("/")
    };
    let revision = |field: &str| revisions.short(status[field].as_str().unwrap_or_default());
    format!(
        "{} updated {} of {} cur={} upd={}",
        counts(["replicas", "readyReplicas", "availableReplicas"]),
        counts([
            "updatedReplicas",
            "updatedReadyReplicas",
            "updatedAvailableReplicas"
        ]),
        status["expectedUpdatedReplicas"].as_i64().unwrap_or(0),
        revision("currentRevision"),
        revision("updateRevision")
    )
}

/// The counters and revisions of a workload's status.
pub(crate) fn status_words(status: &Value, revisions: &RevisionNames) -> String {
    let counters: Vec<String> = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "currentReplicas",
        "updatedReplicas",
    ]
    .iter()
    .map(|counter| status[counter].as_i64().unwrap_or(0).to_string())
    .collect();
    let revision = |field: &str| revisions.short(status[field].as_str().unwrap_or_default());
    format!(
        "{} cur={} upd={}",
        counters.join("/"),
        revision("currentRevision"),
        revision("updateRevision")
    )
}

/// Warnings as they come; the outcome lists all events.
fn event(entry: &JournalEntry) -> Option<String> {
    let event = &entry.object;
    if entry.event == EventType::Deleted || event["type"] != "Warning" {
        return None;
    }
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let count = event["count"].as_i64().unwrap_or(1);
    let times = if count > 1 {
        format!(" (×{count})")
    } else {
        String::new()
    };
    Some(format!(
        "event Warning {}: {}{times}",
        text("reason"),
        crate::refusals::first_line(text("message"))
    ))
}
