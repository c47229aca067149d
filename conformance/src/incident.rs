//! The state of another cluster, from what its operators keep of an incident.
//!
//! - `dump`: directories of `kubectl cluster-info dump` and of must-gather
//! - `audit_log`: logs of audit.k8s.io with bodies
//!
//! What `kubectl get --output yaml` prints is a file of manifests like any other, with live objects in it. Scenarios get all of
//! it as the text of a List.

mod audit_log;
mod dump;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{Manifest, ManifestError, Manifests};
use kubeproof_machinery::json::{Value, json};

/// A dump or an audit log that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IncidentError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file has something else than objects.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A line of an audit log is no event.
    #[error("{}: line {line}: {source}", path.display())]
    Event {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1 on.
        line: usize,
        /// The error in it.
        source: serde_json::Error,
    },
    /// An audit log says nothing about the objects.
    #[error(
        "{}: the events have no responseObject; the policy has to have the level RequestResponse",
        .0.display()
    )]
    NoBodies(PathBuf),
    /// There is no live object.
    #[error("{}: there is no object with a uid and a resourceVersion in it", .0.display())]
    Empty(PathBuf),
}

impl IncidentError {
    /// The error of the file system at `path`.
    fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}

/// Group, kind, namespace and name.
type Key = (String, String, String, String);

/// Reads a dump or an audit log, with the last state of each object. `until` is the time at which an audit log ends.
/// `None` for anything else, such as manifests.
///
/// # Errors
/// When it cannot be read, or has no object.
pub fn read(path: &Path, until: Option<Timestamp>) -> Result<Option<Vec<Manifest>>, IncidentError> {
    let objects = match path.is_dir() {
        true => dump::read(path)?,
        false => audit_log::read(path, until)?,
    };
    match objects {
        Some(objects) if objects.is_empty() => Err(IncidentError::Empty(path.to_owned())),
        objects => Ok(objects),
    }
}

/// Whether one of the paths is an audit log, for which alone a time means something.
///
/// # Errors
/// When a file cannot be read.
pub fn has_audit_log(paths: &[PathBuf]) -> Result<bool, IncidentError> {
    let files = paths.iter().filter(|path| path.is_file());
    let found: Result<Vec<bool>, _> = files.map(|path| audit_log::is_one(path)).collect();
    Ok(found?.contains(&true))
}

/// The text of the manifests at `path`: that of a file as it is; for a dump, an audit log, or a directory of manifests and all
/// that are in it, a List of the objects.
///
/// # Errors
/// When something cannot be read, or has no object.
pub(crate) fn text(path: &Path) -> Result<String, IncidentError> {
    let mut objects: Vec<Value> = Vec::new();
    if let Some(manifests) = read(path, None)? {
        objects.extend(manifests.into_iter().map(|manifest| manifest.object));
    } else if path.is_dir() {
        for file in Manifests::files(path)? {
            let manifests = Manifests::new().read(&file)?.into_iter();
            objects.extend(manifests.map(|manifest| manifest.object));
        }
    } else {
        return std::fs::read_to_string(path).map_err(IncidentError::read(path));
    }
    match objects.is_empty() {
        true => Err(IncidentError::Empty(path.to_owned())),
        false => Ok(json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()),
    }
}

fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let metadata = &object["metadata"];
    (
        group.to_owned(),
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
    )
}

/// The live objects of a dump, which may have several states of one.
#[derive(Default)]
struct Latest(BTreeMap<Key, (ResourceVersion, Manifest)>);

impl Latest {
    /// Takes an object unless a later state is known.
    fn take(&mut self, manifest: Manifest) {
        let rv = manifest.object["metadata"]["resourceVersion"].as_str();
        let Some(rv) = rv
            .and_then(|rv| rv.parse().ok())
            .filter(|_| manifest.is_live())
        else {
            return;
        };
        let known = self.0.get(&key(&manifest.object));
        if known.is_none_or(|(before, _)| *before < rv) {
            self.0.insert(key(&manifest.object), (rv, manifest));
        }
    }

    fn into_manifests(self) -> Vec<Manifest> {
        self.0.into_values().map(|(_, manifest)| manifest).collect()
    }
}
