//! Matches the tolerations of a pod with taints of nodes.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether any of `tolerations` tolerates the taint.
pub fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations
        .iter()
        .any(|toleration| tolerates(toleration, taint))
}

/// Whether `toleration` tolerates `taint`.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = |value: &Option<String>| value.clone().unwrap_or_default();
    let matched = match toleration.operator.as_deref() {
        // Without a key, Exists tolerates everything.
        Some("Exists") => key.is_empty() || key == taint.key,
        _ => key == taint.key && value(&toleration.value) == value(&taint.value),
    };
    matched && (effect.is_empty() || effect == taint.effect)
}
