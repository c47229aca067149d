//! ComponentStatus: the health of the control plane's components. Never written, and on a cluster
//! not in storage.

use std::collections::BTreeSet;

use crate::Strategy;
use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::GroupResource;

/// The strategy of `componentstatuses`.
#[derive(Debug)]
pub(crate) struct ComponentStatus;

impl Strategy for ComponentStatus {
    /// Upstream uses the singular.
    fn qualified_resource(&self, resource: GroupResource) -> GroupResource {
        GroupResource {
            resource: "componentstatus".to_owned(),
            ..resource
        }
    }

    fn is_stored(&self) -> bool {
        false
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut conditions = view.items("/conditions");
        let healthy = conditions.find(|condition| condition.str("/type") == "Healthy");
        let status = match healthy.map(|condition| condition.str("/status")) {
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
            None => "Unknown",
        };
        let text = |field: &str| json!(healthy.map_or("", |condition| condition.str(field)));
        Some(vec![
            view.name(),
            json!(status),
            text("/message"),
            text("/error"),
        ])
    }
}

/// The components that a cluster's server probes, with the ports it probes them at.
const PROBED: [(&str, u16); 2] = [("controller-manager", 10257), ("scheduler", 10259)];
/// The storage, which is up whenever the server is.
const STORAGE: &str = "etcd-0";

/// The statuses of all components, by name; the components in `running` are healthy.
pub fn objects(running: &BTreeSet<&'static str>) -> Vec<(&'static str, Value)> {
    let probed = PROBED.into_iter().map(|(name, port)| {
        if running.contains(name) {
            return healthy(name);
        }
        let refusal = format!(
            "Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused"
        );
        status(name, "False", &refusal)
    });
    probed.chain([healthy(STORAGE)]).collect()
}

fn healthy(name: &'static str) -> (&'static str, Value) {
    status(name, "True", "ok")
}

fn status(name: &'static str, healthy: &str, message: &str) -> (&'static str, Value) {
    let value = json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": { "name": name },
        "conditions": [{ "type": "Healthy", "status": healthy, "message": message }],
    });
    (name, value)
}
