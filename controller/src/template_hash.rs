//! The hash by which a pod template is known.

use serde_json::Value;

use crate::history::{go_json, safe_encode};

/// The hash of `template` after `collision_count` name collisions.
///
/// The digest is upstream's, its input is not: that is a dump of Go's memory, which changes with
/// each release. Nobody relies on the value, as sets are found by their template.
#[must_use]
pub(crate) fn hash(template: &Value, collision_count: Option<i32>) -> String {
    let mut input = go_json(template).into_bytes();
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_digest_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_collision_changes_the_hash() {
        let template = json!({"spec": {"containers": []}});
        let hashes = [None, Some(1), Some(2)].map(|count| hash(&template, count));
        assert_ne!(hashes[0], hashes[1]);
        assert_ne!(hashes[1], hashes[2]);
        assert!(
            hashes
                .iter()
                .flat_map(|one| one.chars())
                .all(|c| c.is_ascii_alphanumeric())
        );
    }
}
