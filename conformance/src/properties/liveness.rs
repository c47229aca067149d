//! Controllers that never settle: they write though nothing changes, or repeat requests again and again.

use std::collections::BTreeMap;

use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::fault::Point;
use kubeproof_apiserver::meta::ResourceVersion;

use super::general::HOT_REQUEUE;
use super::{Property, Violation, World};
use crate::heartbeat::is_heartbeat;
use crate::user_agent;

/// The name of the property that no writer writes an object again and again.
pub(crate) const WRITE_LOOPS: &str = "no write loops";
/// This many consecutive writes of one object by one writer are a loop.
const WRITES_MAX: u32 = 10;
/// This many equal requests while nothing changes are a hot requeue: a failing request that is retried with back-off
/// is sent less often before a run counts as settled.
const REQUESTS_MAX: u32 = 40;
/// Reports, whose writes do not count and interrupt no series.
const REPORTS: &[&str] = &["events", "leases"];

/// No controller keeps writing an object when nothing else changes.
#[derive(Debug, Default)]
pub(super) struct WriteLoop {
    last: Option<(String, String)>,
    times: u32,
}

impl Property for WriteLoop {
    fn name(&self) -> &str {
        WRITE_LOOPS
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        // The measurements of an autoscaler are a report, too.
        let is_measured = *entry.user_agent == *user_agent::AUTOSCALER
            && entry.gvr.resource == "horizontalpodautoscalers";
        let is_report = is_measured || REPORTS.contains(&&*entry.gvr.resource);
        if is_report || is_heartbeat(entry) {
            return Vec::new();
        }
        let name = entry.object["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        let object = format!("{} {name}", entry.gvr.resource);
        let written = (entry.user_agent.to_string(), object);
        if self.last.as_ref() == Some(&written) {
            self.times += 1;
        } else {
            self.times = 1;
            self.last = Some(written.clone());
        }
        let (writer, object) = written;
        // Writes without a user agent, and those of the test or scenario itself, end with it.
        let is_controller = user_agent::is_component(&writer);
        match self.times == WRITES_MAX && is_controller {
            true => vec![format!(
                "{writer} wrote {object} {WRITES_MAX} times in a row"
            )],
            false => Vec::new(),
        }
    }
}

/// Returns the controllers that repeat a request again and again while nothing is written.
pub(super) fn hot_requeues(points: &[Point]) -> Vec<Violation> {
    let mut repeated: BTreeMap<(ResourceVersion, &str, String), u32> = BTreeMap::new();
    for point in points.iter().filter(|point| point.event.is_none()) {
        let resource = point.resource.split(['/', '.']).next().unwrap_or_default();
        // A reopened watch does not count, and nodes and autoscalers send requests at fixed times.
        let is_idle = point.verb == "watch" || REPORTS.contains(&resource);
        if is_idle || ["kubelet", user_agent::AUTOSCALER].contains(&&*point.from) {
            continue;
        }
        let name = point.name.as_deref().unwrap_or_default();
        let request = format!("{} {} {name}", point.verb, point.resource);
        let key = (point.after_rv, &*point.from, request);
        *repeated.entry(key).or_default() += 1;
    }
    let hot = repeated
        .into_iter()
        .filter(|(_, times)| *times >= REQUESTS_MAX);
    let violations = hot.map(|((rv, from, request), times)| Violation {
        rv,
        property: HOT_REQUEUE.to_owned(),
        what: format!(
            "{from} repeated `{}` {times} times while nothing changed",
            request.trim_end()
        ),
    });
    violations.collect()
}

#[cfg(test)]
mod tests {

    use jiff::Timestamp;
    use kubeproof_apiserver::EventType;
    use kubeproof_apiserver::meta::GroupVersionResource;
    use serde_json::json;

    use super::*;

    fn write(user_agent: &str, name: &str) -> JournalEntry {
        JournalEntry {
            rv: ResourceVersion::new(1),
            time: Timestamp::UNIX_EPOCH,
            gvr: GroupVersionResource {
                group: String::new(),
                version: "v1".to_owned(),
                resource: "pods".to_owned(),
            },
            event: EventType::Modified,
            user_agent: user_agent.into(),
            object: json!({"metadata": {"name": name}}).into(),
            previous: None,
        }
    }

    #[test]
    fn a_loop_is_one_writer_and_one_object() {
        let mut property = WriteLoop::default();
        let mut violations = |user_agent: &str, name: &str| {
            property.judge(&write(user_agent, name), &World::default())
        };
        for _ in 0..50 {
            assert!(violations("a", "x").is_empty());
            assert!(violations("b", "x").is_empty());
            assert!(violations("a", "y").is_empty());
        }
        let looped: Vec<String> = (0..WRITES_MAX).flat_map(|_| violations("a", "x")).collect();
        assert_eq!(looped, ["a wrote pods x 10 times in a row"]);
    }

    #[test]
    fn an_autoscaler_asks_and_reports_at_fixed_times() {
        let mut property = WriteLoop::default();
        let mut measured = write(user_agent::AUTOSCALER, "web");
        "horizontalpodautoscalers".clone_into(&mut measured.gvr.resource);
        for _ in 0..=WRITES_MAX {
            assert!(property.judge(&measured, &World::default()).is_empty());
        }
        let asked = |from: &str| Point {
            verb: "get".to_owned(),
            resource: "deployments.apps/scale".to_owned(),
            namespace: None,
            name: Some("web".to_owned()),
            from: from.to_owned(),
            event: None,
            nth: 0,
            after_rv: ResourceVersion::new(1),
            calls_webhooks: false,
        };
        let times = |from| vec![asked(from); REQUESTS_MAX as usize];
        assert!(hot_requeues(&times(user_agent::AUTOSCALER)).is_empty());
        assert_eq!(hot_requeues(&times("operator")).len(), 1);
    }

    #[test]
    fn asking_is_no_fault_while_things_change() {
        let point = |after_rv: u64| Point {
            verb: "get".to_owned(),
            resource: "pods".to_owned(),
            namespace: None,
            name: Some("web-0".to_owned()),
            from: "c".to_owned(),
            event: None,
            nth: 0,
            after_rv: ResourceVersion::new(after_rv),
            calls_webhooks: false,
        };
        let changing: Vec<Point> = (0..100).map(|rv| point(rv / 10)).collect();
        assert_eq!(hot_requeues(&changing), []);
        let resting: Vec<Point> = (0..100).map(|_| point(7)).collect();
        let requeues = hot_requeues(&resting);
        assert_eq!(
            requeues[0].what,
            "c repeated `get pods web-0` 100 times while nothing changed"
        );
    }
}
