//! Finding things by their names, faster than by comparing texts.

/// An index of a list by name: a hash table with open addressing, where a look-up starts at the
/// slot of the name's key and ends at the next free slot.
#[derive(Debug)]
pub(super) struct NameIndex {
    slots: Vec<Option<(Key, usize)>>,
    /// How many bits of a hash are not part of a slot's number.
    shift: u32,
}

/// The first bytes of a name and its length, which distinguish all but the longest names.
type Key = ([u64; 3], usize);

/// How many bytes of a name are part of its key.
const KEY_BYTES: usize = 24;

fn key(name: &str) -> Key {
    let mut head = [0; KEY_BYTES];
    let length = name.len().min(KEY_BYTES);
    head[..length].copy_from_slice(&name.as_bytes()[..length]);
    let (words, _) = head.as_chunks();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    ([word(0), word(1), word(2)], name.len())
}

impl NameIndex {
    /// An index of the names of a list in its order.
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let keys: Vec<_> = names.map(key).collect();
        // Half of the slots at least are free.
        let slots = (keys.len() * 2 + 1).next_power_of_two();
        let mut index = Self {
            slots: vec![None; slots],
            shift: u64::BITS - slots.trailing_zeros(),
        };
        for (at, key) in keys.into_iter().enumerate() {
            let mut places = index.places(key);
            let free = places.find(|place| index.slots[*place].is_none());
            let free = free.expect("there are more slots than names");
            index.slots[free] = Some((key, at));
        }
        index
    }

    /// The slots in which `key` may be, most likely ones first.
    fn places(&self, ([one, two, three], length): Key) -> impl Iterator<Item = usize> + use<> {
        // Fibonacci hashing.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = one ^ two.rotate_left(21) ^ three.rotate_left(42) ^ length as u64;
        let hash = mixed.wrapping_mul(SPREAD);
        let (start, mask) = (hash.checked_shr(self.shift), self.slots.len() - 1);
        let start = usize::try_from(start.unwrap_or(0)).unwrap_or(0);
        (start..).map(move |place| place & mask)
    }

    /// Where `name` is first in the list. `is_there` confirms a place, and is only asked of names that
    /// are longer than their keys.
    pub(super) fn position(&self, name: &str, is_there: impl Fn(usize) -> bool) -> Option<usize> {
        let certain = name.len() <= KEY_BYTES;
        self.candidates(name).find(|at| certain || is_there(*at))
    }

    /// Where `name` may be, in the order of the list; longer names may be there too.
    pub(super) fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let key = key(name);
        let taken = self.places(key).map_while(|place| self.slots[place]);
        taken.filter_map(move |(own, at)| (own == key).then_some(at))
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
            "terminationGracePeriodSeconden",
            "b",
            "terminationGracePeriodSecundes",
        ];
        let index = NameIndex::new(names.into_iter());
        let at = |name: &str| -> Vec<usize> { index.candidates(name).collect() };
        assert_eq!(at("b"), [0, 3]);
        assert_eq!(at(""), [1]);
        assert_eq!(at(names[4]), [2, 4], "alike by the first bytes and length");
        assert!(at("termination").is_empty());
        let position = |name: &str| index.position(name, |at| names[at] == name);
        assert_eq!(
            names.map(position),
            [Some(0), Some(1), Some(2), Some(0), Some(4)]
        );
        assert_eq!(position("terminationGracePeriodHoursss"), None);
        assert_eq!(position("terminationGracePeriodSecindes"), None);
    }
}
