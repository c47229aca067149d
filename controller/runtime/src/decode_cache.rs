//! Decodes the objects of watch events once for all watches of a process.
//!
//! The controllers of one process watch the same resources, on one thread each with a watch of its own, as if each ran
//! alone. They would otherwise decode the same events a dozen times. Upstream's controllers share informers instead; here
//! each has its own store, which may lag alone. An object that several stores hold is in memory once.

mod list;
mod living;
pub(crate) mod recent;
mod shrink;
mod times;
mod untyped;

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use living::Identity;
use recent::{Remembered, Shards};
use untyped::UpTo;

pub(crate) use list::List;

/// Bytes of the texts of the objects that a shard remembers: 32 MiB in all. The largest objects fit.
const REMEMBERED_BYTES_MAX: usize = 2 * 1024 * 1024;

static RECENT: Shards<Undecoded, REMEMBERED_BYTES_MAX> = Shards::new();

/// An object as a watch delivers it; equal texts give the same object.
///
/// It comes without `managedFields`, which no controller asks for: an update that has none leaves
/// them as they are. If only its metadata is decoded, it comes without its types, labels and annotations, too.
#[derive(Clone, Debug)]
pub struct Decoded<K>(pub Arc<K>);

impl<'de, K> Deserialize<'de> for Decoded<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let object = Undecoded::of(&text).decode();
        object.map(Self).map_err(D::Error::custom)
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

/// An object that a watch has delivered, before it is decoded. The watches of all kinds have this one type, so that what
/// a watch is made of is compiled once instead of for each kind.
#[derive(Clone)]
pub(crate) struct Undecoded(Arc<Text>);

/// The URL of the objects of a watch, below that of the server.
#[derive(Clone)]
pub(crate) struct Url(pub(crate) String);

/// The text of an object, and what is known of it.
struct Text {
    text: Box<RawValue>,
    /// It has the resourceVersion, by which a watch goes on, and the uid alone.
    meta: ObjectMeta,
    /// The text between these bytes is that of `managedFields`.
    managed_fields: Option<(usize, usize)>,
    /// The object, in each type in which it was asked for.
    objects: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

impl Text {
    fn new(text: Box<RawValue>) -> Self {
        let written = WrittenMeta::of(text.get());
        let managed_fields = written.managed_fields.map(|fields| {
            let start = fields.get().as_ptr() as usize - text.get().as_ptr() as usize;
            (start, start + fields.get().len())
        });
        let meta = ObjectMeta {
            resource_version: written.resource_version.map(Cow::into_owned),
            uid: written.uid.map(Cow::into_owned),
            ..ObjectMeta::default()
        };
        Self {
            meta,
            managed_fields,
            objects: Mutex::default(),
            text,
        }
    }

    /// The text with an empty list for `managedFields`, which are half of what there is to decode.
    fn without_managed_fields(&self) -> Cow<'_, str> {
        let text = self.text.get();
        match self.managed_fields {
            Some((start, end)) => Cow::Owned([&text[..start], "[]", &text[end..]].concat()),
            None => Cow::Borrowed(text),
        }
    }
}

impl Undecoded {
    /// The object of this text if it was delivered lately.
    pub(crate) fn known(text: &[u8]) -> Option<Self> {
        RECENT.get(text)
    }

    /// The object of this text, which is remembered.
    pub(crate) fn of(text: &RawValue) -> Self {
        let Ok(object) = RECENT.get_or_read(text.get().as_bytes(), || {
            Ok::<_, Infallible>(Self(Arc::new(Text::new(text.to_owned()))))
        });
        object
    }

    /// None if the object has none, or an empty one.
    pub(crate) fn resource_version(&self) -> Option<&str> {
        let version = self.0.meta.resource_version.as_deref();
        version.filter(|version| !version.is_empty())
    }

