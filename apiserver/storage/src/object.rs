//! Stored objects: decoded, encoded as JSON, or both.
//!
//! A tree of small maps takes ten times as much memory as its text. So only recently written
//! objects stay decoded (see `Table`); others are decoded on demand. Texts are compressed in the same way, but later. A
//! cluster has six objects for each pod, most of them compressed, so a compressed one has to be small.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::json::Value;
use crate::meta::ResourceVersion;
use crate::nesting;
use crate::pairs::Pairs;
use crate::schema::protobuf::{self, Document};
use crate::schema::{has_object_meta, owned_lengths, read_fields, read_object, write_answer};
use crate::text::{Compressed, Dictionary};

/// The capacity in bytes that the scratch buffer shrinks to.
const SCRATCH_MAX: usize = 64 * 1024;

thread_local! {
    /// The buffer for encoding an object before its length is known.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// `namespace/name`, or `name` for a cluster-scoped object.
///
/// Ordered by bytes, as etcd orders its keys: namespace `a-b` sorts before `a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// Returns the key of the object `name` in `namespace`, or of a cluster-scoped object.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }

    /// The least key of a namespace, or of everything for `None`.
    pub fn prefix(namespace: Option<&str>) -> Self {
        Self(
            namespace
                .map_or_else(String::new, |namespace| format!("{namespace}/"))
                .into(),
        )
    }

    /// A key from its text, as a continue token holds it.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// The namespace and the name; no namespace for a cluster-scoped object.
    pub fn parts(&self) -> (Option<&str>, &str) {
        match self.0.rsplit_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, &self.0),
        }
    }

    /// Whether the object is in `namespace`.
    pub fn is_in_namespace(&self, namespace: &str) -> bool {
        self.0
            .strip_prefix(namespace)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the text, such as `default/web-0`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An object at one version. Shared by storage, lists and every watcher; never changed.
#[derive(Debug)]
pub struct StoredObject {
    /// The namespace and name.
    pub key: ObjectKey,
    /// The version at which the object was last written.
    pub rv: ResourceVersion,
    /// Whether the object nests too deeply for an ordinary stack; then only its text is kept.
    is_deep: bool,
    /// Whether the metadata are written in the order of Go's fields.
    has_object_meta: bool,
    /// The offset in the text of the fields after `kind` and `apiVersion`, if these come first.
    fields_at: AtomicU16,
    /// The bytes of the text, with its line break; 0 until it is made.
    bytes: AtomicU32,
    labels: Pairs,
    form: Mutex<Form>,
    /// Boxed, as few objects have it.
    derived: OnceLock<Box<Derived>>,
}

/// Forms of an object that are made on the first request. Few objects are asked for them.
#[derive(Debug, Default)]
struct Derived {
    /// The fields that selectors can name.
    selectable: OnceLock<Pairs>,
    /// The object in protobuf.
    protobuf: OnceLock<Option<Document>>,
    /// The value of a compressed object; concurrent readers share it.
    decoded: Mutex<Weak<Value>>,
}

#[derive(Debug)]
enum Form {
    /// Not compressed, as most objects that were written lately.
    Recent(Box<Recent>),
    /// Only the text is kept.
    Compressed(Compressed),
}

/// An object with a decoded value, a text, or both.
#[derive(Debug)]
struct Recent {
    value: Decoded,
    text: Option<Plain>,
}

#[derive(Debug)]
enum Decoded {
    Kept(Arc<Value>),
    /// Only the text is kept; concurrent readers share one decoded value.
    Evicted(Weak<Value>),
}

#[derive(Clone, Debug)]
struct Plain {
    /// The object and a line break.
    line: Bytes,
    /// How long the owned fields of each manager are, if that is known.
    owned: Option<Box<[usize]>>,
}

impl Plain {
    fn decode(&self) -> Arc<Value> {
        let value = read_object(&self.line, self.owned.as_deref());
        Arc::new(value.expect("what was written can be read"))
    }
}

impl Recent {
    fn value(&mut self) -> Arc<Value> {
        let evicted = match &self.value {
            Decoded::Kept(value) => return Arc::clone(value),
            Decoded::Evicted(shared) => shared.upgrade(),
        };
        evicted.unwrap_or_else(|| {
            let text = self.text.as_ref().expect("what is evicted is written");
            let value = text.decode();
            self.value = Decoded::Evicted(Arc::downgrade(&value));
            value
        })
    }
}

impl StoredObject {
    /// Makes an object of its decoded form, which has `metadata.resourceVersion` already.
    pub fn new(key: ObjectKey, rv: ResourceVersion, value: Value) -> Self {
        Self {
            key,
            rv,
            is_deep: nesting::note_stored(&value),
            has_object_meta: has_object_meta(&value),
            fields_at: AtomicU16::new(0),
            bytes: AtomicU32::new(0),
            labels: labels(&value),
            form: Mutex::new(Form::Recent(Box::new(Recent {
                value: Decoded::Kept(Arc::new(value)),
                text: None,
            }))),
            derived: OnceLock::new(),
        }
    }

    /// Whether the object is of a built-in kind, whose text has the version at a known place.
    pub(super) fn has_object_meta(&self) -> bool {
        self.has_object_meta
    }

    /// Returns this object at another version, made of its text; `None` for an object of a custom kind.
    pub(super) fn at_version(&self, rv: ResourceVersion) -> Option<Self> {
        const VERSION: &[u8] = b"\"resourceVersion\":\"";
        if !self.has_object_meta {
            return None;
        }
        let Plain { line, owned } = self.text();
        let fields_at = self.fields_at.load(Ordering::Acquire);
        // Only names and texts come before the version; quotation marks in texts are escaped.
        let metadata = line.get(usize::from(fields_at)..)?;
        if !metadata.starts_with(b"\"metadata\":{") {
            return None;
        }
        let mut parts = metadata.windows(VERSION.len());
        let part = parts.position(|part| part == VERSION)?;
        let start = usize::from(fields_at) + part + VERSION.len();
        let (old, new) = (self.rv.to_string(), rv.to_string());
        let rest = line.get(start..)?.strip_prefix(old.as_bytes())?;
        let is_whole = rest.starts_with(b"\"");
        let line = Bytes::from([&line[..start], new.as_bytes(), rest].concat());
        is_whole.then(|| Self {
            key: self.key.clone(),
            rv,
            is_deep: self.is_deep,
            has_object_meta: self.has_object_meta,
            fields_at: AtomicU16::new(fields_at),
            bytes: AtomicU32::new(length(&line)),
            labels: self.labels.clone(),
            form: Mutex::new(Form::Recent(Box::new(Recent {
                value: Decoded::Evicted(Weak::new()),
                text: Some(Plain { line, owned }),
            }))),
            derived: OnceLock::new(),
        })
    }

    /// Returns the decoded object; decodes it if only the text is kept.
    ///
    /// # Panics
    /// On a stack without room for it. A request is on one only if it began before the first deep
    /// object of the process was stored.
    pub fn value(&self) -> Arc<Value> {
        self.check_stack();
        if let Form::Recent(recent) = &mut *self.form.lock() {
            return recent.value();
        }
        let mut shared = self.derived().decoded.lock();
        shared.upgrade().unwrap_or_else(|| {
            let value = self.text().decode();
            *shared = Arc::downgrade(&value);
            value
        })
    }

    fn check_stack(&self) {
        assert!(
            !self.is_deep || nesting::fits_here(),
            "{} nests too deeply for this stack: see `on_deep_stack`",
            self.key
        );
    }

    /// Returns the fields at these dotted paths, and possibly others.
    pub fn fields(&self, paths: &[&str]) -> Arc<Value> {
        if !self.is_deep
            && let Form::Recent(recent) = &*self.form.lock()
            && let Decoded::Kept(value) = &recent.value
        {
            return Arc::clone(value);
        }
        Arc::new(read_fields(&self.json(), paths))
    }

    /// The value of the label `key`.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// The value of the selectable field `name`. The first caller reads all of these fields, as pairs
    /// of name and value, and the object keeps them. `None` if `name` is not among them.
    pub fn selectable<'n>(
        &self,
        name: &str,
        read: impl FnOnce(&Self) -> Vec<(&'n str, String)>,
    ) -> Option<&str> {
        let fields = self.derived().selectable.get_or_init(|| {
            let fields = read(self);
            Pairs::new(fields.iter().map(|(name, value)| (*name, value.as_str())))
        });
        fields.get(name)
    }

    /// Whether the decoded value needs a deep stack.
    pub(super) fn is_deep(&self) -> bool {
        self.is_deep
    }

    fn derived(&self) -> &Derived {
        self.derived.get_or_init(Box::default)
    }

    /// Evicts the decoded value and keeps only the text of the object.
    pub(super) fn evict(&self) {
        if let Form::Recent(recent) = &mut *self.form.lock() {
            self.encode(recent);
            if let Decoded::Kept(value) = &recent.value {
                recent.value = Decoded::Evicted(Arc::downgrade(value));
            }
        }
    }

    /// Returns the object as JSON, encoded by the first caller and shared from then on.
    pub fn json(&self) -> Bytes {
        let line = self.json_line();
        line.slice(..line.len() - 1)
    }

    /// Returns the JSON with a line break at its end, as in a response.
    pub fn json_line(&self) -> Bytes {
        match &mut *self.form.lock() {
            Form::Recent(recent) => self.encode(recent).line.clone(),
            Form::Compressed(text) => text.plain(self.known_bytes()),
        }
    }

    /// The object without `kind` and `apiVersion`, less its opening brace: an item of a list.
    pub fn json_fields(&self) -> Bytes {
        let line = self.json_line();
        line.slice(self.fields_at()..line.len() - 1)
    }

    /// The bytes of [`Self::json`].
    pub fn json_length(&self) -> usize {
        let line = match self.known_bytes() {
            0 => self.json_line().len(),
            known => known,
        };
        line - 1
    }

    /// The bytes of [`Self::json_fields`].
    pub fn json_fields_length(&self) -> usize {
        self.json_length() - self.fields_at()
    }

    /// Compresses the text, which is made already, and drops the decoded value.
    pub(super) fn compress(&self, dictionary: &Dictionary) {
        let text = match &*self.form.lock() {
            Form::Recent(recent) => recent.text.clone(),
            Form::Compressed(_) => None,
        };
        if let Some(text) = text.and_then(|text| Compressed::of(&text.line, dictionary)) {
            *self.form.lock() = Form::Compressed(text);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(&*self.form.lock(), Form::Compressed(_))
    }

    /// The object in protobuf, encoded by the first caller and shared from then on; `None` for a kind
    /// without a message.
    pub fn protobuf(&self) -> Option<&Document> {
        let encode = || protobuf::encode(&self.value());
        self.derived().protobuf.get_or_init(encode).as_ref()
    }

    /// The size of the JSON in bytes; 0 if the object is not encoded yet.
    pub fn known_bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire) as usize
    }

    /// Known once the text is made.
    fn fields_at(&self) -> usize {
        usize::from(self.fields_at.load(Ordering::Acquire))
    }

    fn text(&self) -> Plain {
        match &mut *self.form.lock() {
            Form::Recent(recent) => self.encode(recent).clone(),
            Form::Compressed(text) => Plain {
                line: text.plain(self.known_bytes()),
                owned: None,
            },
        }
    }

    /// The text of the object, which is in this form; made of its value when it is first asked for.
    fn encode<'r>(&self, Recent { value, text }: &'r mut Recent) -> &'r Plain {
        text.get_or_insert_with(|| {
            self.check_stack();
            let Decoded::Kept(value) = value else {
                unreachable!("what is evicted is written");
            };
            let (plain, fields_at) = written(value);
            // Kinds are short; only those in a state file may be long, and a list then repeats them.
            let fields_at = u16::try_from(fields_at).unwrap_or(1);
            self.fields_at.store(fields_at, Ordering::Release);
            self.bytes.store(length(&plain.line), Ordering::Release);
            plain
        })
    }
}

