//! The objects that a version leaves, as a text that is compared with that of another version.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;
use regex::Regex;

use super::findings::{name_of, own_fields};
use crate::heartbeat::is_heartbeat;

/// A time.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").expect("a regex"));
/// A uid.
static UID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").expect("a regex"));

/// The objects at the end of `journal` in YAML, sorted: without heartbeats and events, and without what the server writes,
/// times and uids.
pub(super) fn in_words(journal: &[JournalEntry]) -> String {
    let mut held: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for entry in journal {
        if entry.gvr.resource == "events" || is_heartbeat(entry) {
            continue;
        }
        let namespace = entry.object["metadata"]["namespace"].as_str();
        let key = (
            name_of(&entry.object),
            namespace.unwrap_or_default().to_owned(),
        );
        match entry.event {
            EventType::Deleted => held.remove(&key),
            EventType::Added | EventType::Modified => held.insert(key, &entry.object),
        };
    }
    let mut words = String::new();
    for ((name, namespace), object) in held {
        let within = match namespace.as_str() {
            "" => String::new(),
            namespace => format!(" in {namespace}"),
        };
        let yaml =
            serde_saphyr::to_string(&own_fields(object)).expect("JSON can be written as YAML");
        let lines: String = yaml.lines().map(|line| format!("  {line}\n")).collect();
        words.push_str(&format!("{name}{within}\n{lines}"));
    }
    let words = TIME.replace_all(&words, "(time)");
    UID.replace_all(&words, "(uid)").into_owned()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kubeproof_apiserver::meta::{GroupVersionResource, ResourceVersion};
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn the_last_state_of_each_object_is_told_without_times_and_uids() {
        let write = |resource: &str, event, object: Value| JournalEntry {
            rv: ResourceVersion::new(1),
            time: Timestamp::UNIX_EPOCH,
            gvr: GroupVersionResource {
                group: String::new(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
            },
            event,
            user_agent: "x".into(),
            object: object.into(),
            previous: None,
        };
        let map = |name: &str, value: &str| {
            let metadata =
                json!({"name": name, "namespace": "n", "uid": "u", "resourceVersion": "7"});
            json!({"kind": "ConfigMap", "metadata": metadata, "data": {"k": value}})
        };
        let journal = [
            write(
                "configmaps",
                EventType::Added,
                map("b", "of 6b0f4d4e-52a5-4c1b-9a52-0c1d8e7f6a5b"),
            ),
            write("configmaps", EventType::Added, map("a", "1")),
            write(
                "configmaps",
                EventType::Modified,
                map("a", "at 2026-01-02T03:04:05.6Z"),
            ),
            write("configmaps", EventType::Added, map("c", "1")),
            write("configmaps", EventType::Deleted, map("c", "1")),
            write(
                "events",
                EventType::Added,
                json!({"kind": "Event", "metadata": {"name": "e"}}),
            ),
        ];
        let expected = "\
configmap/a in n
  data:
    k: at (time)
  kind: ConfigMap
  metadata:
    name: a
    namespace: \"n\"
configmap/b in n
  data:
    k: of (uid)
  kind: ConfigMap
  metadata:
    name: b
    namespace: \"n\"
";
        let words = in_words(&journal);
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&words), sorted(expected), "{words}");
        assert!(words.starts_with("configmap/a in n\n"));
    }
}