    /// The object in this type.
    ///
    /// # Errors
    /// Why the text is no such object.
    pub(crate) fn decode<K>(&self) -> serde_json::Result<Arc<K>>
    where
        K: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        let mut objects = self.0.objects.lock();
        let known = objects
            .iter()
            .find(|object| (***object).type_id() == TypeId::of::<K>());
        if let Some(known) = known.and_then(|known| Arc::clone(known).downcast().ok()) {
            return Ok(known);
        }
        let identity = Identity::of::<K>(&self.0.meta, self.0.text.get());
        // Another thread may decode this object now. Afterwards it is among the living ones, unless a newer version is.
        let _decoding = identity.as_ref().map(Identity::lock);
        let living = identity.as_ref().and_then(living::get::<K>);
        if let Some(living) = living {
            objects.push(living.clone());
            return Ok(living);
        }
        let object = Arc::new(self.decode_anew::<K>()?);
        objects.push(object.clone());
        if let Some(identity) = identity {
            living::put(identity, &object);
        }
        Ok(object)
    }

    /// The object in this type, for the caller alone.
    ///
    /// # Errors
    /// Why the text is no such object.
    pub(crate) fn decode_anew<K>(&self) -> serde_json::Result<K>
    where
        K: Resource + DeserializeOwned + 'static,
    {
        let mut object = from_text::<K>(&self.0.without_managed_fields())?;
        object.meta_mut().managed_fields = None;
        shrink::shrink(&mut object);
        Ok(object)
    }
}

impl Remembered for Undecoded {
    fn text(&self) -> &[u8] {
        self.0.text.get().as_bytes()
    }
}

impl fmt::Debug for Undecoded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.text.get())
    }
}

/// Returns the event with what `decode` makes of its object.
///
/// # Errors
/// What `decode` returns.
pub(crate) fn try_map<K, O, E>(
    event: Event<K>,
    decode: impl FnOnce(K) -> Result<O, E>,
) -> Result<Event<O>, E> {
    Ok(match event {
        Event::Apply(object) => Event::Apply(decode(object)?),
        Event::Delete(object) => Event::Delete(decode(object)?),
        Event::InitApply(object) => Event::InitApply(decode(object)?),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    })
}

/// The parts of an object's metadata that a watch reads, as they are written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenMeta<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

impl<'a> WrittenMeta<'a> {
    /// The metadata of the object with this text, or the default if it has none.
    fn of(text: &'a str) -> Self {
        let mut meta = None;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let _ = deserializer.deserialize_map(UpTo(&mut meta));
        meta.unwrap_or_default()
    }
}

