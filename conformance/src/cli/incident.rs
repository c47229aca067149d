//! The state of another cluster, from what its operators keep of an incident.
//!
//! - `dump`: directories of `kubectl cluster-info dump` and of must-gather
//! - `audit_log`: logs of audit.k8s.io with bodies
//!
//! What `kubectl get --output yaml` prints is a file of manifests like any other, with live objects in it.

mod audit_log;
mod dump;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use jiff::Timestamp;
use kubeproof_apiserver::Manifest;
use kubeproof_apiserver::meta::ResourceVersion;
use serde_json::Value;

/// Group, kind, namespace and name.
type Key = (String, String, String, String);

/// Reads a dump or an audit log, with the last state of each object. `until` is the time at which an audit log ends.
/// `None` for anything else, such as manifests.
///
/// # Errors
/// When it cannot be read, or has no object.
pub(super) fn read(path: &Path, until: Option<Timestamp>) -> anyhow::Result<Option<Vec<Manifest>>> {
    let objects = match path.is_dir() {
        true => dump::read(path)?,
        false => audit_log::read(path, until)?,
    };
    if let Some(objects) = &objects {
        ensure!(
            !objects.is_empty(),
            "{}: there is no object with a uid and a resourceVersion in it",
            path.display()
        );
    }
    Ok(objects)
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
