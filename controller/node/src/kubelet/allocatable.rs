//! The extended resources of nodes: a kubelet makes allocatable what a client adds to the capacity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kubeproof_machinery::json::{Map, Value, json};
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::answered;

use super::Kubelet;
use crate::fit::is_extended;

impl Kubelet {
    /// Reports the extended resources of a simulated node that is up, if its allocatable differs from its capacity.
    ///
    /// A failed write is repeated after the node's next change: its kubelet posts conditions every few minutes.
    pub(super) async fn report_allocatable(&self, key: &ObjectKey) {
        let index = self.nodes.get(&key.name);
        let Some(node) = index.and_then(|_| self.hosts.get(key)) else {
            return;
        };
        let changes = changes(node);
        if changes.is_empty() || index.is_none_or(|index| !self.outages.is_up(*index)) {
            return;
        }
        let nodes: Api<Node> = Api::all(self.ctx.client.clone());
        let patch = Patch::Strategic(json!({ "status": { "allocatable": changes } }));
        let written = nodes
            .patch_status(&key.name, &PatchParams::default(), &patch)
            .await;
        match written {
            Err(error) if !answered(&error, 404) => {
                tracing::warn!(node = key.name, %error, "allocatable resources not reported");
            }
            _ => {}
        }
    }
}

/// Returns what has to change in `status.allocatable`, as a merge patch: extended resources are as in the capacity, and
/// those that the capacity lacks are removed. A simulated machine has no more to say about the other resources.
///
/// Source: `pkg/kubelet/nodestatus/setters.go`, `MachineInfo`.
fn changes(node: &Node) -> Map {
    let status = node.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref());
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let (capacity, allocatable) = (extended(capacity), extended(allocatable));
    let gone = allocatable
        .keys()
        .filter(|name| !capacity.contains_key(*name));
    let mut changes: Map = gone.map(|name| ((*name).to_owned(), Value::Null)).collect();
    let other = capacity
        .iter()
        .filter(|(name, amount)| allocatable.get(*name) != Some(*amount));
    changes.extend(other.map(|(name, amount)| ((*name).to_owned(), json!(amount))));
    changes
}

fn extended(resources: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<&str, &Quantity> {
    let resources = resources.into_iter().flatten();
    let extended = resources.filter(|(name, _)| is_extended(name));
    extended
        .map(|(name, amount)| (name.as_str(), amount))
        .collect()
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn extended_resources_are_as_the_capacity_and_others_stay() {
        for (capacity, allocatable, expected) in [
            (json!({}), json!({}), json!({})),
            (
                json!({"cpu": "8", "example.com/a": "2"}),
                json!({"cpu": "7"}),
                json!({"example.com/a": "2"}),
            ),
            (
                json!({"example.com/a": "2", "example.com/b": "1", "hugepages-2Mi": "0"}),
                json!({"example.com/a": "3", "example.com/b": "1", "example.com/c": "1"}),
                json!({"example.com/a": "2", "example.com/c": null}),
            ),
            (
                json!({}),
                json!({"attachable-volumes-x": "1", "x.kubernetes.io/y": "1"}),
                json!({}),
            ),
        ] {
            let status = json!({"capacity": capacity, "allocatable": allocatable});
            let node = json!({"metadata": {"name": "n"}, "status": status});
            let node = from_value(node).unwrap();
            assert_eq!(Value::Object(changes(&node)), expected, "{status}");
        }
    }
}
