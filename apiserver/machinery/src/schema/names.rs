//! Finding things by their names, faster than by comparing texts.

/// An index of a list by name: a hash table with open addressing, where a look-up starts at the
/// slot of the name's hash and ends at the next free slot.
#[derive(Debug)]
pub(super) struct NameIndex {
    /// The hash of a name, and where it is in the list.
    slots: Vec<Option<(u64, usize)>>,
    /// How many bits of a hash are not part of a slot's number.
    shift: u32,
}

/// A hash of a name's length, its first and its last bytes.
fn hash(name: &str) -> u64 {
    // Fibonacci hashing.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let bytes = name.as_bytes();
    let word = |chunk: &[u8; 8]| u64::from_le_bytes(*chunk);
    let half = |chunk: &[u8; 4]| u64::from(u32::from_le_bytes(*chunk));
    let words = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>());
    let halves = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>());
    let (head, tail) = if let (Some(head), Some(tail)) = words {
        (word(head), word(tail))
    } else if let (Some(head), Some(tail)) = halves {
        (half(head), half(tail))
    } else {
        let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        (bytes.iter().fold(0, add), 0)
    };
    let length = bytes.len() as u64;
    (head ^ tail.rotate_left(29) ^ length.rotate_left(56)).wrapping_mul(SPREAD)
}

impl NameIndex {
    /// An index of the names of a list in its order.
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let hashes: Vec<_> = names.map(hash).collect();
        // Half of the slots at least are free.
        let slots = (hashes.len() * 2 + 1).next_power_of_two();
        let mut index = Self {
            slots: vec![None; slots],
            shift: u64::BITS - slots.trailing_zeros(),
        };
        for (at, hash) in hashes.into_iter().enumerate() {
            let mut places = index.places(hash);
            let free = places.find(|place| index.slots[*place].is_none());
            let free = free.expect("there are more slots than names");
            index.slots[free] = Some((hash, at));
        }
        index
    }

    /// The slots in which a name of this hash may be, most likely ones first.
    fn places(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let (start, mask) = (hash.checked_shr(self.shift), self.slots.len() - 1);
        let start = usize::try_from(start.unwrap_or(0)).unwrap_or(0);
        (start..).map(move |place| place & mask)
    }

    /// Where `name` is first in the list; `is_there` confirms a place.
    pub(super) fn position(&self, name: &str, is_there: impl Fn(usize) -> bool) -> Option<usize> {
        self.candidates(name).find(|at| is_there(*at))
    }

    /// Where `name` may be, in the order of the list; names with the same hash may be there too.
    pub(super) fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let hash = hash(name);
        let taken = self.places(hash).map_while(|place| self.slots[place]);
        taken.filter_map(move |(own, at)| (own == hash).then_some(at))
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
            "terminationGracePeriodSeconds",
            "b",
            "terminationXracePeriodSeconds",
        ];
        let index = NameIndex::new(names.into_iter());
        let at = |name: &str| -> Vec<usize> { index.candidates(name).collect() };
        assert_eq!(at("b"), [0, 3]);
        assert_eq!(at(""), [1]);
        assert_eq!(at(names[4]), [2, 4], "alike in length and at both ends");
        assert!(at("termination").is_empty());
        let position = |name: &str| index.position(name, |at| names[at] == name);
        assert_eq!(
            names.map(position),
            [Some(0), Some(1), Some(2), Some(0), Some(4)]
        );
        for absent in ["a", "bb", "terminationYracePeriodSeconds"] {
            assert_eq!(position(absent), None);
        }
    }
}
