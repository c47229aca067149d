//! Taints that controllers put on nodes.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::sync_error::Error;

/// The node's condition Ready is False.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node's condition Ready is Unknown.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The node is cordoned.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Somebody vouches that nothing runs on the node any more.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Keeps pods away that do not tolerate it.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Drives pods away that do not tolerate it.
pub const NO_EXECUTE: &str = "NoExecute";

/// How often a write is tried that another one crosses.
const ATTEMPTS_MAX: usize = 5;

/// The taints of a node.
pub fn of(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

/// Whether the node has this taint, whatever its value.
pub fn has(node: &Node, key: &str, effect: &str) -> bool {
    of(node)
        .iter()
        .any(|taint| taint.key == key && taint.effect == effect)
}

/// Adds the taints `add` with one write, and takes the taints `remove` away with another; each is
/// a key with this `effect`.
pub async fn swap(
    api: &Api<Node>,
    node: &str,
    effect: &str,
    (add, remove): (&[&str], &[&str]),
    now: Timestamp,
) -> Result<(), Error> {
    change(api, node, |taints| {
        for key in add {
            let taint = Taint {
                key: (*key).to_owned(),
                effect: effect.to_owned(),
                time_added: Some(Time(now)),
                value: None,
            };
            match taints
                .iter_mut()
                .find(|known| known.key == *key && known.effect == effect)
            {
                Some(known) => *known = taint,
                None => taints.push(taint),
            }
        }
    })
    .await?;
    change(api, node, |taints| {
        taints.retain(|taint| taint.effect != effect || !remove.contains(&taint.key.as_str()));
    })
    .await
}

/// Writes the taints of the node as `edit` leaves them, unless it leaves them as they are.
async fn change(api: &Api<Node>, name: &str, edit: impl Fn(&mut Vec<Taint>)) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let node = api.get(name).await?;
        let mut taints = of(&node).to_vec();
        edit(&mut taints);
        if taints == of(&node) {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "resourceVersion": node.resource_version() },
            "spec": { "taints": Some(taints).filter(|taints| !taints.is_empty()) },
        });
        let params = PatchParams::default();
        match api.patch(name, &params, &Patch::Strategic(patch)).await {
            Ok(_) => return Ok(()),
            Err(error) => {
                let error = Error::from(error);
                if !error.is_conflict() || attempts == ATTEMPTS_MAX {
                    return Err(error);
                }
            }
        }
    }
}
