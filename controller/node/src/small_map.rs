//! Maps with few entries, such as the containers of a pod. A cluster has many pods.

use kubeproof_machinery::json::SmolStr;
use litemap::LiteMap;

/// Values by name. Most names are short, and lie in their entry.
pub(super) type SmallMap<V> = LiteMap<SmolStr, V>;

/// Sets the value of `name`, and returns the one before. An empty map is allocated for one entry, as most pods have one
/// container.
pub(super) fn insert<V>(map: &mut SmallMap<V>, name: &str, value: V) -> Option<V> {
    if map.is_empty() {
        *map = SmallMap::with_capacity(1);
    }
    map.insert(name.into(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_name_has_no_room_to_spare() {
        let mut map = SmallMap::new();
        assert_eq!(insert(&mut map, "main", 1), None);
        assert_eq!(insert(&mut map, "main", 2), Some(1));
        assert_eq!(map.into_tuple_vec().capacity(), 1);
    }

    #[test]
    fn names_are_in_order() {
        let mut map = SmallMap::new();
        for (name, value) in [("main", 2), ("init", 3)] {
            insert(&mut map, name, value);
        }
        let all: Vec<_> = map
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        assert_eq!(all, [("init", 3), ("main", 2)]);
    }
}
