//! Decodes the objects of watch events once for all watches of a process.
//!
//! The controllers of one process watch the same resources, each with a watch of its own, as if
//! each ran alone. They would otherwise decode the same events a dozen times. Upstream's
//! controllers share informers instead; here each sees the state of its own watch, which may lag or
//! fail alone.

mod times;

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher::Event;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// How many objects a thread remembers: those of one burst, which one watch reads whole before the
/// next begins.
const REMEMBERED_MAX: usize = 512;
/// Bytes of the texts of those objects: some bursts of ordinary objects, few of the largest.
const REMEMBERED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The beginning of an object has its uid and version, by which objects differ.
const HASHED_BYTES_MAX: usize = 512;

thread_local! {
    static RECENT: RefCell<Recent> = const { RefCell::new(Recent::new()) };
}

/// An object as a watch delivers it; equal texts give the same object.
///
/// It comes without `managedFields`, which no controller asks for: an update that has none leaves
/// them as they are.
#[derive(Clone, Debug)]
pub struct Decoded<K>(pub Arc<K>);

impl<K> Decoded<K> {
    /// The event with the object itself.
    pub fn unwrap(event: Event<Self>) -> Event<Arc<K>> {
        match event {
            Event::Apply(object) => Event::Apply(object.0),
            Event::Delete(object) => Event::Delete(object.0),
            Event::InitApply(object) => Event::InitApply(object.0),
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
        }
    }
}

impl<'de, K> Deserialize<'de> for Decoded<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let key = Key::of::<K>(text.get());
        let known = RECENT.with_borrow(|recent| recent.get(&key, text.get()));
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return Ok(Self(known));
        }
        let less = without_managed_fields(text.get());
        let mut object: K = serde_json::from_str(&less)
            .or_else(|error| times::without_extremes(&less).ok_or(error))
            .map_err(D::Error::custom)?;
        object.meta_mut().managed_fields = None;
        let object = Arc::new(object);
        RECENT.with_borrow_mut(|recent| recent.put(key, text, object.clone()));
        Ok(Self(object))
    }
}

impl<K: Resource + Clone> Resource for Decoded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        Arc::make_mut(&mut self.0).meta_mut()
    }
}

/// The parts of an object that lead to its `managedFields`, as they are written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    metadata: WrittenMeta<'a>,
}

#[derive(Deserialize)]
struct WrittenMeta<'a> {
    #[serde(borrow, rename = "managedFields")]
    managed_fields: &'a RawValue,
}

/// The text of an object with an empty list for `managedFields`, which are half of what there is to
/// decode.
fn without_managed_fields(text: &str) -> Cow<'_, str> {
    let Ok(written) = serde_json::from_str::<Written<'_>>(text) else {
        return Cow::Borrowed(text);
    };
    let fields = written.metadata.managed_fields.get();
    let start = fields.as_ptr() as usize - text.as_ptr() as usize;
    let (before, after) = (&text[..start], &text[start + fields.len()..]);
    Cow::Owned([before, "[]", after].concat())
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    of: TypeId,
    hash: u64,
}

impl Key {
    fn of<K: 'static>(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(&text.as_bytes()[..text.len().min(HASHED_BYTES_MAX)]);
        hasher.write_usize(text.len());
        Self {
            of: TypeId::of::<K>(),
            hash: hasher.finish(),
        }
    }
}

/// The objects decoded last.
struct Recent {
    objects: BTreeMap<Key, (Box<RawValue>, Arc<dyn Any + Send + Sync>)>,
    /// The keys of `objects`, oldest first.
    order: VecDeque<Key>,
    /// Bytes of the texts in `objects`.
    bytes: usize,
}

