//! Maps from hashes to values that something else keeps alive.

use std::collections::BTreeMap;

/// The number of shards of a map that threads share. Each has a lock of its own, so that few threads wait for each other.
pub(crate) const SHARDS: usize = 16;
/// The least number of values that are added between two searches for those that nothing uses.
pub(crate) const UNSWEPT: usize = 256;

/// The shard of a hash. The low bits of a hash order the values of a shard.
pub(crate) fn shard(hash: u64) -> usize {
    (hash >> 60) as usize % SHARDS
}

/// Values by their hashes; those that nothing uses any more are forgotten later. Of two values with the same hash, the later one is
/// known.
pub(crate) struct WeakMap<V> {
    values: BTreeMap<u64, V>,
    /// The number of values at which those that nothing uses are looked for.
    sweep_at: usize,
}

impl<V> WeakMap<V> {
    pub(crate) const fn new() -> Self {
        Self {
            values: BTreeMap::new(),
            sweep_at: UNSWEPT,
        }
    }

    pub(crate) fn get(&self, hash: u64) -> Option<&V> {
        self.values.get(&hash)
    }

    /// Adds a value. Before that it forgets those that are not `used`, once there may be as many of them as a fourth of the others.
    pub(crate) fn insert(&mut self, hash: u64, value: V, used: impl Fn(&V) -> bool) {
        if self.values.len() >= self.sweep_at {
            self.values.retain(|_, value| used(value));
            let used = self.values.len();
            self.sweep_at = used + UNSWEPT.max(used / 4);
        }
        self.values.insert(hash, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Adds values that nothing uses.
    fn fill(map: &mut WeakMap<Arc<str>>) {
        for hash in 1..20 * UNSWEPT as u64 {
            map.insert(hash, "gone".into(), |value| Arc::strong_count(value) > 1);
        }
    }

    #[test]
    fn values_that_nothing_uses_are_forgotten() {
        let mut map = WeakMap::new();
        let kept: Arc<str> = "kept".into();
        map.insert(0, Arc::clone(&kept), |_| true);
        fill(&mut map);
        assert!(map.values.len() <= 2 * UNSWEPT);
        assert!(map.get(0).is_some_and(|value| Arc::ptr_eq(value, &kept)));
        drop(kept);
        fill(&mut map);
        assert_eq!(map.get(0), None);
    }

    #[test]
    fn the_later_of_two_values_with_one_hash_is_known() {
        let mut map = WeakMap::new();
        map.insert(7, "one", |_| true);
        map.insert(7, "other", |_| true);
        assert_eq!(map.get(7), Some(&"other"));
    }

    #[test]
    fn every_hash_has_a_shard() {
        let shards = (0..=15_u64).map(|high| shard(high << 60));
        assert!(shards.eq(0..SHARDS));
    }
}
