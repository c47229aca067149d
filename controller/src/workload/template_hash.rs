//! A pod template as Go prints it: the hash by which it is known, and its JSON in events.

mod dump;
pub(crate) mod go_json;
mod quantity;

use serde_json::Value;

use crate::workload::history::safe_encode;

/// The hash of `template` after `collision_count` name collisions: that of upstream's controllers
/// v1.36, so that a Deployment or DaemonSet that changes hands keeps its sets and revisions.
///
/// It changes with each release of Kubernetes that adds a field below the template.
/// Source: `pkg/controller/controller_utils.go`, ComputeHash.
#[must_use]
pub(crate) fn hash(template: &Value, collision_count: Option<i32>) -> String {
    let mut input = dump::dump(template).into_bytes();
    if let Some(count) = collision_count {
        input.extend(i64::from(count).to_le_bytes());
    }
    safe_encode(&fnv1a(&input).to_string())
}

/// 32-bit FNV-1a, which xors before it multiplies.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests;
