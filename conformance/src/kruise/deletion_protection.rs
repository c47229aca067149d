//! Whether a workload may be deleted, by a label of its own.
//!
//! Source: openkruise/kruise pkg/webhook/util/deletionprotection.

use super::{Refusal, Request};

const LABEL: &str = "policy.kruise.io/delete-protection";

/// Checks a deletion; `protects` is the gate `ResourcesDeletionProtection`.
pub(super) fn check(request: &Request<'_>, protects: bool) -> Result<(), Refusal> {
    let old = request.old;
    if !protects || !old["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let protection = old["metadata"]["labels"][LABEL].as_str();
    let replicas = old["spec"]["replicas"].as_i64().unwrap_or(0);
    let why = match protection {
        Some("Always") => String::new(),
        Some("Cascading") if replicas > 0 => format!(" and replicas {replicas}>0"),
        _ => return Ok(()),
    };
    let protection = protection.unwrap_or_default();
    Err(Refusal {
        code: 403,
        message: format!("forbidden by ResourcesProtectionDeletion for {LABEL}={protection}{why}"),
    })
}
