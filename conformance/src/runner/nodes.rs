//! Steps that act on nodes.

use std::time::Duration;

use kubeproof_machinery::json::{Value, json};

use super::cluster::Cluster;
use super::step_error::StepError;
use crate::api::{Api, ApiError};
use crate::scenario::NodeStep;

/// Containers of a node that was switched off stop within this time.
const NOTICE: Duration = Duration::from_secs(1);
/// The time that `kubectl drain` waits before it retries an eviction that a budget refused.
const EVICTION_PAUSE: Duration = Duration::from_secs(5);
/// The number of tries of a drain to evict one pod.
const EVICTIONS_MAX: usize = 60;

/// Carries out `step`; returns what there is to say about it.
pub(super) async fn perform(
    cluster: Cluster<'_>,
    step: &NodeStep,
) -> Result<Vec<String>, StepError> {
    let api = cluster.api();
    match step {
        NodeStep::Down(name) => {
            cluster.node_faults()?.power_off(name)?;
            tokio::time::sleep(NOTICE).await;
        }
        NodeStep::Disconnect(name) => cluster.node_faults()?.disconnect(name)?,
        NodeStep::Back(name) => cluster.node_faults()?.restore(name)?,
        NodeStep::Cordon(name) => cordon(api, name, json!(true)).await?,
        NodeStep::Uncordon(name) => cordon(api, name, Value::Null).await?,
        NodeStep::Drain(name) => {
            cordon(api, name, json!(true)).await?;
            return Ok(drain(api, name).await?);
        }
    }
    Ok(Vec::new())
}

async fn cordon(api: &Api, node: &str, unschedulable: Value) -> Result<(), ApiError> {
    let patch = json!({ "spec": { "unschedulable": unschedulable } });
    let merge = "application/merge-patch+json";
    api.patch(("nodes", node), None, merge, &patch).await?;
    Ok(())
}

/// Evicts the pods of the node but those of DaemonSets, which would come back at once.
async fn drain(api: &Api, node: &str) -> Result<Vec<String>, ApiError> {
    let mut said = Vec::new();
    let pods = api.list_of_all("pods").await?;
    for pod in pods["items"].as_array().into_iter().flatten() {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        if text("/spec/nodeName") != Some(node) {
            continue;
        }
        let namespace = text("/metadata/namespace").unwrap_or_default();
        let name = text("/metadata/name").unwrap_or_default();
        let owners = pod["metadata"]["ownerReferences"].as_array();
        let is_of_daemon_set = owners
            .into_iter()
            .flatten()
            .any(|owner| owner["controller"] == json!(true) && owner["kind"] == json!("DaemonSet"));
        if is_of_daemon_set {
            said.push(format!("ignoring DaemonSet-managed pod {namespace}/{name}"));
            continue;
        }
        said.push(format!("evicting pod {namespace}/{name}"));
        said.extend(evict(api, namespace, name).await?);
    }
    Ok(said)
}

/// Evicts one pod, retrying while its budget does not allow it; returns the first refusal.
async fn evict(api: &Api, namespace: &str, name: &str) -> Result<Option<String>, ApiError> {
    let mut said = None;
    for attempt in 1..=EVICTIONS_MAX {
        match api.evict(namespace, name).await {
            Err(ApiError::Refused(status)) if status.code == 429 && attempt < EVICTIONS_MAX => {
                let words = format!(
                    "error when evicting pods/{name:?} -n {namespace:?} (will retry after 5s): {}",
                    status.message
                );
                said.get_or_insert(words);
                tokio::time::sleep(EVICTION_PAUSE).await;
            }
            Err(error) if error.is_not_found() => return Ok(said),
            answer => return answer.map(|_| said),
        }
    }
    Ok(said)
}

/// The containers that run as part of a pod called `name`, each with its node and its claims.
pub(super) fn containers(cluster: Cluster<'_>, name: &str) -> Result<Vec<String>, StepError> {
    let running = cluster.containers()?.running();
    let of_pod = running.into_iter().filter(|one| one.pod == name);
    let lines = of_pod.map(|one| {
        let claims = match one.claims.as_slice() {
            [] => String::new(),
            claims => format!(", writes to {}", claims.join(", ")),
        };
        format!(
            "{}: {} of pod {} {}{claims}",
            one.node, one.container, one.pod, one.uid
        )
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return Ok(vec!["none".to_owned()]);
    }
    Ok(lines)
}
