//! Stored objects: decoded, encoded as JSON, or both.
//!
//! A tree of small maps takes ten times as much memory as its text. So only recently written
//! objects stay decoded (see `Table`); others are decoded on demand. Texts are compressed in the same way, but later.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::json::Value;
use crate::meta::ResourceVersion;
use crate::nesting;
use crate::pairs::Pairs;
use crate::schema::protobuf::{self, Document};
use crate::schema::{has_object_meta, owned_lengths, read_fields, read_object, write_answer};
use crate::text::{Dictionary, Text};

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
    labels: Pairs,
    /// The fields that selectors can name, once a selector has named one of them.
    selectable: OnceLock<Pairs>,
    value: Mutex<Form>,
    json: OnceLock<Json>,
    /// The object in protobuf; boxed, as few clients request it.
    protobuf: OnceLock<Option<Box<Document>>>,
}

/// The decoded form of an object.
#[derive(Debug)]
enum Form {
    Decoded(Arc<Value>),
    /// Only the text is kept; concurrent readers share one decoded value.
    Encoded(Weak<Value>),
}

#[derive(Debug)]
struct Json {
    /// The object and a line break.
    line: Text,
    /// The offset of the fields after `kind` and `apiVersion`, if these come first.
    fields: usize,
    /// How long the owned fields of each manager are, if that is known.
    owned: Option<Box<[usize]>>,
    /// Whether the metadata are written in the order of Go's fields.
    has_object_meta: bool,
}

impl StoredObject {
    /// Makes an object of its decoded form, which has `metadata.resourceVersion` already.
    pub fn new(key: ObjectKey, rv: ResourceVersion, value: Value) -> Self {
        Self {
            key,
            rv,
            is_deep: nesting::note_stored(&value),
            labels: labels(&value),
            selectable: OnceLock::new(),
            value: Mutex::new(Form::Decoded(Arc::new(value))),
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
        }
    }

    /// Whether the object is of a built-in kind, whose text has the version at a known place.
    pub(super) fn has_object_meta(&self) -> bool {
        match self.json.get() {
            Some(json) => json.has_object_meta,
            None => has_object_meta(&self.value()),
        }
    }

    /// Returns this object at another version, made of its text; `None` for an object of a custom kind.
    pub(super) fn at_version(&self, rv: ResourceVersion) -> Option<Self> {
        const VERSION: &[u8] = b"\"resourceVersion\":\"";
        if !self.has_object_meta() {
            return None;
        }
        let Json {
            line,
            fields,
            owned,
            has_object_meta,
        } = self.encoded();
        let bytes = line.plain();
        // Only names and texts come before the version; quotation marks in texts are escaped.
        let metadata = bytes.get(*fields..)?;
        if !metadata.starts_with(b"\"metadata\":{") {
            return None;
        }
        let mut parts = metadata.windows(VERSION.len());
        let start = fields + parts.position(|part| part == VERSION)? + VERSION.len();
        let (old, new) = (self.rv.to_string(), rv.to_string());
        let rest = bytes.get(start..)?.strip_prefix(old.as_bytes())?;
        let is_whole = rest.starts_with(b"\"");
        let text = [&bytes[..start], new.as_bytes(), rest].concat();
        let json = Json {
            line: Text::new(text.into()),
            fields: *fields,
            owned: owned.clone(),
            has_object_meta: *has_object_meta,
        };
        is_whole.then(|| Self {
            key: self.key.clone(),
            rv,
            is_deep: self.is_deep,
            labels: self.labels.clone(),
            selectable: OnceLock::new(),
            value: Mutex::new(Form::Encoded(Weak::new())),
            json: json.into(),
            protobuf: OnceLock::new(),
        })
    }

