//! The texts of a table that are plain: those of the objects written last.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use imbl::OrdMap;

use crate::text::Dictionary;
use crate::{ObjectKey, StoredObject};

/// The limit of plain texts in bytes. Reads of a small cluster decompress nothing.
const PLAIN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many texts share a dictionary: it takes little memory then, and later ones are like later objects.
const DICTIONARY_TEXTS: usize = 256;
/// The least length of a dictionary in bytes. Shorter texts are joined up to it, because small objects of several sorts are
/// often written in turns, such as the Events about a pod.
const DICTIONARY_BYTES_MIN: usize = 4 * 1024;

/// Of fewer objects, those that are gone are not looked for.
const SWEPT_MIN: usize = 1024;

/// The objects whose texts are plain, and what compresses the others.
#[derive(Debug, Default)]
pub(super) struct PlainTexts {
    /// Oldest first. Those that nothing else holds are gone.
    objects: VecDeque<Weak<StoredObject>>,
    /// The bytes of the texts of the oldest objects, one by one. The texts of later ones are not made yet.
    measured: VecDeque<usize>,
    /// The sum of these bytes.
    bytes: usize,
    /// How many objects were left when those that are gone were last swept out.
    swept: usize,
    dictionary: Option<Dictionary>,
    /// How many more texts the dictionary is for.
    texts_left: usize,
}

/// A text to compress.
#[derive(Debug)]
pub(super) struct Compression {
    object: Arc<StoredObject>,
    dictionary: Dictionary,
}

impl Compression {
    /// Compresses the text.
    pub(super) fn carry_out(self) {
        self.object.compress(&self.dictionary);
    }
}

impl PlainTexts {
    /// Keeps the text of `object` plain, and returns the texts to compress for it. Objects that are no longer
    /// stored, and so not among `current`, stay plain: the window forgets them soon.
    pub(super) fn keep(
        &mut self,
        object: &Arc<StoredObject>,
        current: &OrdMap<ObjectKey, Arc<StoredObject>>,
    ) -> Vec<Compression> {
        self.objects.push_back(Arc::downgrade(object));
        if self.objects.len() > SWEPT_MIN.max(2 * self.swept) {
            self.sweep();
        }
        self.measure();
        let mut compressions = Vec::new();
        while self.bytes > PLAIN_BYTES_MAX
            && let Some(bytes) = self.measured.pop_front()
        {
            self.bytes -= bytes;
            let oldest = self.objects.pop_front();
            let is_stored = |object: &Arc<StoredObject>| {
                let stored = current.get(&object.key);
                stored.is_some_and(|stored| Arc::ptr_eq(stored, object))
            };
            let oldest = oldest.and_then(|object| object.upgrade());
            if let Some(object) = oldest.filter(is_stored) {
                let dictionary = self.dictionary(&object);
                compressions.push(Compression { object, dictionary });
            }
        }
        compressions
    }

    /// Measures the texts that were made in the meantime.
    fn measure(&mut self) {
        while let Some(object) = self.objects.get(self.measured.len()) {
            let bytes = object.upgrade().map(|object| object.known_bytes());
            if bytes == Some(0) {
                break;
            }
            self.measured.push_back(bytes.unwrap_or(0));
            self.bytes += bytes.unwrap_or(0);
        }
    }

    /// Forgets the objects that are gone, which take memory as long as something refers to them.
    fn sweep(&mut self) {
        self.objects.retain(|object| object.strong_count() > 0);
        self.swept = self.objects.len();
        self.measured.clear();
        self.bytes = 0;
    }

    /// The dictionary for the text of `object`, which becomes the next dictionary if that is due.
    fn dictionary(&mut self, object: &StoredObject) -> Dictionary {
        if self.texts_left == 0 {
            self.texts_left = DICTIONARY_TEXTS;
            self.dictionary = None;
        }
        self.texts_left -= 1;
        let dictionary = self.dictionary.get_or_insert_with(|| {
            let mut texts = object.json().to_vec();
            // These are the oldest, and most of them will be compressed next.
            let mut others = self.objects.iter().filter_map(Weak::upgrade);
            while texts.len() < DICTIONARY_BYTES_MIN
                && let Some(other) = others.find(|other| other.known_bytes() > 0)
            {
                texts.extend_from_slice(&other.json());
            }
            Dictionary::of(&texts)
        });
        dictionary.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};

    use super::*;
    use crate::json::json;
    use crate::meta::ResourceVersion;

    /// An object of a megabyte and a bit.
    fn object(index: u64) -> Arc<StoredObject> {
        let name = format!("large-{index}");
        let value = json!({ "metadata": { "name": name }, "data": "x".repeat(1024 * 1024) });
        let key = ObjectKey::new(Some("ns"), &name);
        Arc::new(StoredObject::new(key, ResourceVersion::new(index), value))
    }

