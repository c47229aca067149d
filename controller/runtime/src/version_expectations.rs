//! The versions of objects that a controller has written and not yet observed.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use parking_lot::Mutex;

use kubeproof_machinery::meta::ResourceVersion;

use super::store::resource_version;

/// The version expected of each object, by uid.
#[derive(Default)]
pub struct VersionExpectations {
    by_uid: Mutex<BTreeMap<String, Expected>>,
}

struct Expected {
    rv: ResourceVersion,
    /// The time when the cache was first found behind.
    since: Option<Timestamp>,
}

impl VersionExpectations {
    /// `written` is what the server answered a write with.
    pub fn expect(&self, written: &impl ResourceExt) {
        let (uid, rv) = (written.uid().unwrap_or_default(), resource_version(written));
        let mut by_uid = self.by_uid.lock();
        let expected = by_uid.entry(uid).or_insert(Expected { rv, since: None });
        expected.rv = expected.rv.max(rv);
    }

    /// For how long `cached` has been behind, since this was first asked; None when it is not.
    pub fn behind_for(&self, cached: &impl ResourceExt, now: Timestamp) -> Option<SignedDuration> {
        let uid = cached.uid().unwrap_or_default();
        let mut by_uid = self.by_uid.lock();
        let expected = by_uid.get_mut(&uid)?;
        if resource_version(cached) >= expected.rv {
            by_uid.remove(&uid);
            return None;
        }
        Some(now.duration_since(*expected.since.get_or_insert(now)))
    }

    /// Of `cached`, the first object that is behind: for how long, as [`Self::behind_for`] has it.
    pub fn first_behind<'a, K: ResourceExt + 'a>(
        &self,
        cached: impl IntoIterator<Item = &'a K>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let mut cached = cached.into_iter();
        cached.find_map(|object| self.behind_for(object, now))
    }

    /// The object is gone.
    pub fn forget(&self, object: &impl ResourceExt) {
        let uid = object.uid().unwrap_or_default();
        self.by_uid.lock().remove(&uid);
    }
}

#[cfg(test)]
mod tests {
    use crate::pod::Pod;

    use super::*;

    #[test]
    fn a_cache_is_behind_until_it_holds_the_newest_write() {
        let pod = |rv: u64| {
            let mut pod = Pod::default();
            pod.metadata.uid = Some("u".to_owned());
            pod.metadata.resource_version = Some(rv.to_string());
            pod
        };
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let expectations = VersionExpectations::default();
        assert_eq!(expectations.behind_for(&pod(1), at(0)), None);
        expectations.expect(&pod(10));
        expectations.expect(&pod(9));
        assert_eq!(
            expectations.behind_for(&pod(9), at(5)),
            Some(SignedDuration::ZERO)
        );
        let since = expectations.behind_for(&pod(9), at(7));
        assert_eq!(since, Some(SignedDuration::from_secs(2)));
        assert_eq!(expectations.behind_for(&pod(10), at(8)), None);
        expectations.expect(&pod(20));
        expectations.forget(&pod(1));
        assert_eq!(expectations.behind_for(&pod(10), at(9)), None);
    }
}
