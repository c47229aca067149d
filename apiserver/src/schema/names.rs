//! Finding things by their names, faster than by comparing texts.

/// Positions in a list by the names of what is there.
#[derive(Debug)]
pub(super) struct NameIndex(Vec<(Key, usize)>);

/// The first eight bytes of a name and its length: nearly always enough to tell names apart.
type Key = (u64, usize);

fn key(name: &str) -> Key {
    let mut head = [0; 8];
    let length = name.len().min(head.len());
    head[..length].copy_from_slice(&name.as_bytes()[..length]);
    (u64::from_be_bytes(head), name.len())
}

impl NameIndex {
    /// An index of the names of a list in its order.
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let keys = names.enumerate().map(|(at, name)| (key(name), at));
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        Self(keys)
    }

    /// Where `name` may be, in the order of the list; other names may be there too.
    pub(super) fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let key = key(name);
        let start = self.0.partition_point(|(own, _)| *own < key);
        let rest = self.0[start..].iter();
        rest.take_while(move |(own, _)| *own == key)
            .map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are() {
        let names = [
            "b",
            "",
            "terminationMessagePath",
            "b",
            "terminationGracePeriod",
        ];
        let index = NameIndex::new(names.into_iter());
        let at = |name: &str| -> Vec<usize> { index.candidates(name).collect() };
        assert_eq!(at("b"), [0, 3]);
        assert_eq!(at(""), [1]);
        assert_eq!(
            at("terminationMessagePath"),
            [2, 4],
            "alike by the first bytes and length"
        );
        assert!(at("termination").is_empty());
    }
}
