//! The text of a stored object: plain, or compressed if the object was not written for a while.
//!
//! Objects of a resource are alike, so each is compressed against the texts of others, which are a dictionary of LZ4. A
//! pod of 4 kB then takes 0.3 kB, and is read again in a microsecond.

use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block;
use parking_lot::Mutex;

/// How much of a text serves as a dictionary, in bytes. A longer one makes each compression slower.
const DICTIONARY_BYTES_MAX: usize = 16 * 1024;
/// A text stays plain unless compression divides its length by this.
const GAIN_MIN: usize = 2;

/// A text, which never changes. Its form does.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: usize,
    form: Mutex<Form>,
}

#[derive(Debug)]
enum Form {
    Plain(Bytes),
    Compressed(Box<[u8]>, Dictionary),
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

impl Text {
    /// A plain text.
    pub(crate) fn new(plain: Bytes) -> Self {
        Self {
            bytes: plain.len(),
            form: Mutex::new(Form::Plain(plain)),
        }
    }

    /// The bytes of the plain text.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The plain text: shared, or decompressed for the caller alone.
    pub(crate) fn plain(&self) -> Bytes {
        match &*self.form.lock() {
            Form::Plain(plain) => plain.clone(),
            Form::Compressed(bytes, dictionary) => {
                let plain = block::decompress_with_dict(bytes, self.bytes, &dictionary.0);
                plain.expect("it was compressed here").into()
            }
        }
    }

    /// Compresses a plain text, unless that gains little.
    pub(crate) fn compress(&self, dictionary: &Dictionary) {
        let plain = match &*self.form.lock() {
            Form::Plain(plain) => plain.clone(),
            Form::Compressed(..) => return,
        };
        let bytes = block::compress_with_dict(&plain, &dictionary.0);
        if bytes.len() <= plain.len() / GAIN_MIN {
            *self.form.lock() = Form::Compressed(bytes.into(), dictionary.clone());
        }
    }

    #[cfg(test)]
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(&*self.form.lock(), Form::Compressed(..))
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    fn text(bytes: &[u8]) -> Text {
        Text::new(Bytes::copy_from_slice(bytes))
    }

    /// A text that is like no other.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut noise = vec![0; bytes];
        ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut noise);
        noise
    }

    #[test]
    fn a_text_takes_little_more_than_its_bytes() {
        assert!(size_of::<Form>() <= size_of::<Bytes>());
        assert!(size_of::<Text>() <= 48);
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
            let text = text(own);
            text.compress(&Dictionary::of(dictionary));
            assert!(text.is_compressed());
            assert_eq!((text.len(), text.plain()), (own.len(), own.clone().into()));
            text.compress(&Dictionary::of(b""));
            assert_eq!(text.plain(), own);
        }
    }

    #[test]
    fn a_text_that_is_like_no_other_stays_plain() {
        let own = noise(1000);
        for (own, dictionary) in [(own.as_slice(), &[][..]), (&own, &own[..400]), (b"a", b"b")] {
            let text = text(own);
            text.compress(&Dictionary::of(dictionary));
            assert!(!text.is_compressed());
            assert_eq!(text.plain(), own);
        }
    }
}
