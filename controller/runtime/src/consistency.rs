//! A controller that reads what it wrote: a sync waits until the caches have the writes of the syncs before it.
//!
//! Source: `pkg/controller/util/consistency/consistency.go` of Kubernetes. The gates of v1.36 for it begin with
//! `StaleControllerConsistency`.

use std::collections::BTreeMap;

use kube::Resource;
use kubeproof_machinery::meta::ResourceVersion;
use parking_lot::Mutex;

use super::informer::{Informer, WAIT_TURNS_MAX};
use super::store::{ObjectKey, WrittenVersion};
use super::sync_error::Error;

/// A cache whose version is known.
pub trait ReadVersion: Send + Sync {
    /// Whether the cache holds `written` or something newer.
    ///
    /// # Errors
    /// The version of the cache, if it is older.
    fn ensure_ready(&self, written: WrittenVersion) -> Result<(), ResourceVersion>;
}

impl<K: Resource + Send + Sync> ReadVersion for Informer<K> {
    fn ensure_ready(&self, written: WrittenVersion) -> Result<(), ResourceVersion> {
        Informer::ensure_ready(self, written)
    }
}

/// The newest write of each resource for each workload.
#[derive(Default)]
pub struct ConsistencyStore {
    owners: Mutex<BTreeMap<ObjectKey, OwnerRecord>>,
}

#[derive(Default)]
struct OwnerRecord {
    uid: String,
    /// By group resource, such as `replicasets.apps`.
    versions: BTreeMap<&'static str, WrittenVersion>,
}

impl ConsistencyStore {
    /// Notes a write of `resource` for the workload `owner` of that uid.
    pub fn wrote_at(
        &self,
        owner: &ObjectKey,
        uid: &str,
        resource: &'static str,
        written: WrittenVersion,
    ) {
        let mut owners = self.owners.lock();
        let record = owners.entry(owner.clone()).or_default();
        if record.uid != uid {
            *record = OwnerRecord {
                uid: uid.to_owned(),
                versions: BTreeMap::new(),
            };
        }
        let newest = record.versions.entry(resource).or_insert(written);
        *newest = written.max(*newest);
    }

    /// Forgets the writes for the workload, if it has this uid.
    pub fn clear(&self, owner: &ObjectKey, uid: &str) {
        let mut owners = self.owners.lock();
        if owners.get(owner).is_some_and(|record| record.uid == uid) {
            owners.remove(owner);
        }
    }

    /// Forgets the writes for the workload.
    pub fn forget(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
    }

    /// Returns when `caches`, by group resource, have all that was written for the workload. Near the server an answer comes
    /// sooner than the event, which elsewhere comes while the answer is under way: it is waited for, if it is about to come.
    ///
    /// # Errors
    /// [`Error::StaleCache`] for the first cache that lacks something.
    pub async fn ready(
        &self,
        owner: &ObjectKey,
        caches: &[(&'static str, &dyn ReadVersion)],
    ) -> Result<(), Error> {
        for _ in 0..WAIT_TURNS_MAX {
            if self.ensure_ready(owner, caches).is_ok() {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
        self.ensure_ready(owner, caches)
    }

    /// Whether `caches`, by group resource, have all that was written for the workload.
    ///
    /// # Errors
    /// [`Error::StaleCache`] for the first cache that has not.
    pub fn ensure_ready(
        &self,
        owner: &ObjectKey,
        caches: &[(&'static str, &dyn ReadVersion)],
    ) -> Result<(), Error> {
        let mut owners = self.owners.lock();
        let Some(record) = owners.get(owner) else {
            return Ok(());
        };
        for (resource, cache) in caches {
            let Some(written) = record.versions.get(resource) else {
                continue;
            };
            cache
                .ensure_ready(*written)
                .map_err(|read| Error::StaleCache {
                    read,
                    written: written.rv,
                    resource,
                })?;
        }
        owners.remove(owner);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::Store;
    use super::*;
    use crate::pod::Pod;

    /// A cache of that version.
    struct At(u64);

    impl ReadVersion for At {
        fn ensure_ready(&self, written: WrittenVersion) -> Result<(), ResourceVersion> {
            let own = ResourceVersion::new(self.0);
            match own >= written.rv {
                true => Ok(()),
                false => Err(own),
            }
        }
    }

    fn written(rv: u64) -> WrittenVersion {
        Store::<Pod>::default().wrote_at(ResourceVersion::new(rv))
    }

    fn key() -> ObjectKey {
        ObjectKey {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
        }
    }

    #[test]
    fn a_workload_is_ready_when_every_cache_has_its_newest_write() {
        let store = ConsistencyStore::default();
        let ready = |pods: u64, sets: u64| {
            let caches: [(&'static str, &dyn ReadVersion); 2] =
                [("pods", &At(pods)), ("replicasets.apps", &At(sets))];
            store
                .ensure_ready(&key(), &caches)
                .map_err(|error| error.to_string())
        };
        assert_eq!(ready(0, 0), Ok(()));
        store.wrote_at(&key(), "u", "pods", written(7));
        store.wrote_at(&key(), "u", "pods", written(5));
        store.wrote_at(&key(), "u", "replicasets.apps", written(8));
        let stale = |read: u64, written: u64, resource: &str| {
            Err(format!(
                "read version: {read} is not as new as written version: {written} for group resource {resource}"
            ))
        };
        assert_eq!(ready(6, 9), stale(6, 7, "pods"));
        assert_eq!(ready(7, 7), stale(7, 8, "replicasets.apps"));
        assert_eq!(ready(7, 8), Ok(()));
        // A write that a cache had once is forgotten.
        assert_eq!(ready(0, 0), Ok(()));
    }

    #[test]
    fn writes_for_another_workload_of_the_same_name_do_not_count() {
        let store = ConsistencyStore::default();
        let caches: [(&'static str, &dyn ReadVersion); 1] = [("pods", &At(1))];
        store.wrote_at(&key(), "old", "pods", written(9));
        store.clear(&key(), "other");
        assert!(store.ensure_ready(&key(), &caches).is_err());
        store.wrote_at(&key(), "new", "pods", written(1));
        assert!(store.ensure_ready(&key(), &caches).is_ok());
        store.wrote_at(&key(), "new", "pods", written(9));
        store.clear(&key(), "new");
        assert!(store.ensure_ready(&key(), &caches).is_ok());
    }
}
