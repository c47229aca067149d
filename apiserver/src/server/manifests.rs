//! Objects given in Rust or in files, before they are created.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::json::{self, Value};
use crate::yaml::decode::Yaml;

/// Objects to create, in the order in which they were added.
///
/// ```
/// use kubeproof_apiserver::{ApiServer, Manifests};
/// use kubeproof_apiserver::json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}});
/// let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: apps}}";
/// let manifests = Manifests::new().object(&namespace)?.yaml(map)?;
/// let server = ApiServer::builder().build_with(manifests).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Manifests {
    manifests: Vec<Manifest>,
}

/// An object to create, and where it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object.
    pub object: Value,
    /// The file that it was read from.
    pub file: Option<Arc<Path>>,
    /// The keys that its document has twice: `line 7: key "replicas" already set in map`. The last one
    /// of a name counts.
    pub duplicates: Vec<String>,
}

impl From<Value> for Manifest {
    fn from(object: Value) -> Self {
        Self {
            object,
            file: None,
            duplicates: Vec::new(),
        }
    }
}

/// A file or value that cannot be read as Kubernetes objects.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A text is neither YAML nor JSON.
    #[error("{}{why}", place(file.as_deref()))]
    Syntax {
        /// The file, if it is one.
        file: Option<PathBuf>,
        /// The message of Go's decoder.
        why: String,
    },
    /// A document or value is not an object.
    #[error("{}{document} is not an object: {why}", place(file.as_deref()))]
    NotAnObject {
        /// The file, if it was read from one.
        file: Option<PathBuf>,
        /// `document 2`, counted from one, or `the value`.
        document: String,
        /// `apiVersion not set, kind not set`.
        why: String,
    },
    /// A value has no form in JSON.
    #[error("an object cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

fn place(file: Option<&Path>) -> String {
    file.map_or_else(String::new, |file| format!("{}: ", file.display()))
}

impl Manifests {
    /// An empty list of objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object, such as `kube::CustomResourceExt::crd` of a Rust type.
    ///
    /// # Errors
    /// - [`ManifestError::Json`] when it has no form in JSON,
    /// - [`ManifestError::NotAnObject`] when it has no `apiVersion` or no `kind`.
    pub fn object(mut self, object: &impl Serialize) -> Result<Self, ManifestError> {
        self.add(json::to_value(object)?.into(), "the value")?;
        Ok(self)
    }

    /// Adds the objects of a text of YAML or JSON, which may hold several documents and Lists.
    ///
    /// # Errors
    /// [`ManifestError`] when it cannot be read, or a document is not an object.
    pub fn yaml(mut self, text: &str) -> Result<Self, ManifestError> {
        self.add_documents(text, None)?;
        Ok(self)
    }

    /// Adds the objects of a file of YAML or JSON, which may hold several documents and Lists, or of
    /// all `.yaml`, `.yml` and `.json` files below a directory, sorted by their paths.
    ///
    /// # Errors
    /// [`ManifestError`] when one of them cannot be read, or a document is not an object.
    pub fn read(mut self, path: impl AsRef<Path>) -> Result<Self, ManifestError> {
        for file in Self::files(path)? {
            let text = std::fs::read_to_string(&file).map_err(|source| ManifestError::Read {
                path: file.clone(),
                source,
            })?;
            self.add_documents(&text, Some(&file.into()))?;
        }
        Ok(self)
    }

    /// The files that [`Self::read`] reads at `path`, in its order.
    ///
    /// # Errors
    /// [`ManifestError::Read`] when a directory cannot be listed.
    pub fn files(path: impl AsRef<Path>) -> Result<Vec<PathBuf>, ManifestError> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let unreadable = |source| ManifestError::Read {
            path: path.to_owned(),
            source,
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_manifest = || {
                let extension = path.extension().and_then(|extension| extension.to_str());
                matches!(extension, Some("yaml" | "yml" | "json"))
            };
            if path.is_dir() || is_manifest() {
                files.extend(Self::files(path)?);
            }
        }
        files.sort();
        Ok(files)
    }

    fn add_documents(&mut self, text: &str, file: Option<&Arc<Path>>) -> Result<(), ManifestError> {
        let documents = Yaml::documents(text).map_err(|why| ManifestError::Syntax {
            file: file.map(|file| file.to_path_buf()),
            why,
        })?;
        for (index, (object, duplicates)) in documents.into_iter().enumerate() {
            let manifest = Manifest {
                object,
                file: file.cloned(),
                duplicates,
            };
            self.add(manifest, &format!("document {}", index + 1))?;
        }
        Ok(())
    }

    /// A List, or a list of one kind, stands for its items, an empty document for nothing.
    fn add(&mut self, mut manifest: Manifest, document: &str) -> Result<(), ManifestError> {
        let object = &mut manifest.object;
        let of_kind = list_of(object);
        if let Some(of_kind) = of_kind
            && let Value::Array(items) = object["items"].take()
        {
            for (index, mut object) in items.into_iter().enumerate() {
                if let Value::Object(fields) = &mut object {
                    // The items of a list of one kind need not name it.
                    for (field, value) in &of_kind {
                        fields.entry(*field).or_insert_with(|| value.clone());
                    }
                }
                let item = Manifest {
                    object,
                    file: manifest.file.clone(),
                    duplicates: std::mem::take(&mut manifest.duplicates),
                };
                self.add(item, &format!("{document}, item {}", index + 1))?;
            }
        } else if !object.is_null() {
            if let Some(why) = fault(object) {
                return Err(ManifestError::NotAnObject {
                    file: manifest.file.map(|file| file.to_path_buf()),
                    document: document.to_owned(),
                    why,
                });
            }
            self.manifests.push(manifest);
        }
        Ok(())
    }
}

/// Kind and version of the items of a list, as far as the list has them; `None` for what is no list.
fn list_of(object: &Value) -> Option<Vec<(&'static str, Value)>> {
    let (kind, version) = (object["kind"].as_str()?, &object["apiVersion"]);
    let item = kind.strip_suffix("List")?;
    let is_named = object["metadata"].get("name").is_some();
    match item {
        _ if is_named || !object["items"].is_array() => None,
        "" => (version == "v1").then(Vec::new),
        item => Some(vec![("apiVersion", version.clone()), ("kind", item.into())]),
    }
}

/// The reason why a value is not an object of the API.
fn fault(value: &Value) -> Option<String> {
    let kind = match value {
        Value::Object(_) => {
            let is_set = |field: &&str| value[field].as_str().is_some_and(|text| !text.is_empty());
            let fields = ["apiVersion", "kind"].into_iter();
            let unset = fields.filter(|field| !is_set(field));
            let unset: Vec<String> = unset.map(|field| format!("{field} not set")).collect();
            return (!unset.is_empty()).then(|| unset.join(", "));
        }
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    Some(format!("it is {kind}"))
}

impl IntoIterator for Manifests {
    type Item = Manifest;
    type IntoIter = std::vec::IntoIter<Manifest>;

    fn into_iter(self) -> Self::IntoIter {
        self.manifests.into_iter()
    }
}
