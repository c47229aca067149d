//! The compressed text of a stored object that was not written for a while.
//!
//! Objects of a resource are alike, so each is compressed against the texts of others, which are a dictionary of LZ4. A
//! pod of 4 kB then takes 0.3 kB, and is read again in a microsecond.

use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block;

/// How much of a text serves as a dictionary, in bytes. A longer one makes each compression slower.
const DICTIONARY_BYTES_MAX: usize = 16 * 1024;
/// A text stays plain unless compression divides its length by this.
const GAIN_MIN: usize = 2;

/// A text that is compressed against a dictionary.
#[derive(Debug)]
pub(crate) struct Compressed {
    bytes: Box<[u8]>,
    dictionary: Dictionary,
}

/// The texts of objects that others are like. Each compressed text holds one pointer to it.
#[derive(Clone, Debug)]
pub(crate) struct Dictionary(Arc<Box<[u8]>>);

impl Dictionary {
    /// A dictionary for the texts of objects that are like those with these texts.
    pub(crate) fn of(texts: &[u8]) -> Self {
        let part = &texts[..texts.len().min(DICTIONARY_BYTES_MAX)];
        Self(Arc::new(part.into()))
    }
}

impl Compressed {
    /// The compressed form of `plain`; `None` if that gains little.
    pub(crate) fn of(plain: &[u8], dictionary: &Dictionary) -> Option<Self> {
        let bytes = block::compress_with_dict(plain, &dictionary.0);
        (bytes.len() <= plain.len() / GAIN_MIN).then(|| Self {
            bytes: bytes.into(),
            dictionary: dictionary.clone(),
        })
    }

    /// The plain text, whose length is `bytes`.
    pub(crate) fn plain(&self, bytes: usize) -> Bytes {
        let plain = block::decompress_with_dict(&self.bytes, bytes, &self.dictionary.0);
        plain.expect("it was compressed here").into()
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// A text that is like no other.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut noise = vec![0; bytes];
        ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut noise);
        noise
    }

    #[test]
    fn a_compressed_text_is_the_same_again() {
        let alike = noise(1000);
        let other = [&alike[..500], b"different", &alike[500..]].concat();
        let long = noise(DICTIONARY_BYTES_MAX + 100);
        for (own, dictionary) in [
            (&alike, &other),
            (&alike, &alike),
            (&other, &alike),
            (&long, &long),
            (&vec![b'x'; 5000], &Vec::new()),
        ] {
            let text = Compressed::of(own, &Dictionary::of(dictionary)).unwrap();
            assert_eq!(text.plain(own.len()), *own);
        }
    }

    #[test]
    fn a_text_that_is_like_no_other_stays_plain() {
        let own = noise(1000);
        for (own, dictionary) in [(own.as_slice(), &[][..]), (&own, &own[..400]), (b"a", b"b")] {
            assert!(Compressed::of(own, &Dictionary::of(dictionary)).is_none());
        }
    }
}
