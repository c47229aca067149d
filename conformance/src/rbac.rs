//! The permissions that the requests of an audit log needed, as roles, and how given roles compare with them.
//!
//! - `permission`: permissions, and the requests that needed them
//! - `needs`: the permissions, by user
//! - `grants`: roles and bindings that were written, and the verbs `escalate` and `bind`
//! - `rules`: the fewest rules for them
//! - `given`: roles and bindings of manifests

mod given;
mod grants;
mod needs;
mod permission;
mod rules;

pub use given::{Comparison, GivenRoles};
pub use needs::{LogError, Needs, UserNeeds};
pub use permission::{Permission, Scope, Target};

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use kubeproof_machinery::json::{Value, json};

    /// An event of the service account `shop/operator`. `resource` is `GROUP RESOURCE`, `object` is `NAMESPACE/NAME`.
    pub(super) fn request(verb: &str, resource: &str, object: &str, code: u16) -> Value {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (group, resource) = resource.split_once(' ').unwrap_or_default();
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (namespace, name) = object.split_once('/').unwrap_or_default();
        json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "stage": "ResponseComplete",
            "auditID": COUNT.fetch_add(1, Ordering::Relaxed).to_string(),
            "requestURI": "/",
            "verb": verb,
            "user": {"username": "system:serviceaccount:shop:operator"},
            "objectRef": {
                "apiGroup": group, "resource": resource, "subresource": subresource,
                "namespace": namespace, "name": name,
            },
            "responseStatus": {"code": code},
        })
    }

    pub(super) fn log(events: &[Value]) -> String {
        let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }
}
