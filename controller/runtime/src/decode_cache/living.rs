//! The decoded objects that something still holds, such as a store, by uid: the newest version of each.
//!
//! A watch that lags finds here what the others have decoded, however long ago that was.

use std::any::{Any, TypeId};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kubeproof_machinery::meta::ResourceVersion;
use parking_lot::{Mutex, MutexGuard};

use crate::weak_map::{self, SHARDS, WeakMap};

static OBJECTS: [Mutex<WeakMap<Living>>; SHARDS] = [const { Mutex::new(WeakMap::new()) }; SHARDS];

/// Held while an object of a shard is decoded. Otherwise two threads that hear of one write would both decode its object,
/// and keep two.
static DECODING: [Mutex<()>; SHARDS] = [const { Mutex::new(()) }; SHARDS];

/// An object in one type, at one version of its text.
pub(super) struct Identity {
    /// The hash of type and uid.
    key: u64,
    rv: ResourceVersion,
    /// The hash of the text without its type: other servers of the process may have other objects with this uid.
    text: u64,
}

struct Living {
    rv: ResourceVersion,
    text: u64,
    object: Weak<dyn Any + Send + Sync>,
}

impl Identity {
    /// The identity of the object with this text in the type `K`; `None` without a uid.
    pub(super) fn of<K: 'static>(meta: &ObjectMeta, text: &str) -> Option<Self> {
        let hasher = FixedState::default();
        let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty())?;
        let rv = meta.resource_version.as_deref()?.parse().ok()?;
        Some(Self {
            key: hasher.hash_one((TypeId::of::<K>(), uid)),
            rv,
            text: hasher.hash_one(without_type(text)),
        })
    }

    /// Waits until no other thread decodes an object of this shard, and keeps others from it.
    pub(super) fn lock(&self) -> MutexGuard<'static, ()> {
        DECODING[self.shard()].lock()
    }

    fn shard(&self) -> usize {
        weak_map::shard(self.key)
    }
}

/// The text of an object after its `kind` and `apiVersion`, which watches write first, and most lists leave out. The types
/// of k8s-openapi do not keep them. kube's dynamic types may have them or not, so no controller reads them there.
fn without_type(text: &str) -> &str {
    fn after<'t>(fields: &'t str, name: &str) -> Option<&'t str> {
        let (_, rest) = fields.strip_prefix(name)?.split_once('"')?;
        rest.strip_prefix(',')
    }
    let fields = text.strip_prefix('{').unwrap_or(text);
    let version = after(fields, r#""kind":""#).and_then(|rest| after(rest, r#""apiVersion":""#));
    version.unwrap_or(fields)
}

impl Living {
    fn is_held(&self) -> bool {
        self.object.strong_count() > 0
    }
}

/// The object of this identity, if something holds it.
pub(super) fn get<K: Send + Sync + 'static>(identity: &Identity) -> Option<Arc<K>> {
    let shard = OBJECTS[identity.shard()].lock();
    let living = shard.get(identity.key)?;
    let is_same = living.rv == identity.rv && living.text == identity.text;
    let object = is_same.then(|| living.object.upgrade())??;
    object.downcast().ok()
}

/// Notes the object of this identity, unless a newer version is known.
pub(super) fn put<K: Send + Sync + 'static>(identity: Identity, object: &Arc<K>) {
    let mut shard = OBJECTS[identity.shard()].lock();
    let known = shard.get(identity.key);
    if known.is_some_and(|known| known.rv > identity.rv && known.is_held()) {
        return;
    }
    let object = Arc::downgrade(object);
    let living = Living {
        rv: identity.rv,
        text: identity.text,
        object,
    };
    shard.insert(identity.key, living, Living::is_held);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weak_map::UNSWEPT;

    fn identity(uid: &str, rv: &str, text: &str) -> Identity {
        let meta = ObjectMeta {
            uid: Some(uid.to_owned()),
            resource_version: Some(rv.to_owned()),
            ..ObjectMeta::default()
        };
        Identity::of::<String>(&meta, text).unwrap()
    }

    fn get(uid: &str, rv: &str, text: &str) -> Option<Arc<String>> {
        super::get(&identity(uid, rv, text))
    }

    #[test]
    fn an_object_is_found_while_something_holds_it() {
        let object = Arc::new("first".to_owned());
        put(identity("held", "1", "text"), &object);
        assert!(Arc::ptr_eq(&get("held", "1", "text").unwrap(), &object));
        assert_eq!(get("held", "1", "other text"), None);
        assert_eq!(get("held", "2", "text"), None);
        assert_eq!(get("other", "1", "text"), None);
        drop(object);
        assert_eq!(get("held", "1", "text"), None);
    }

    #[test]
    fn the_newest_version_is_kept() {
        let [older, newer] = ["1", "2"].map(|rv| Arc::new(rv.to_owned()));
        put(identity("kept", "9", "a"), &older);
        put(identity("kept", "10", "b"), &newer);
        put(identity("kept", "9", "a"), &older);
        assert_eq!(get("kept", "9", "a"), None);
        assert_eq!(get("kept", "10", "b"), Some(Arc::clone(&newer)));
        drop(newer);
        put(identity("kept", "9", "a"), &older);
        assert_eq!(get("kept", "9", "a"), Some(older));
    }

    #[test]
    fn objects_that_are_gone_are_forgotten() {
        let kept = Arc::new("kept".to_owned());
        put(identity("stays", "1", ""), &kept);
        for index in 0..20 * SHARDS * UNSWEPT {
            put(
                identity(&format!("gone-{index}"), "1", ""),
                &Arc::new(String::new()),
            );
        }
        let key = |index| identity(&format!("gone-{index}"), "1", "").key;
        let known = (0..20 * SHARDS * UNSWEPT).map(key).filter(|key| {
            let shard = OBJECTS[weak_map::shard(*key)].lock();
            shard.get(*key).is_some()
        });
        assert!(known.count() <= 2 * SHARDS * UNSWEPT);
        assert_eq!(get("stays", "1", ""), Some(kept));
    }

    #[test]
    fn an_object_without_uid_has_no_identity() {
        let meta = ObjectMeta {
            resource_version: Some("1".to_owned()),
            ..ObjectMeta::default()
        };
        assert!(Identity::of::<String>(&meta, "").is_none());
    }

    #[test]
    fn a_type_is_left_out_where_watches_write_it() {
        for (text, rest) in [
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
                r#""metadata":{}}"#,
            ),
            (r#"{"metadata":{}}"#, r#""metadata":{}}"#),
            (
                r#"{"kind":"Pod","apiVersion":"v1" ,"a":1}"#,
                r#""kind":"Pod","apiVersion":"v1" ,"a":1}"#,
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","a":1}"#,
                r#""apiVersion":"v1","kind":"Pod","a":1}"#,
            ),
            (r#"{"kind":"Pod","a":1}"#, r#""kind":"Pod","a":1}"#),
            (
                r#"{"kind":"Pod","apiVersion":"v1"}"#,
                r#""kind":"Pod","apiVersion":"v1"}"#,
            ),
        ] {
            assert_eq!(without_type(text), rest);
        }
    }
}