    fn of(objects: &[Arc<StoredObject>]) -> OrdMap<ObjectKey, Arc<StoredObject>> {
        let objects = objects.iter();
        objects
            .map(|own| (own.key.clone(), Arc::clone(own)))
            .collect()
    }

    #[test]
    fn a_version_that_was_replaced_stays_plain() {
        let objects: Vec<_> = (0..20).map(object).collect();
        let stored = of(&objects[1..]);
        let mut plain = PlainTexts::default();
        for object in &objects {
            object.evict();
            let compressions = plain.keep(object, &stored);
            compressions.into_iter().for_each(Compression::carry_out);
        }
        let compressed = [0, 1].map(|index: usize| objects[index].is_compressed());
        assert_eq!(compressed, [false, true]);
    }

    #[test]
    fn the_texts_kept_last_are_plain() {
        let objects: Vec<_> = (0..20).map(object).collect();
        let stored = of(&objects);
        let mut plain = PlainTexts::default();
        for object in &objects {
            let compressions = plain.keep(object, &stored);
            // The text of an object is made when it is evicted.
            object.evict();
            compressions.into_iter().for_each(Compression::carry_out);
        }
        let compressions = plain.keep(&object(20), &stored);
        compressions.into_iter().for_each(Compression::carry_out);
        let compressed = objects.iter().filter(|object| object.is_compressed());
        assert_eq!(compressed.count(), 5);
        assert!(objects[..5].iter().all(|object| object.is_compressed()));
        for object in &objects {
            let text = object.value().to_string();
            assert_eq!(object.json(), text);
            assert_eq!(object.json_length(), text.len());
            assert_eq!(object.json_fields().len(), object.json_fields_length());
            assert_eq!(object.value()["metadata"]["name"], *object.key.parts().1);
            assert_eq!(
                object.fields(&["metadata"])["metadata"]["name"],
                *object.key.parts().1
            );
        }
    }

    #[test]
    fn objects_that_are_gone_are_not_kept() {
        let small = |name: &str| {
            let key = ObjectKey::new(None, name);
            let object = StoredObject::new(key, ResourceVersion::ZERO, json!({ "name": name }));
            object.evict();
            Arc::new(object)
        };
        let mut plain = PlainTexts::default();
        let held = small("held");
        let stored = of(&[Arc::clone(&held)]);
        plain.keep(&held, &stored);
        for _ in 0..10 * SWEPT_MIN {
            plain.keep(&small("gone"), &stored);
        }
        assert!(plain.objects.len() <= SWEPT_MIN);
        assert!(plain.bytes <= SWEPT_MIN * held.known_bytes());
        let compressed = (0..20).flat_map(|index| {
            let large = object(index);
            large.evict();
            plain.keep(&large, &stored)
        });
        assert_eq!(compressed.count(), 1, "only the one that is held");
        assert!(plain.bytes <= PLAIN_BYTES_MAX);
    }

    #[test]
    fn small_objects_of_several_sorts_share_a_dictionary() {
        let of_sort = |index: u64| {
            let key = ObjectKey::new(None, &index.to_string());
            let mut hasher = DefaultHasher::new();
            let words = (0..60).map(|word| {
                (index % 3, word).hash(&mut hasher);
                format!("{:x}", hasher.finish())
            });
            let value = json!({ "index": index, "sort": words.collect::<String>() });
            let object = Arc::new(StoredObject::new(key, ResourceVersion::new(index), value));
            object.evict();
            object
        };
        let objects: Vec<_> = (0..6).map(of_sort).collect();
        let mut plain = PlainTexts::default();
        for object in &objects {
            plain.keep(object, &of(&objects));
        }
        plain.objects.pop_front();
        let dictionary = plain.dictionary(&objects[0]);
        objects
            .iter()
            .for_each(|object| object.compress(&dictionary));
        assert!(objects.iter().all(|object| object.is_compressed()));
        let alone = of_sort(7);
        alone.compress(&Dictionary::of(&objects[0].json()));
        assert!(
            !alone.is_compressed(),
            "it is like no object of another sort"
        );
    }

    #[test]
    fn a_dictionary_is_for_so_many_texts() {
        let mut plain = PlainTexts::default();
        let mut dictionaries = (0..600).map(|index| {
            let key = ObjectKey::new(None, "a");
            let value = json!({ "index": index });
            let object = StoredObject::new(key, ResourceVersion::new(index), value);
            format!("{:?}", plain.dictionary(&object))
        });
        let mut of_each: Vec<_> = dictionaries.by_ref().collect();
        of_each.dedup();
        assert_eq!(of_each.len(), 600_usize.div_ceil(DICTIONARY_TEXTS));
    }
}
