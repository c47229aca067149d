//! Definitions of custom resources in files.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use kubeproof::scenario::read_objects;
use kubeproof_apiserver::Manifests;
use kubeproof_machinery::json::Value;

/// Reads the definitions in the file, or in the files of the directory, at `path`, each with its file. Other objects are
/// left out.
///
/// # Errors
/// When a file cannot be read, and when there is no definition.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<(PathBuf, Value)>> {
    let mut found = Vec::new();
    for file in Manifests::files(path)? {
        let objects = read_objects(&file).map_err(anyhow::Error::msg)?;
        let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
        let definitions = objects.into_iter().filter(is_definition);
        found.extend(definitions.map(|definition| (file.clone(), definition)));
    }
    ensure!(
        !found.is_empty(),
        "there is no CustomResourceDefinition in {}",
        path.display()
    );
    Ok(found)
}