/// Decodes the text of an object, whatever its times are.
fn from_text<K: DeserializeOwned + 'static>(text: &str) -> serde_json::Result<K> {
    untyped::decode(text).or_else(|error| {
        let clamped = times::without_extremes(text);
        untyped::decode(&clamped.ok_or(error)?)
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::core::{PartialObjectMeta, WatchEvent};
    use serde_json::{Value, json};

    use super::recent::HASHED_BYTES_MAX;
    use super::*;
    use crate::pod::Pod;

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
        let on_another_thread = std::thread::scope(|scope| {
            let other = scope.spawn(|| read::<ConfigMap>(&one));
            other.join().unwrap()
        });
        assert!(Arc::ptr_eq(&first, &on_another_thread));
        assert_eq!(first.metadata.managed_fields, None);
        let second: Arc<ConfigMap> = read(&again);
        assert_eq!(second.data.as_ref().unwrap()["key"], "2");
        let other: Arc<Secret> = read(&json!({ "metadata": { "name": "a" } }));
        assert_eq!(other.metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn an_object_that_is_held_is_found_however_it_was_written() {
        let metadata = json!({ "name": "a", "uid": "listed-and-watched", "resourceVersion": "1" });
        let text = |beginning: &str, version: &str| {
            let text = json!({ "metadata": metadata, "data": { "version": version } }).to_string();
            text.replacen('{', beginning, 1)
        };
        let read = |text: String| -> Arc<ConfigMap> {
            let text = RawValue::from_string(text).unwrap();
            Undecoded(Arc::new(Text::new(text))).decode().unwrap()
        };
        let listed = read(text("{", "1"));
        let watched = text(r#"{"kind":"ConfigMap","apiVersion":"v1","#, "1");
        assert!(Arc::ptr_eq(&listed, &read(watched)));
        let other = text(r#"{"kind":"ConfigMap","apiVersion":"v1","#, "2");
        assert!(!Arc::ptr_eq(&listed, &read(other)), "another server has it");
    }

    #[test]
    fn an_object_that_several_threads_decode_at_once_is_decoded_once() {
        const THREADS: usize = 4;
        let start = std::sync::Barrier::new(THREADS);
        for round in 0..50 {
            let mut one = object("a", "1");
            one["metadata"]["uid"] = json!(format!("decoded-at-once-{round}"));
            let values = (0..1000).map(|index| (index.to_string(), json!("x")));
            one["data"] = values.collect();
            let decode = || {
                let text = undecoded(&one);
                start.wait();
                text.decode::<ConfigMap>().unwrap()
            };
            let objects = std::thread::scope(|scope| {
                [(); THREADS]
                    .map(|()| scope.spawn(decode))
                    .map(|thread| thread.join().unwrap())
            });
            let first = &objects[0];
            assert!(objects.iter().all(|object| Arc::ptr_eq(object, first)));
        }
    }

    #[test]
    fn a_decoded_pod_has_no_room_to_spare() {
        let metadata = json!({ "name": "a", "resourceVersion": "1" });
        let spec = json!({ "containers": [{ "name": "c" }] });
        let pod: Arc<Pod> = read(&json!({ "metadata": metadata, "spec": spec }));
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.containers.capacity(), 1);
    }

    #[test]
    fn managed_fields_are_left_out_and_nothing_else() {
        let of = |metadata: &str| format!(r#"{{"metadata":{metadata},"data":{{"a":"b"}}}}"#);
        let without_managed_fields = |text: &str| {
            let text = Text::new(RawValue::from_string(text.to_owned()).unwrap());
            text.without_managed_fields().into_owned()
        };
        let with = of(r#"{"name":"a","managedFields":[{"manager":"m"}],"uid":"u"}"#);
        let without = of(r#"{"name":"a","managedFields":[],"uid":"u"}"#);
        assert_eq!(without_managed_fields(&with), without);
        let deeper = r#"{"metadata":{"name":"a"},"spec":{"managedFields":[1]}}"#;
        assert_eq!(without_managed_fields(deeper), deeper);
    }

    #[test]
    fn metadata_is_read_wherever_it_is() {
        let meta = r#""metadata":{"uid":"u","resourceVersion":"3"}"#;
        let other = r#""data":{"metadata":{"uid":"other"}}"#;
        for text in [format!("{{{meta},{other}}}"), format!("{{{other},{meta}}}")] {
            let own = Text::new(RawValue::from_string(text).unwrap()).meta;
            let own = (own.uid.as_deref(), own.resource_version.as_deref());
            assert_eq!(own, (Some("u"), Some("3")));
        }
        for text in [format!("{{{other}}}"), "[]".to_owned()] {
            let own = Text::new(RawValue::from_string(text).unwrap()).meta;
            assert_eq!(own, ObjectMeta::default());
        }
    }

    #[test]
    fn a_text_is_decoded_once_for_each_type() {
        let text = object("a", "7").to_string();
        let text: &RawValue = serde_json::from_str(&text).unwrap();
        let text = Undecoded::of(text);
        assert_eq!(text.resource_version(), Some("7"));
        let map: Arc<ConfigMap> = text.decode().unwrap();
        let partial: Arc<PartialObjectMeta> = text.decode().unwrap();
        assert_eq!(map.metadata, partial.metadata);
        assert!(Arc::ptr_eq(&map, &text.decode().unwrap()));
        assert!(Arc::ptr_eq(&partial, &text.decode().unwrap()));
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

    fn undecoded(object: &Value) -> Undecoded {
        Undecoded(Arc::new(Text::new(
            serde_json::value::to_raw_value(object).unwrap(),
        )))
    }

    #[test]
    fn what_is_no_such_object_is_refused() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#;
        let refused = serde_json::from_str::<WatchEvent<Decoded<ConfigMap>>>(line);
        assert!(refused.unwrap_err().to_string().contains("invalid type"));
    }
}
