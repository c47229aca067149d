//! The keys of the objects in stores. Equal keys share one text, because a dozen stores hold the same pods.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use kube::Resource;
use parking_lot::Mutex;

/// Stores on many threads should not wait for each other.
const SHARDS: usize = 16;
/// The least number of keys that are added to a shard between two searches for unused ones.
const UNSWEPT: usize = 256;

static KEYS: [Mutex<Shard>; SHARDS] = [const { Mutex::new(Shard::new()) }; SHARDS];

/// The namespace and the name of an object, in this order; clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Arc<str>);

/// The keys in use, and some that nothing uses any more.
struct Shard {
    /// By their hashes. Of two keys with the same hash, the later one is known.
    keys: BTreeMap<u64, Arc<str>>,
    /// The number of keys at which those that nothing uses are looked for.
    sweep_at: usize,
}

impl Key {
    /// The key of `object`.
    pub(super) fn of(object: &impl Resource) -> Self {
        let text = text_of(object);
        let hash = FixedState::default().hash_one(&text);
        let mut shard = KEYS[(hash >> 60) as usize % SHARDS].lock();
        Self(shard.intern(hash, &text))
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The text of the key of `object`.
pub(super) fn text_of(object: &impl Resource) -> String {
    let meta = object.meta();
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    text(namespace.unwrap_or_default(), name.unwrap_or_default())
}

/// The text of a namespace and what it contains. A namespace does not contain the character between them, and no character
/// comes before it. So texts differ, and are ordered, as pairs do.
pub(super) fn text(namespace: &str, inside: &str) -> String {
    [namespace, inside].join("\0")
}

impl Shard {
    const fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            sweep_at: UNSWEPT,
        }
    }

    /// Returns the key with this text, whose hash is `hash`.
    fn intern(&mut self, hash: u64, text: &str) -> Arc<str> {
        let known = self.keys.get(&hash);
        if let Some(known) = known.filter(|known| &***known == text) {
            return Arc::clone(known);
        }
        if self.keys.len() >= self.sweep_at {
            self.keys.retain(|_, key| Arc::strong_count(key) > 1);
            let used = self.keys.len();
            self.sweep_at = used + UNSWEPT.max(used / 4);
        }
        let key: Arc<str> = text.into();
        self.keys.insert(hash, Arc::clone(&key));
        key
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    fn key(namespace: Option<&str>, name: &str) -> Key {
        Key::of(&ConfigMap {
            metadata: ObjectMeta {
                namespace: namespace.map(str::to_owned),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        })
    }

    #[test]
    fn equal_keys_share_their_text() {
        let (one, same) = (key(Some("shared"), "a"), key(Some("shared"), "a"));
        assert!(Arc::ptr_eq(&one.0, &same.0));
        assert_ne!(one, key(Some("shared"), "b"));
        assert_ne!(one, key(None, "a"));
    }

    #[test]
    fn keys_are_ordered_by_namespace_then_name() {
        let pairs = [
            (None, "z"),
            (Some("a"), "b"),
            (Some("a"), "b-c"),
            (Some("a"), "c"),
            (Some("a-a"), "a"),
            (Some("b"), "a"),
        ];
        let keys = pairs.map(|(namespace, name)| key(namespace, name));
        assert!(keys.is_sorted());
    }

    #[test]
    fn keys_that_nothing_uses_are_forgotten() {
        let mut shard = Shard::new();
        let kept = shard.intern(0, "kept");
        for hash in 1..20 * UNSWEPT as u64 {
            shard.intern(hash, &format!("gone-{hash}"));
        }
        assert!(shard.keys.len() <= 2 * UNSWEPT);
        assert!(Arc::ptr_eq(&kept, &shard.intern(0, "kept")));
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let mut shard = Shard::new();
        let keys = ["one", "other", "one"].map(|text| shard.intern(7, text));
        assert_eq!(keys.map(|key| key.to_string()), ["one", "other", "one"]);
    }
}
