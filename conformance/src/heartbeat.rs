//! Writes that only show that their writer is alive, which never end.

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

/// The annotation in which leaders were elected before there were leases, on a ConfigMap or on Endpoints.
/// Upstream: `resourcelock.LeaderElectionRecordAnnotationKey`.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// Whether the write renews a lease or the record of a leader, or the times of a node's conditions, or counts an event
/// once more.
pub(crate) fn is_heartbeat(entry: &JournalEntry) -> bool {
    match &*entry.gvr.resource {
        "leases" => true,
        "nodes" => is_only(entry, without_heartbeats),
        "configmaps" | "endpoints" => is_leader_record(entry),
        "events" => is_only(entry, without_count),
        _ => false,
    }
}

/// Whether the write creates the object for the record of a leader, or changes nothing but the record.
fn is_leader_record(entry: &JournalEntry) -> bool {
    let has_record = entry.object["metadata"]["annotations"][LEADER].is_string();
    let is_new = matches!(entry.event, EventType::Added);
    has_record && (is_new || is_only(entry, without_leader))
}

/// Whether the write changes only what `rest` drops.
pub(crate) fn is_only(entry: &JournalEntry, rest: fn(&Value) -> Value) -> bool {
    let is_modified = matches!(entry.event, EventType::Modified);
    let previous = entry.previous.as_deref().filter(|_| is_modified);
    previous.is_some_and(|previous| rest(previous) == rest(&entry.object))
}

/// Returns the object without what every write changes.
pub(crate) fn without_versions(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    object
}

/// Returns the node without the times of its heartbeats.
fn without_heartbeats(node: &Value) -> Value {
    let mut node = without_versions(node);
    let conditions = node["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        condition["lastHeartbeatTime"].take();
    }
    node
}

/// Returns the event without how often it has occurred, and when last.
fn without_count(event: &Value) -> Value {
    let mut event = without_versions(event);
    if let Some(fields) = event.as_object_mut() {
        for field in ["count", "lastTimestamp", "series"] {
            fields.remove(field);
        }
    }
    event
}

/// Returns the object without the record of its leader.
fn without_leader(object: &Value) -> Value {
    let mut object = without_versions(object);
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LEADER);
    }
    object
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kubeproof_apiserver::meta::{GroupVersionResource, ResourceVersion};
    use kubeproof_machinery::json::json;

    use super::*;

    fn write(resource: &str, previous: Option<Value>, object: Value) -> JournalEntry {
        JournalEntry {
            rv: ResourceVersion::new(1),
            time: Timestamp::UNIX_EPOCH,
            gvr: GroupVersionResource {
                group: String::new(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
            },
            event: match previous {
                Some(_) => EventType::Modified,
                None => EventType::Added,
            },
            user_agent: "manager".into(),
            object: object.into(),
            previous: previous.map(Into::into),
        }
    }

    fn lock(record: &str, data: &str) -> Value {
        json!({
            "metadata": {"name": "lock", "resourceVersion": record, "annotations": {LEADER: record}},
            "data": {"k": data},
        })
    }

    #[test]
    fn a_renewed_record_of_a_leader_is_a_heartbeat() {
        for resource in ["configmaps", "endpoints"] {
            let (first, renewed) = (lock("1", "a"), lock("2", "a"));
            assert!(is_heartbeat(&write(resource, None, first.clone())));
            assert!(is_heartbeat(&write(resource, Some(first.clone()), renewed)));
            assert!(!is_heartbeat(&write(resource, Some(first), lock("2", "b"))));
        }
        let plain = |data: &str| json!({"metadata": {"name": "a"}, "data": {"k": data}});
        assert!(!is_heartbeat(&write("configmaps", None, plain("a"))));
        let changed = write("configmaps", Some(plain("a")), plain("b"));
        assert!(!is_heartbeat(&changed));
        let other = write("secrets", Some(lock("1", "a")), lock("2", "a"));
        assert!(!is_heartbeat(&other));
    }

    #[test]
    fn an_event_that_is_only_counted_once_more_is_a_heartbeat() {
        let event = |message: &str, count: u32| {
            json!({"metadata": {"name": "e", "resourceVersion": count.to_string()},
                "message": message, "count": count, "lastTimestamp": count.to_string()})
        };
        let repeated = write("events", Some(event("a", 1)), event("a", 2));
        assert!(is_heartbeat(&repeated));
        let mut series = event("a", 1);
        series["series"] = json!({"count": 2, "lastObservedTime": "2"});
        assert!(is_heartbeat(&write("events", Some(event("a", 1)), series)));
        assert!(!is_heartbeat(&write("events", None, event("a", 1))));
        let other = write("events", Some(event("a", 1)), event("b", 2));
        assert!(!is_heartbeat(&other));
        let mut deleted = write("events", Some(event("a", 1)), event("a", 1));
        deleted.event = EventType::Deleted;
        assert!(!is_heartbeat(&deleted));
    }

    #[test]
    fn a_lease_and_the_times_of_a_node_are_heartbeats() {
        assert!(is_heartbeat(&write("leases", None, json!({}))));
        let node = |status: &str, time: &str| {
            let condition = json!({"type": "Ready", "status": status, "lastHeartbeatTime": time});
            json!({"metadata": {"name": "n"}, "status": {"conditions": [condition]}})
        };
        let beat = write("nodes", Some(node("True", "1")), node("True", "2"));
        assert!(is_heartbeat(&beat));
        let lost = write("nodes", Some(node("True", "1")), node("Unknown", "1"));
        assert!(!is_heartbeat(&lost));
    }
}