/// The text of an object, and the offset of the fields after `kind` and `apiVersion`.
fn written(value: &Value) -> (Plain, usize) {
    SCRATCH.with_borrow_mut(|text| {
        text.clear();
        let fields_at = write_answer(text, value);
        text.push(b'\n');
        let line = Bytes::copy_from_slice(text);
        text.shrink_to(SCRATCH_MAX);
        let owned = owned_lengths(value);
        (Plain { line, owned }, fields_at)
    })
}

fn length(line: &Bytes) -> u32 {
    u32::try_from(line.len()).expect("the size of a request is limited")
}

/// The labels of an object.
fn labels(object: &Value) -> Pairs {
    let labels = object["metadata"]["labels"].as_object();
    let pairs = labels.into_iter().flatten();
    Pairs::new(pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn object() -> StoredObject {
        let value = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "namespace": "ns", "resourceVersion": "7", "labels": { "app": "web" },
                "managedFields": [{ "manager": "kubectl", "fieldsV1": "\0{\"f:data\":{}}" }],
            },
            "data": { "text": "x".repeat(1000) },
        });
        let key = ObjectKey::new(Some("ns"), "a");
        StoredObject::new(key, ResourceVersion::new(7), value)
    }

    #[test]
    fn an_object_is_small() {
        assert!(size_of::<StoredObject>() <= 96);
    }

    #[test]
    fn an_endless_kind_is_repeated_in_lists() {
        let value = json!({ "kind": "k".repeat(100_000), "data": 1 });
        let object = StoredObject::new(ObjectKey::new(None, "a"), ResourceVersion::ZERO, value);
        let item = [b"{", &*object.json_fields()].concat();
        assert_eq!(object.json(), item);
        assert_eq!(object.json_fields_length(), item.len() - 1);
    }

    #[test]
    fn a_compressed_object_is_read_as_before() {
        let (plain, compressed) = (object(), object());
        compressed.evict();
        compressed.compress(&Dictionary::of(b""));
        assert!(compressed.is_compressed());
        assert_eq!(compressed.json_line(), plain.json_line());
        assert_eq!(compressed.json_fields(), plain.json_fields());
        assert_eq!(compressed.json_fields_length(), plain.json_fields_length());
        assert_eq!(compressed.json_length(), plain.json_length());
        let value = compressed.value();
        assert_eq!(value, plain.value());
        assert!(Arc::ptr_eq(&value, &compressed.value()), "it is shared");
        let paths = ["metadata.name"];
        assert_eq!(
            compressed.fields(&paths)["metadata"],
            json!({ "name": "a" })
        );
        assert_eq!(compressed.label("app"), Some("web"));
        let document = |object: &StoredObject| object.protobuf().unwrap().bytes();
        assert_eq!(document(&compressed), document(&plain));
        let later = |object: &StoredObject| object.at_version(ResourceVersion::new(11)).unwrap();
        assert_eq!(later(&compressed).json_line(), later(&plain).json_line());
        assert_eq!(
            later(&compressed).value()["metadata"]["resourceVersion"],
            "11"
        );
        compressed.evict();
        assert!(compressed.is_compressed());
    }
}
