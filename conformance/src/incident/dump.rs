//! Directories with the objects of a cluster, next to its logs: of `kubectl cluster-info dump --output-directory`, and of
//! must-gather, that is of `oc adm inspect`.

use std::path::{Path, PathBuf};

use kubeproof_apiserver::{Manifest, Manifests};
use kubeproof_machinery::json::Value;

use super::{IncidentError, Latest};

/// The file with the nodes at the root of a dump, by the format of its output.
const NODES: [&str; 2] = ["nodes.json", "nodes.yaml"];
/// The directories of must-gather that have objects.
const PARTS: [&str; 2] = ["cluster-scoped-resources", "namespaces"];
/// The depth of these directories: below one of the run, and below one of the image.
const DEPTH: usize = 3;

/// Reads the live objects below `root`; `None` if that is no such directory. Other files are left alone.
pub(super) fn read(root: &Path) -> Result<Option<Vec<Manifest>>, IncidentError> {
    let roots = match NODES.iter().any(|name| is_list_of_nodes(&root.join(name))) {
        true => vec![root.to_owned()],
        false => parts(root, DEPTH)?,
    };
    if roots.is_empty() {
        return Ok(None);
    }
    let mut latest = Latest::default();
    for root in roots {
        for file in Manifests::files(&root)? {
            // A pod's own files may have any of these endings.
            let Ok(manifests) = Manifests::new().read(&file) else {
                continue;
            };
            manifests.into_iter().for_each(|one| latest.take(one));
        }
    }
    Ok(Some(latest.into_manifests()))
}

fn is_list_of_nodes(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let list: Result<Value, _> = serde_saphyr::from_str(&text);
    list.is_ok_and(|list| list["kind"] == "NodeList" || list["kind"] == "List")
}

/// The directories with objects, at most `depth` levels below `root`.
fn parts(root: &Path, depth: usize) -> Result<Vec<PathBuf>, IncidentError> {
    let own = PARTS.map(|name| root.join(name)).into_iter();
    let own: Vec<PathBuf> = own.filter(|path| path.is_dir()).collect();
    if !own.is_empty() || depth == 0 {
        return Ok(own);
    }
    let cannot = IncidentError::read(root);
    let mut below = Vec::new();
    for entry in std::fs::read_dir(root).map_err(&cannot)? {
        below.push(entry.map_err(&cannot)?.path());
    }
    below.sort();
    let mut found = Vec::new();
    for path in below.iter().filter(|path| path.is_dir()) {
        found.extend(parts(path, depth - 1)?);
    }
    Ok(found)
}
