//! Objects given in Rust or in files, before they are created.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::endpoints::handlers::yaml::Yaml;

/// Objects to create, in the order in which they were added.
///
/// ```no_run
/// # use kubeproof_apiserver::{ApiServer, Manifests};
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let manifests = Manifests::new().read("deploy/crds")?.object(&serde_json::json!({
///     "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "apps" },
/// }))?;
/// let server = ApiServer::builder().build_with(manifests).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Manifests {
    objects: Vec<Value>,
}

/// A manifest that is none.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is neither YAML nor JSON.
    #[error("{}: {why}", path.display())]
    Syntax {
        /// Which one.
        path: PathBuf,
        /// What Go's decoder says of it.
        why: String,
    },
    /// A value has no form in JSON.
    #[error("an object cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Manifests {
    /// No objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object, such as `kube::CustomResourceExt::crd` of a Rust type.
    ///
    /// # Errors
    /// [`ManifestError::Json`] when it has no form in JSON.
    pub fn object(mut self, object: &impl Serialize) -> Result<Self, ManifestError> {
        self.add(serde_json::to_value(object)?);
        Ok(self)
    }

    /// Adds what is in a file of YAML or JSON, which may hold several documents and Lists, or in
    /// all `.yaml`, `.yml` and `.json` files below a directory, sorted by their paths.
    ///
    /// # Errors
    /// [`ManifestError`] when one of them cannot be read.
    pub fn read(mut self, path: impl AsRef<Path>) -> Result<Self, ManifestError> {
        for file in Self::files(path)? {
            let text = std::fs::read_to_string(&file).map_err(|source| ManifestError::Read {
                path: file.clone(),
                source,
            })?;
            let documents = Yaml::documents(&text);
            let documents = documents.map_err(|why| ManifestError::Syntax { path: file, why })?;
            documents
                .into_iter()
                .for_each(|document| self.add(document));
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

    /// A List stands for its items, an empty document for nothing.
    fn add(&mut self, mut object: Value) {
        let is_list = object["kind"] == "List" && object["apiVersion"] == "v1";
        if is_list && let Value::Array(items) = object["items"].take() {
            items.into_iter().for_each(|item| self.add(item));
        } else if !object.is_null() {
            self.objects.push(object);
        }
    }
}

impl IntoIterator for Manifests {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.objects.into_iter()
    }
}
