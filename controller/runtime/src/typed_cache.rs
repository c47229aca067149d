//! Objects in the form that a controller works with, made once for each version of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::ObjectKey;
use kube::core::DynamicObject;
use parking_lot::Mutex;

/// The parsed form of the last version of each object.
pub struct TypedCache<S>(Mutex<BTreeMap<ObjectKey, Read<S>>>);

struct Read<S> {
    of: Arc<DynamicObject>,
    made: Arc<S>,
}

/// The version of an object that was read before.
pub struct Previous<'a, S> {
    /// The version that was read.
    pub of: &'a DynamicObject,
    /// The form that was made of it.
    pub made: &'a S,
}

impl<S> Default for TypedCache<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> TypedCache<S> {
    /// Returns the parsed form of `object`, from the cache or from `read`, which gets the previous
    /// version and its parsed form. Objects are compared by address, so `object` must come from an
    /// informer's cache.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn get<E>(
        &self,
        key: &ObjectKey,
        object: &Arc<DynamicObject>,
        read: impl FnOnce(&DynamicObject, Option<Previous<'_, S>>) -> Result<S, E>,
    ) -> Result<Arc<S>, E> {
        let mut before = None;
        if let Some(known) = self.0.lock().get(key) {
            if Arc::ptr_eq(&known.of, object) {
                return Ok(Arc::clone(&known.made));
            }
            before = Some((Arc::clone(&known.of), Arc::clone(&known.made)));
        }
        let before = before.as_ref();
        let before = before.map(|(of, made)| Previous { of, made: &**made });
        let made = Arc::new(read(object, before)?);
        let entry = Read {
            of: Arc::clone(object),
            made: Arc::clone(&made),
        };
        self.0.lock().insert(key.clone(), entry);
        Ok(made)
    }

    /// The object is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {

    use std::convert::Infallible;

    use super::*;
    use crate::decode::from_value;

    #[test]
    fn each_version_is_read_once() {
        let parsed = TypedCache::default();
        let key = ObjectKey {
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        };
        let object = |version: &str| {
            let metadata = serde_json::json!({ "name": "a", "resourceVersion": version });
            let object = serde_json::json!({ "metadata": metadata });
            Arc::new(from_value::<DynamicObject>(object).unwrap())
        };
        let mut reads = Vec::new();
        let mut read = |object: &Arc<DynamicObject>| {
            let version = parsed.get::<Infallible>(&key, object, |object, before| {
                let version = object.metadata.resource_version.clone().unwrap();
                let before = before.map(|before| {
                    assert_eq!(
                        before.of.metadata.resource_version.as_ref(),
                        Some(before.made)
                    );
                    before.made.clone()
                });
                reads.push((before, version.clone()));
                Ok(version)
            });
            version.unwrap().as_ref().clone()
        };
        let (one, two) = (object("1"), object("2"));
        let versions = [&one, &one, &two, &two, &one].map(&mut read);
        assert_eq!(versions, ["1", "1", "2", "2", "1"]);
        parsed.forget(&key);
        assert_eq!(read(&one), "1");
        let read =
            |before: Option<&str>, version: &str| (before.map(str::to_owned), version.to_owned());
        let want = [
            read(None, "1"),
            read(Some("1"), "2"),
            read(Some("2"), "1"),
            read(None, "1"),
        ];
        assert_eq!(reads, want);
    }
}
