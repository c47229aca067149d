//! Whether a node is still heard of: a pure function of its heartbeats and of the time.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How long a node may be silent (`node-monitor-grace-period`).
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// How long a node may take until it first posts its status (`node-startup-grace-period`).
const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// The conditions that become unknown on a silent node, in the order in which they are written.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The last heartbeats of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Health {
    /// The condition Ready as it was seen last.
    pub(super) ready: Option<NodeCondition>,
    /// The time of the last observed heartbeat.
    pub(super) probed: Timestamp,
    renewed: Option<Timestamp>,
}

/// The result of one health check of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observation {
    pub(super) health: Health,
    /// The status of Ready that the node came with; Unknown when it has none.
    pub(super) observed: String,
    /// The conditions to be written because the node is silent.
    pub(super) overdue: Vec<NodeCondition>,
}

/// The condition Ready, if the node has it.
pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    condition(node, "Ready")
}

fn condition<'a>(node: &'a Node, wanted: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == wanted)
}

/// Looks at `node` and its `lease`, knowing what was known `before`.
pub(super) fn observe(
    before: Option<&Health>,
    node: &Node,
    lease: Option<&Lease>,
    now: Timestamp,
) -> Observation {
    let current = ready(node);
    let created = node.metadata.creation_timestamp.as_ref();
    let created = created.map_or(now, |time| time.0);
    let mut health = match (before, current) {
        // Never posted: its time began with its creation.
        (None, None) => Health {
            ready: None,
            probed: created,
            renewed: None,
        },
        (Some(known), _) if heartbeat(known.ready.as_ref()) == heartbeat(current) => Health {
            ready: current.cloned(),
            ..known.clone()
        },
        (known, _) => Health {
            ready: current.cloned(),
            probed: now,
            renewed: known.and_then(|known| known.renewed),
        },
    };
    let renewed = lease
        .and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref())
        .map(|time| time.0);
    if renewed > health.renewed {
        health.renewed = renewed;
        health.probed = now;
    }
    let grace = match current {
        Some(_) => GRACE,
        None => STARTUP_GRACE,
    };
    let is_known = current.is_none_or(|ready| ready.status != "Unknown");
    let overdue = if is_known && now.duration_since(health.probed) > grace {
        unknown(node, created, now)
    } else {
        Vec::new()
    };
    Observation {
        health,
        observed: current.map_or_else(|| "Unknown".to_owned(), |ready| ready.status.clone()),
        overdue,
    }
}

/// Returns the last heartbeat of the condition; the outer Option says whether the condition exists.
fn heartbeat(ready: Option<&NodeCondition>) -> Option<Option<Timestamp>> {
    ready.map(|ready| ready.last_heartbeat_time.as_ref().map(|time| time.0))
}

/// The conditions of a silent node: their status is Unknown.
fn unknown(node: &Node, created: Timestamp, now: Timestamp) -> Vec<NodeCondition> {
    let unknown = CONDITIONS.iter().map(|type_| match condition(node, type_) {
        None => Some(NodeCondition {
            type_: (*type_).to_owned(),
            status: "Unknown".to_owned(),
            reason: Some("NodeStatusNeverUpdated".to_owned()),
            message: Some("Kubelet never posted node status.".to_owned()),
            last_heartbeat_time: Some(Time(created)),
            last_transition_time: Some(Time(now)),
        }),
        Some(known) if known.status == "Unknown" => None,
        Some(known) => Some(NodeCondition {
            status: "Unknown".to_owned(),
            reason: Some("NodeStatusUnknown".to_owned()),
            message: Some("Kubelet stopped posting node status.".to_owned()),
            last_transition_time: Some(Time(now)),
            ..known.clone()
        }),
    });
    let mut unknown: Vec<NodeCondition> = unknown.flatten().collect();
    // Keep the order of the node's conditions, and append those that it lacks.
    let known = node.status.iter().flat_map(|status| &status.conditions);
    let known: Vec<&str> = known.flatten().map(|known| known.type_.as_str()).collect();
    let place = |type_: &str| known.iter().position(|known| *known == type_);
    unknown.sort_by_key(|one| place(&one.type_).unwrap_or(known.len()));
    unknown
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn at(seconds: i64) -> Timestamp {
        CREATED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    fn node(conditions: &Value) -> Node {
        from_value(json!({
            "metadata": {"name": "a", "creationTimestamp": CREATED},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn posted(status: &str) -> Node {
        node(&json!([{"type": "Ready", "status": status, "lastHeartbeatTime": CREATED}]))
    }

    fn lease(renewed: i64) -> Lease {
        let time = at(renewed).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        from_value(json!({"spec": {"renewTime": time}})).unwrap()
    }

    fn described(observation: &Observation) -> Vec<String> {
        let described = |one: &NodeCondition| {
            let reason = one.reason.clone().unwrap_or_default();
            format!("{} {} {reason}", one.type_, one.status)
        };
        observation.overdue.iter().map(described).collect()
    }

    #[test]
    fn a_node_is_unknown_once_it_was_silent_for_longer_than_its_grace() {
        let node = posted("True");
        let first = observe(None, &node, Some(&lease(0)), at(0)).health;
        let renewed = observe(Some(&first), &node, Some(&lease(10)), at(12)).health;
        assert_eq!(renewed.probed, at(12));
        let silent = |seconds| observe(Some(&renewed), &node, Some(&lease(10)), at(seconds));
        assert_eq!(described(&silent(62)), [""; 0]);
        let overdue = silent(63);
        assert_eq!(overdue.observed, "True");
        let stopped = "Ready Unknown NodeStatusUnknown";
        let never = |type_| format!("{type_} Unknown NodeStatusNeverUpdated");
        assert_eq!(
            described(&overdue),
            [
                stopped.to_owned(),
                never("MemoryPressure"),
                never("DiskPressure"),
                never("PIDPressure")
            ]
        );
    }

    #[test]
    fn what_is_unknown_already_is_not_written_again() {
        let known = observe(None, &posted("Unknown"), None, at(0)).health;
        let later = observe(Some(&known), &posted("Unknown"), None, at(3600));
        assert_eq!(described(&later), [""; 0]);
        assert_eq!(later.observed, "Unknown");
    }

    #[test]
    fn a_node_that_never_posted_has_its_time_from_its_creation() {
        let never = node(&json!([]));
        let known = observe(None, &never, None, at(30)).health;
        assert_eq!(
            described(&observe(Some(&known), &never, None, at(60))),
            [""; 0]
        );
        let overdue = observe(Some(&known), &never, None, at(61));
        assert_eq!(overdue.overdue.len(), 4);
        assert_eq!(overdue.overdue[0].last_heartbeat_time, Some(Time(at(0))));
    }

    #[test]
    fn a_heartbeat_in_the_status_counts_as_a_lease_does() {
        let known = observe(None, &posted("True"), None, at(0)).health;
        let beat = node(&json!([{"type": "Ready", "status": "True",
            "lastHeartbeatTime": "2026-01-01T00:00:40Z"}]));
        let heard = observe(Some(&known), &beat, None, at(45)).health;
        assert_eq!(heard.probed, at(45));
    }
}