    /// Returns the decoded object; decodes it if only the text is kept.
    ///
    /// # Panics
    /// On a stack without room for it. A request is on one only if it began before the first deep
    /// object of the process was stored.
    pub fn value(&self) -> Arc<Value> {
        assert!(
            !self.is_deep || nesting::fits_here(),
            "{} nests too deeply for this stack: see `on_deep_stack`",
            self.key
        );
        let mut held = self.value.lock();
        match &*held {
            Form::Decoded(value) => Arc::clone(value),
            Form::Encoded(shared) => shared.upgrade().unwrap_or_else(|| {
                let json = self.json.get().expect("what rests is written");
                let value = read_object(&json.line.plain(), json.owned.as_deref());
                let value = Arc::new(value.expect("what was written can be read"));
                *held = Form::Encoded(Arc::downgrade(&value));
                value
            }),
        }
    }

    /// Returns the fields at these dotted paths, and possibly others.
    pub fn fields(&self, paths: &[&str]) -> Arc<Value> {
        if !self.is_deep
            && let Form::Decoded(value) = &*self.value.lock()
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
        let fields = self.selectable.get_or_init(|| {
            let fields = read(self);
            Pairs::new(fields.iter().map(|(name, value)| (*name, value.as_str())))
        });
        fields.get(name)
    }

    /// Whether the decoded value needs a deep stack.
    pub(super) fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// Evicts the decoded value and keeps only the text of the object.
    pub(super) fn evict(&self) {
        self.encoded();
        let mut held = self.value.lock();
        if let Form::Decoded(value) = &*held {
            *held = Form::Encoded(Arc::downgrade(value));
        }
    }

    /// Returns the object as JSON, encoded by the first caller and shared from then on.
    pub fn json(&self) -> Bytes {
        let line = self.json_line();
        line.slice(..line.len() - 1)
    }

    /// Returns the JSON with a line break at its end, as in a response.
    pub fn json_line(&self) -> Bytes {
        self.encoded().line.plain()
    }

    /// The object without `kind` and `apiVersion`, less its opening brace: an item of a list.
    pub fn json_fields(&self) -> Bytes {
        let Json { line, fields, .. } = self.encoded();
        line.plain().slice(*fields..line.len() - 1)
    }

    /// The bytes of [`Self::json`].
    pub fn json_length(&self) -> usize {
        self.encoded().line.len() - 1
    }

    /// The bytes of [`Self::json_fields`].
    pub fn json_fields_length(&self) -> usize {
        self.json_length() - self.encoded().fields
    }

    /// Compresses the text, which is made already.
    pub(super) fn compress(&self, dictionary: &Dictionary) {
        if let Some(json) = self.json.get() {
            json.line.compress(dictionary);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_compressed(&self) -> bool {
        let json = self.json.get();
        json.is_some_and(|json| json.line.is_compressed())
    }

    /// The object in protobuf, encoded by the first caller and shared from then on; `None` for a kind
    /// without a message.
    pub fn protobuf(&self) -> Option<&Document> {
        let encode = || protobuf::encode(&self.value()).map(Box::new);
        self.protobuf.get_or_init(encode).as_deref()
    }

    /// The size of the JSON in bytes; 0 if the object is not encoded yet.
    pub fn known_bytes(&self) -> usize {
        self.json.get().map_or(0, |json| json.line.len())
    }

    fn encoded(&self) -> &Json {
        self.json.get_or_init(|| {
            SCRATCH.with_borrow_mut(|text| {
                text.clear();
                let value = self.value();
                let fields = write_answer(text, &value);
                let owned = owned_lengths(&value);
                let has_object_meta = has_object_meta(&value);
                text.push(b'\n');
                let line = Text::new(Bytes::copy_from_slice(text));
                text.shrink_to(SCRATCH_MAX);
                Json {
                    line,
                    fields,
                    owned,
                    has_object_meta,
                }
            })
        })
    }
}

/// The labels of an object.
fn labels(object: &Value) -> Pairs {
    let labels = object["metadata"]["labels"].as_object();
    let pairs = labels.into_iter().flatten();
    Pairs::new(pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))))
}
