//! The topology labels of a node, copied to its pods.

use crate::admission::State;
use crate::json::{Map, Value};
use crate::meta::GroupVersionResource;
use crate::meta::object::child_mut;
use crate::storage::ObjectKey;

const LABELS: [&str; 2] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Copies the topology labels of the node called `node` to a pod or binding, if the node exists.
pub(crate) fn label(state: &State, node: &str, object: &mut Value) {
    let nodes = GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "nodes".to_owned(),
    };
    if node.is_empty() {
        return;
    }
    let table = state.storage.table(&nodes);
    let Some(node) = table.get(&ObjectKey::new(None, node)) else {
        return;
    };
    let labels = &node.value()["metadata"]["labels"];
    let copied: Map = LABELS
        .into_iter()
        .filter_map(|label| Some((label.to_owned(), labels.get(label)?.clone())))
        .collect();
    if !copied.is_empty() {
        child_mut(&mut object["metadata"], "labels").extend(copied);
    }
}
