//! What is stored: a value, and its JSON once somebody has asked for it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use crate::schema::write_object;

/// `namespace/name`, or `name` for a cluster-scoped object.
///
/// Ordered by bytes, as etcd orders its keys: namespace `a-b` sorts before `a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey(Arc<str>);

impl ObjectKey {
    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(format!("{namespace}/{name}").into()),
            None => Self(name.into()),
        }
    }

    /// The least key of a namespace, or of everything for `None`.
    pub(crate) fn prefix(namespace: Option<&str>) -> Self {
        Self(
            namespace
                .map_or_else(String::new, |namespace| format!("{namespace}/"))
                .into(),
        )
    }

    /// A key from its text, as a continue token holds it.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn is_in_namespace(&self, namespace: &str) -> bool {
        self.0
            .strip_prefix(namespace)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    pub(crate) fn as_str(&self) -> &str {
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
pub(crate) struct StoredObject {
    pub(crate) key: ObjectKey,
    pub(crate) rv: u64,
    pub(crate) value: Arc<Value>,
    json: OnceLock<Json>,
}

#[derive(Debug)]
struct Json {
    bytes: Bytes,
    /// Where the fields behind `kind` and `apiVersion` begin.
    fields: usize,
}

impl StoredObject {
    pub(crate) fn new(key: ObjectKey, rv: u64, value: Value) -> Self {
        Self {
            key,
            rv,
            value: Arc::new(value),
            json: OnceLock::new(),
        }
    }

    /// The object as JSON, serialized by the first who asks and shared from then on.
    pub(crate) fn json(&self) -> Bytes {
        self.encoded().bytes.clone()
    }

    /// The object without `kind` and `apiVersion`, less its opening brace: an item of a list.
    pub(crate) fn json_fields(&self) -> &[u8] {
        let encoded = self.encoded();
        &encoded.bytes[encoded.fields..]
    }

    fn encoded(&self) -> &Json {
        self.json.get_or_init(|| {
            let mut text = Vec::with_capacity(1024);
            let fields = write_object(&mut text, &self.value);
            Json {
                bytes: text.into(),
                fields,
            }
        })
    }
}
