//! The condition by which a pod reports why the control plane deletes it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::sync_error::Error;
use serde_json::{Map, Value, json};

/// Reason and message of the condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disruption {
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

/// Writes the condition and the phase into the pod's status, as far as they are given and news.
pub(crate) async fn write(
    api: &Api<Pod>,
    pod: &Pod,
    disruption: Option<Disruption>,
    phase: Option<&str>,
    now: Timestamp,
) -> Result<(), Error> {
    let status = changes(pod, disruption, phase, now);
    if status.is_empty() {
        return Ok(());
    }
    let patch = json!({ "metadata": { "uid": pod.uid() }, "status": status });
    let params = PatchParams::default();
    api.patch_status(&pod.name_any(), &params, &Patch::Strategic(patch))
        .await?;
    Ok(())
}

fn changes(
    pod: &Pod,
    disruption: Option<Disruption>,
    phase: Option<&str>,
    now: Timestamp,
) -> Map<String, Value> {
    let mut status = Map::new();
    if let Some(phase) = phase {
        status.insert("phase".to_owned(), json!(phase));
    }
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let holds = conditions
        .flatten()
        .find(|known| known.type_ == "DisruptionTarget" && known.status == "True");
    let Some(disruption) = disruption else {
        return status;
    };
    let is_current = holds.is_some_and(|known| {
        known.reason.as_deref() == Some(disruption.reason)
            && known.message.as_deref() == Some(disruption.message)
    });
    if !is_current {
        let since = holds.and_then(|known| known.last_transition_time.clone());
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": disruption.reason,
            "message": disruption.message,
            "lastTransitionTime": since.unwrap_or(Time(now)),
            "observedGeneration": pod.metadata.generation,
        });
        status.insert("conditions".to_owned(), json!([condition]));
    }
    status
}
