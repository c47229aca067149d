//! Maps for the containers of a pod and the like, which are one or two. A cluster has many pods.

use litemap::LiteMap;

/// Values by name.
pub(super) type SmallMap<V> = LiteMap<String, V>;

/// Sets the value of `name`, and returns the one before. The first name of a map gets room for itself alone.
pub(super) fn insert<V>(map: &mut SmallMap<V>, name: String, value: V) -> Option<V> {
    if map.is_empty() {
        *map = SmallMap::with_capacity(1);
    }
    map.insert(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_name_has_no_room_to_spare() {
        let mut map = SmallMap::new();
        assert_eq!(insert(&mut map, "main".to_owned(), 1), None);
        assert_eq!(insert(&mut map, "main".to_owned(), 2), Some(1));
        assert_eq!(map.clone().into_tuple_vec().capacity(), 1);
        insert(&mut map, "init".to_owned(), 3);
        let all: Vec<_> = map
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        assert_eq!(all, [("init", 3), ("main", 2)]);
    }
}
