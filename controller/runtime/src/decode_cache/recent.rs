//! The values that were read last, by their texts.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use parking_lot::Mutex;

use crate::weak_map::{SHARDS, shard};

/// How many texts a shard remembers: 2,048 in all, as one watch may read a whole burst before the next begins.
const REMEMBERED_MAX: usize = 128;
/// The beginning of an object has its uid and version, by which objects differ.
pub(super) const HASHED_BYTES_MAX: usize = 512;

/// A value that is read from a text.
pub(crate) trait Remembered {
    fn text(&self) -> &[u8];
}

/// The values that the threads of a process have read last. A shard has at most `BYTES_MAX` bytes of texts.
pub(crate) struct Shards<T, const BYTES_MAX: usize>([Mutex<Recent<T, BYTES_MAX>>; SHARDS]);

impl<T: Remembered + Clone, const BYTES_MAX: usize> Shards<T, BYTES_MAX> {
    pub(crate) const fn new() -> Self {
        Self([const { Mutex::new(Recent::new()) }; SHARDS])
    }

    /// The value of this text, if it is remembered.
    pub(crate) fn get(&self, text: &[u8]) -> Option<T> {
        let key = hash(text);
        self.0[shard(key)].lock().get(key, text).cloned()
    }

    /// The value of this text. If it is not remembered, `read` returns it; two threads may both read it.
    ///
    /// # Errors
    /// `read` fails.
    pub(crate) fn get_or_read<E>(
        &self,
        text: &[u8],
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let key = hash(text);
        let recent = &self.0[shard(key)];
        let known = recent.lock().get(key, text).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let value = read()?;
        recent.lock().put(key, value.clone());
        Ok(value)
    }
}

/// The values that were read last. Their texts have at most `BYTES_MAX` bytes together.
struct Recent<T, const BYTES_MAX: usize> {
    /// By the hashes of their texts.
    known: BTreeMap<u64, T>,
    /// The keys of `known`, oldest first.
    order: VecDeque<u64>,
    /// Bytes of the texts in `known`.
    bytes: usize,
}

impl<T: Remembered, const BYTES_MAX: usize> Recent<T, BYTES_MAX> {
    const fn new() -> Self {
        Self {
            known: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }

    fn get(&self, key: u64, text: &[u8]) -> Option<&T> {
        let known = self.known.get(&key);
        known.filter(|known| known.text() == text)
    }

    fn put(&mut self, key: u64, read: T) {
        self.bytes += read.text().len();
        match self.known.insert(key, read) {
            Some(replaced) => self.bytes -= replaced.text().len(),
            None => self.order.push_back(key),
        }
        while (self.order.len() > REMEMBERED_MAX || self.bytes > BYTES_MAX)
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(forgotten) = self.known.remove(&oldest) {
                self.bytes -= forgotten.text().len();
            }
        }
    }
}

/// The hash of a text.
fn hash(text: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(&text[..text.len().min(HASHED_BYTES_MAX)]);
    hasher.write_usize(text.len());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(String);

    impl Remembered for Text {
        fn text(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }

    /// Room for this many bytes.
    type Recent = super::Recent<Text, 100>;

    fn text(bytes: usize) -> Text {
        Text("x".repeat(bytes))
    }

    #[test]
    fn only_the_last_texts_are_remembered() {
        let mut recent = super::Recent::<Text, { usize::MAX }>::new();
        for key in 0..=REMEMBERED_MAX as u64 {
            recent.put(key, text(1));
        }
        let known = |key| recent.get(key, b"x").is_some();
        assert_eq!([0, 1].map(known), [false, true]);
        assert_eq!(recent.order.len(), REMEMBERED_MAX);
        assert_eq!(recent.known.len(), REMEMBERED_MAX);
        assert!(recent.get(1, b"y").is_none());
    }

    #[test]
    fn the_texts_are_bounded_in_bytes() {
        let mut recent = Recent::new();
        (0..10).for_each(|key| recent.put(key, text(30)));
        assert_eq!(recent.bytes, 90);
        assert_eq!(recent.order, [7, 8, 9], "the newest that fit");
        recent.put(9, text(31));
        assert_eq!(recent.bytes, 91, "it takes the place of another");
        recent.put(10, text(101));
        assert_eq!((recent.order.len(), recent.bytes), (0, 0));
    }

    #[test]
    fn texts_differ_by_their_beginning_and_their_length() {
        let of = |bytes: usize, last: &str| hash(&[text(bytes).text(), last.as_bytes()].concat());
        assert_ne!(of(1, "a"), of(1, "b"));
        assert_ne!(of(HASHED_BYTES_MAX, ""), of(HASHED_BYTES_MAX, "a"));
        assert_eq!(of(HASHED_BYTES_MAX, "a"), of(HASHED_BYTES_MAX, "b"));
    }
}
