//! Controllers that never settle: they write though nothing changes, or repeat requests again and again.

use std::collections::BTreeMap;

use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::fault::Point;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_machinery::json::Value;

use super::general::HOT_REQUEUE;
use super::{Property, Violation, World};
use crate::heartbeat::{is_heartbeat, is_only, without_versions};
use crate::user_agent;

/// The name of the property that no writer writes an object again and again.
pub(crate) const WRITE_LOOPS: &str = "no write loops";
/// This many consecutive writes of one object by one writer are a loop.
const WRITES_MAX: u32 = 10;
/// This many equal requests while nothing changes are a hot requeue. A write that a stale cache has refused is sent five
/// times in each sync, and eighteen syncs fit between the first delay of a queue, 5 ms, and the longest, 1,000 s.
const REQUESTS_MAX: u32 = 91;
/// Reports, whose writes do not count and interrupt no series.
const REPORTS: &[&str] = &["events", "leases"];
/// The groups of metrics whose resources have dots, such as `deployments.apps`.
const METRICS: &[&str] = &["custom.metrics.k8s.io", "external.metrics.k8s.io"];

/// No controller keeps writing an object when nothing else changes. A restart of a container is a change.
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
        let is_report = is_measurement(entry) || REPORTS.contains(&&*entry.gvr.resource);
        if is_report || is_heartbeat(entry) {
            return Vec::new();
        }
        if is_restart(entry) {
            // Something has changed although no controller wrote.
            self.last = None;
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

/// Whether a container of a pod has restarted.
fn is_restart(entry: &JournalEntry) -> bool {
    let is_pod = entry.gvr.group.is_empty() && entry.gvr.resource == "pods";
    is_pod && restarts(Some(&entry.object)) > restarts(entry.previous.as_deref())
}

/// The restarts of a pod's containers.
fn restarts(object: Option<&Value>) -> i64 {
    const STATUSES: [&str; 2] = ["initContainerStatuses", "containerStatuses"];
    let status = object.map(|object| &object["status"]);
    let statuses = status
        .into_iter()
        .flat_map(|status| STATUSES.map(|field| &status[field]));
    let containers = statuses.filter_map(Value::as_array).flatten();
    let counts = containers.filter_map(|container| container["restartCount"].as_i64());
    counts.sum()
}

/// Whether the write only says what an autoscaler has measured anew, and what it makes of that.
fn is_measurement(entry: &JournalEntry) -> bool {
    let measured = |object: &Value| object["status"]["currentMetrics"].clone();
    let previous = entry.previous.as_deref();
    entry.gvr.resource == "horizontalpodautoscalers"
        && previous.map(measured) != Some(measured(&entry.object))
        && is_only(entry, without_measurement)
}

/// Returns the autoscaler without its measurements and its conditions.
fn without_measurement(autoscaler: &Value) -> Value {
    let mut autoscaler = without_versions(autoscaler);
    if let Some(status) = autoscaler["status"].as_object_mut() {
        status.remove("currentMetrics");
        status.remove("conditions");
    }
    autoscaler
}

/// Whether the request reads metrics or the replicas of a target, which an autoscaler has to read again and again: neither
/// can be watched.
fn is_measuring(point: &Point) -> bool {
    let (qualified, subresource) = match point.resource.split_once('/') {
        Some((qualified, subresource)) => (qualified, subresource),
        None => (point.resource.as_str(), ""),
    };
    let group = qualified.split_once('.').map_or("", |(_, group)| group);
    let is_in = |own: &str| {
        let rest = group.strip_suffix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_metric = group == "metrics.k8s.io" || METRICS.iter().any(|own| is_in(own));
    !point.is_write() && (subresource == "scale" || is_metric)
}

/// Returns the controllers that repeat a request again and again while nothing is written.
pub(super) fn hot_requeues(points: &[Point]) -> Vec<Violation> {
    let mut repeated: BTreeMap<(ResourceVersion, &str, String), u32> = BTreeMap::new();
    for point in points.iter().filter(|point| point.event.is_none()) {
        let resource = point.resource.split(['/', '.']).next().unwrap_or_default();
        // A reopened watch does not count, and nodes and autoscalers send requests at fixed times.
        let is_idle = point.verb == "watch" || REPORTS.contains(&resource);
        if is_idle || is_measuring(point) || point.from == "kubelet" {
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
    use kubeproof_machinery::json::json;

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

    /// Ten writes of an autoscaler by a client, whose statuses are made of their numbers.
    fn reports(of: impl Fn(u32) -> Value) -> Vec<String> {
        let mut property = WriteLoop::default();
        let autoscaler = |number| json!({"metadata": {"name": "web"}, "status": of(number)});
        let entries = (0..WRITES_MAX).map(|number| {
            let mut entry = write("kube-controller-manager", "web");
            "horizontalpodautoscalers".clone_into(&mut entry.gvr.resource);
            entry.previous = Some(autoscaler(number).into());
            entry.object = autoscaler(number + 1).into();
            entry
        });
        entries
            .flat_map(|entry| property.judge(&entry, &World::default()))
            .collect()
    }

    #[test]
    fn measurements_are_a_report_and_other_writes_of_an_autoscaler_are_not() {
        let measured = |number| json!({"currentMetrics": [number], "conditions": [number]});
        assert!(reports(measured).is_empty());
        let looped =
            ["kube-controller-manager wrote horizontalpodautoscalers web 10 times in a row"];
        assert_eq!(reports(|number| json!({"conditions": [number]})), looped);
        let scaled = |number| json!({"currentMetrics": [number], "desiredReplicas": number});
        assert_eq!(reports(scaled), looped);
        assert_eq!(reports(|_| json!({"currentMetrics": [1]})), looped);
    }

    #[test]
    fn containers_may_end_and_begin_again_for_ever() {
        let writes = |resource: &str, restarts: fn(u32) -> [u32; 2]| {
            let mut property = WriteLoop::default();
            let pod = |number| {
                let [init, main] = restarts(number).map(|count| json!([{"restartCount": count}]));
                let status = json!({"initContainerStatuses": init, "containerStatuses": main});
                json!({"metadata": {"name": "a"}, "status": status})
            };
            let entries = (0..4 * WRITES_MAX).map(|number| {
                let mut entry = write("kubelet", "a");
                resource.clone_into(&mut entry.gvr.resource);
                entry.previous = Some(pod(number).into());
                entry.object = pod(number + 1).into();
                entry
            });
            entries
                .flat_map(|entry| property.judge(&entry, &World::default()))
                .collect::<Vec<_>>()
        };
        assert!(writes("pods", |number| [0, number / 3]).is_empty());
        assert!(writes("pods", |number| [number / 3, 1]).is_empty());
        assert_eq!(
            writes("pods", |_| [1, 1]),
            ["kubelet wrote pods a 10 times in a row"]
        );
        let looped = ["kubelet wrote widgets a 10 times in a row"];
        assert_eq!(writes("widgets", |number| [0, number / 3]), looped);
    }

    #[test]
    fn metrics_and_scales_are_read_at_fixed_times() {
        let asked = |verb: &str, resource: &str| {
            let point = Point {
                verb: verb.to_owned(),
                resource: resource.to_owned(),
                namespace: None,
                name: Some("web".to_owned()),
                from: "kube-controller-manager".to_owned(),
                event: None,
                nth: 0,
                after_rv: ResourceVersion::new(1),
                calls_webhooks: false,
            };
            hot_requeues(&vec![point; REQUESTS_MAX as usize]).len()
        };
        for resource in [
            "deployments.apps/scale",
            "pods.metrics.k8s.io",
            "deployments.apps.custom.metrics.k8s.io/rps",
            "queue.external.metrics.k8s.io",
        ] {
            assert_eq!(asked("get", resource), 0, "{resource}");
        }
        assert_eq!(asked("update", "deployments.apps/scale"), 1);
        assert_eq!(asked("get", "deployments.apps"), 1);
        assert_eq!(asked("get", "pods.other.metrics.k8s.io"), 1);
        assert_eq!(
            asked("get", "horizontalpodautoscalers.autoscaling/status"),
            1
        );
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