impl Recent {
    const fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }

    fn get(&self, key: &Key, text: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        let (of, object) = self.objects.get(key)?;
        (of.get() == text).then(|| Arc::clone(object))
    }

    fn put(&mut self, key: Key, text: Box<RawValue>, object: Arc<dyn Any + Send + Sync>) {
        self.bytes += text.get().len();
        match self.objects.insert(key, (text, object)) {
            Some((replaced, _)) => self.bytes -= replaced.get().len(),
            None => self.order.push_back(key),
        }
        while (self.order.len() > REMEMBERED_MAX || self.bytes > REMEMBERED_BYTES_MAX)
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some((forgotten, _)) = self.objects.remove(&oldest) {
                self.bytes -= forgotten.get().len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::core::WatchEvent;
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, version: &str) -> Value {
        let managed = json!([{ "manager": "kubectl", "operation": "Update" }]);
        let metadata =
            json!({ "name": name, "resourceVersion": version, "managedFields": managed });
        json!({ "metadata": metadata, "data": { "key": version } })
    }

    fn read<K>(object: &Value) -> Arc<K>
    where
        K: Resource + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        match serde_json::from_str::<WatchEvent<Decoded<K>>>(&line) {
            Ok(WatchEvent::Modified(shared)) => shared.0,
            other => panic!("{:?}", other.map(|_| ())),
        }
    }

    #[test]
    fn one_text_is_one_object_whoever_reads_it() {
        let (one, again) = (object("a", "1"), object("a", "2"));
        let first: Arc<ConfigMap> = read(&one);
        assert!(Arc::ptr_eq(&first, &read(&one)));
        assert_eq!(first.metadata.managed_fields, None);
        let second: Arc<ConfigMap> = read(&again);
        assert_eq!(second.data.as_ref().unwrap()["key"], "2");
        let other: Arc<Secret> = read(&json!({ "metadata": { "name": "a" } }));
        assert_eq!(other.metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn managed_fields_are_left_out_and_nothing_else() {
        let of = |metadata: &str| format!(r#"{{"metadata":{metadata},"data":{{"a":"b"}}}}"#);
        let with = of(r#"{"name":"a","managedFields":[{"manager":"m"}],"uid":"u"}"#);
        let without = of(r#"{"name":"a","managedFields":[],"uid":"u"}"#);
        assert_eq!(without_managed_fields(&with), without);
        let deeper = r#"{"metadata":{"name":"a"},"spec":{"managedFields":[1]}}"#;
        assert_eq!(without_managed_fields(deeper), deeper);
    }

    #[test]
    fn texts_that_begin_alike_are_distinguished() {
        let of = |last: &str| {
            let data = json!({ "fill": "x".repeat(2 * HASHED_BYTES_MAX), "last": last });
            read::<ConfigMap>(&json!({ "metadata": { "name": "a" }, "data": data }))
        };
        let (one, two) = (of("1"), of("2"));
        assert_eq!(one.data.as_ref().unwrap()["last"], "1");
        assert_eq!(two.data.as_ref().unwrap()["last"], "2");
        assert!(!Arc::ptr_eq(&one, &of("1")), "the second took its place");
    }

    #[test]
    fn only_the_last_objects_are_remembered() {
        let first: Arc<ConfigMap> = read(&object("first", "1"));
        for index in 0..REMEMBERED_MAX {
            let _: Arc<ConfigMap> = read(&object("next", &index.to_string()));
        }
        assert!(!Arc::ptr_eq(&first, &read(&object("first", "1"))));
        RECENT.with_borrow(|recent| {
            assert_eq!(recent.order.len(), REMEMBERED_MAX);
            assert_eq!(recent.objects.len(), REMEMBERED_MAX);
        });
    }

    #[test]
    fn remembered_objects_are_bounded_in_bytes() {
        let large = |index: usize| {
            let fill = index.to_string().repeat(REMEMBERED_BYTES_MAX / 4);
            json!({ "metadata": { "name": "large" }, "data": { "fill": fill } })
        };
        for index in 0..10 {
            let _: Arc<ConfigMap> = read(&large(index));
        }
        RECENT.with_borrow(|recent| {
            let texts = recent.objects.values().map(|(text, _)| text.get().len());
            assert_eq!(texts.sum::<usize>(), recent.bytes);
            assert_eq!(recent.order.len(), 3, "the newest that fit");
        });
        let whole: Arc<ConfigMap> = read(&large(9));
        assert!(Arc::ptr_eq(&whole, &read(&large(9))));
        let huge = json!({ "data": { "fill": "x".repeat(REMEMBERED_BYTES_MAX) } });
        let _: Arc<ConfigMap> = read(&huge);
        RECENT.with_borrow(|recent| assert_eq!((recent.order.len(), recent.bytes), (0, 0)));
    }

    #[test]
    fn what_is_no_such_object_is_refused() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#;
        let refused = serde_json::from_str::<WatchEvent<Decoded<ConfigMap>>>(line);
        assert!(refused.unwrap_err().to_string().contains("invalid type"));
    }
}
