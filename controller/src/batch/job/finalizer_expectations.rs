//! Pods whose finalizers were removed: until the cache shows it, they must not be counted again.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_runtime::store::ObjectKey;
use parking_lot::Mutex;

/// The uids of the pods of each job whose finalizer was asked to be removed.
#[derive(Default)]
pub(super) struct FinalizerExpectations(Mutex<BTreeMap<ObjectKey, BTreeSet<String>>>);

impl FinalizerExpectations {
    pub(super) fn of(&self, key: &ObjectKey) -> BTreeSet<String> {
        self.0.lock().get(key).cloned().unwrap_or_default()
    }

    pub(super) fn expect(&self, key: &ObjectKey, uids: impl IntoIterator<Item = String>) {
        self.0.lock().entry(key.clone()).or_default().extend(uids);
    }

    /// The pod was seen without its finalizer, or will never be.
    pub(super) fn seen(&self, key: &ObjectKey, uid: &str) {
        let mut all = self.0.lock();
        if let Some(uids) = all.get_mut(key) {
            uids.remove(uid);
            if uids.is_empty() {
                all.remove(key);
            }
        }
    }

    /// The job is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}
