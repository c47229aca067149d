//! The part of an object's state that a lane shows.

use kubeproof_machinery::json::Value;
use serde::{Deserialize, Serialize};

use crate::timeline::RevisionNames;

/// The part of a lane that looks alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The look of the state.
    #[serde(rename = "p")]
    pub phase: Phase,
    /// Whether it is marked for deletion.
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_deleting: bool,
    /// A few letters in it: a pod's revision, how many replicas are ready.
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    pub label: String,
}

/// The looks of a part of a lane: each has a color and a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A pod that is not running yet; an unfinished object of another kind.
    Pending,
    /// A pod that runs and is not ready; a workload that has fewer replicas ready than it should.
    Unready,
    /// A pod that is ready; an object of another kind in its desired state.
    Ready,
    /// A pod that is done.
    Succeeded,
    /// A pod that has failed.
    Failed,
    /// An object without phases.
    There,
}

/// Returns the state of `object` that a lane shows.
pub(super) fn shown(resource: &str, object: &Value, revisions: &RevisionNames) -> Shown {
    let metadata = &object["metadata"];
    let (phase, label) = match resource {
        "pods" => pod(object, revisions),
        "statefulsets" | "clonesets" | "deployments" | "replicasets" => workload(object),
        "persistentvolumeclaims" => match object["status"]["phase"].as_str() {
            Some("Bound") => (Phase::Ready, "bound".to_owned()),
            Some("Lost") => (Phase::Failed, "lost".to_owned()),
            _ => (Phase::Pending, String::new()),
        },
        "controllerrevisions" => {
            let name = metadata["name"].as_str().unwrap_or_default();
            (Phase::There, revisions.short(name))
        }
        "nodes" => match condition(object, "Ready") {
            Some("True") => (Phase::Ready, String::new()),
            _ => (Phase::Failed, "not ready".to_owned()),
        },
        _ => (Phase::There, String::new()),
    };
    Shown {
        phase,
        is_deleting: !metadata["deletionTimestamp"].is_null(),
        label,
    }
}

fn pod(pod: &Value, revisions: &RevisionNames) -> (Phase, String) {
    let phase = match pod["status"]["phase"].as_str() {
        Some("Running") if condition(pod, "Ready") == Some("True") => Phase::Ready,
        Some("Running") => Phase::Unready,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => Phase::Pending,
    };
    let revision = pod["metadata"]["labels"]["controller-revision-hash"].as_str();
    let label = revision.map(|revision| revisions.short(revision));
    (phase, label.unwrap_or_default())
}

/// `2/3`: how many are ready of how many there are to be.
fn workload(workload: &Value) -> (Phase, String) {
    let wanted = workload["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = workload["status"]["readyReplicas"].as_i64().unwrap_or(0);
    let phase = match ready >= wanted {
        true => Phase::Ready,
        false => Phase::Unready,
    };
    (phase, format!("{ready}/{wanted}"))
}

fn condition<'a>(object: &'a Value, wanted: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == wanted)?;
    found["status"].as_str()
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn a_pods_phase_is_shown_with_its_readiness_and_its_end() {
        let revisions = RevisionNames::default();
        let pod = |phase: &str, ready: &str| {
            json!({
                "metadata": {"name": "web-0", "labels": {"controller-revision-hash": "web-x"}},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let phase = |pod: &Value| shown("pods", pod, &revisions).phase;
        assert_eq!(phase(&pod("Pending", "False")), Phase::Pending);
        assert_eq!(phase(&pod("Running", "False")), Phase::Unready);
        assert_eq!(phase(&pod("Running", "True")), Phase::Ready);
        assert_eq!(phase(&pod("Failed", "True")), Phase::Failed);
        let mut deleting = pod("Running", "True");
        deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let shown = shown("pods", &deleting, &revisions);
        assert!(shown.is_deleting);
        assert_eq!(shown.label, "web-x");
    }
}
