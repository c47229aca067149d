//! The keys of the objects in stores. Equal keys share one text, because a dozen stores hold the same pods.

use std::borrow::Borrow;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use kube::Resource;
use parking_lot::Mutex;

use crate::weak_map::{SHARDS, WeakMap, shard};

static KEYS: [Mutex<Shard>; SHARDS] = [const { Mutex::new(Shard::new()) }; SHARDS];

/// The keys in use, and some that nothing uses any more.
type Shard = WeakMap<Arc<str>>;

/// The namespace and the name of an object, in this order; clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Arc<str>);

impl Key {
    /// The key of `object`.
    pub(super) fn of(object: &impl Resource) -> Self {
        let text = text_of(object);
        let hash = FixedState::default().hash_one(&text);
        Self(intern(&mut KEYS[shard(hash)].lock(), hash, &text))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
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

/// Returns the key with this text, whose hash is `hash`.
fn intern(shard: &mut Shard, hash: u64, text: &str) -> Arc<str> {
    let known = shard.get(hash).filter(|known| &***known == text);
    known.cloned().unwrap_or_else(|| {
        let key: Arc<str> = text.into();
        shard.insert(hash, Arc::clone(&key), |key| Arc::strong_count(key) > 1);
        key
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;
    use crate::weak_map::UNSWEPT;

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
        let kept = intern(&mut shard, 0, "kept");
        let gone = Arc::downgrade(&intern(&mut shard, 1, "gone"));
        for hash in 2..20 * UNSWEPT as u64 {
            intern(&mut shard, hash, &format!("gone-{hash}"));
        }
        assert_eq!(gone.strong_count(), 0);
        assert!(Arc::ptr_eq(&kept, &intern(&mut shard, 0, "kept")));
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let mut shard = Shard::new();
        let keys = ["one", "other", "one"].map(|text| intern(&mut shard, 7, text));
        assert_eq!(keys.map(|key| key.to_string()), ["one", "other", "one"]);
    }
}
