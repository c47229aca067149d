//! The functions that KWOK provides to the templates of stages.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubeproof_machinery::json::{Value, json};

use super::template::Functions;
use crate::registration::{KUBELET_VERSION, conditions};

/// The port of every kubelet.
const NODE_PORT: u16 = 10250;

/// The values that templates can use in addition to the object.
pub(super) struct Environment {
    pub(super) now: Timestamp,
    /// The object's node, or the object itself if it is a node.
    pub(super) node_name: String,
    /// Node addresses by name.
    pub(super) node_ips: BTreeMap<String, String>,
    /// The address of the object if it is a pod.
    pub(super) pod_ip: String,
}

impl Environment {
    fn node_ip(&self, name: &str) -> Value {
        self.node_ips
            .get(name)
            .map_or(Value::Null, |address| json!(address))
    }
}

impl Functions for Environment {
    fn call(&self, name: &str, arguments: &[Value]) -> Option<Value> {
        let text = |at: usize| arguments.get(at).and_then(Value::as_str);
        // A pod on the host's network has the host's address.
        let pod_ip = || match arguments.get(1) {
            Some(Value::Bool(true)) => self.node_ip(text(0).unwrap_or_default()),
            _ => json!(self.pod_ip),
        };
        let value = match name {
            "Now" | "StartTime" => json!(self.now.to_string()),
            "Version" => json!(KUBELET_VERSION),
            "NodeName" => json!(self.node_name),
            "NodeIP" => self.node_ip(&self.node_name),
            "NodePort" => json!(NODE_PORT),
            "NodeConditions" => conditions(self.now),
            "NodeIPWith" => self.node_ip(text(0).unwrap_or_default()),
            "NodeIPsWith" => json!([self.node_ip(text(0).unwrap_or_default())]),
            "PodIP" => json!(self.pod_ip),
            "PodIPWith" => pod_ip(),
            "PodIPsWith" => json!([pod_ip()]),
            _ => return None,
        };
        Some(value)
    }
}
