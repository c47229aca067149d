//! Two leaders at once: leases are taken from their holders, who do not learn of it for a while.

use std::time::Duration;

use super::ApiServer;
use crate::json::json;

/// The namespace of the leases of nodes, which are not for elections.
const NODES: &str = "kube-node-lease";

impl ApiServer {
    /// Releases all leases but those of nodes, so that a client that waits for one gets it. For `time`, renewals by the
    /// holders before it are answered as if they had succeeded.
    pub(super) async fn depose(&self, time: Duration) {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"});
        let Some(resource) = self.resource_of(&lease) else {
            return;
        };
        let leases = self.core.storage.table(resource.gvr()).snapshot();
        for lease in leases.range(None, None) {
            let mut lease = lease.value().as_ref().clone();
            let text = |pointer: &str| {
                let text = lease.pointer(pointer).and_then(|value| value.as_str());
                text.unwrap_or_default().to_owned()
            };
            let [namespace, name, holder] = [
                "/metadata/namespace",
                "/metadata/name",
                "/spec/holderIdentity",
            ]
            .map(text);
            if namespace == NODES || holder.is_empty() {
                continue;
            }
            let lost = lease.clone();
            self.core
                .faults
                .depose((namespace, name, holder), lost, time);
            lease["spec"]["holderIdentity"] = "".into();
            let released = self.restore_object(&resource, lease, None).await;
            released.expect("leases have one version, so nothing is converted");
        }
    }
}
