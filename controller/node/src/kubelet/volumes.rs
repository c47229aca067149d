//! The volumes of pods, and the files that outlive a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeproof_runtime::store::{self, ObjectKey};
use parking_lot::Mutex;

use super::Kubelet;
use crate::container::Volume;
use crate::environment::{Materials, Missing};
use crate::small_map::{self, SmallMap};

/// The directory types of `hostPath` volumes. A file or a device of the machine is an empty directory instead.
const DIRECTORIES: [&str; 3] = ["", "Directory", "DirectoryOrCreate"];

/// The contents of persistent volumes, by uid of their claim.
type Claims = Arc<Mutex<BTreeMap<String, Volume>>>;

/// The files that outlive a pod.
#[derive(Default)]
pub(super) struct Volumes {
    /// Nodes of several kubelets share them.
    claims: Claims,
    /// The file systems of the nodes, which `hostPath` volumes are directories of. Every directory exists.
    hosts: BTreeMap<usize, Volume>,
}

impl Volumes {
    /// The files for other nodes, with the same persistent volumes.
    pub(super) fn for_others(&self) -> Self {
        Self {
            claims: Arc::clone(&self.claims),
            hosts: BTreeMap::new(),
        }
    }

    fn of_claim(&self, uid: String) -> Volume {
        self.claims.lock().entry(uid).or_default().clone()
    }

    fn of_host(&mut self, node: usize, path: &str) -> Volume {
        self.hosts.entry(node).or_default().below(path)
    }

    /// Drops the contents of a claim's volume.
    pub(super) fn forget_claim(&self, uid: &str) {
        self.claims.lock().remove(uid);
    }
}

impl Kubelet {
    /// Adds the volumes of a pod on a node that are missing in `volumes`.
    pub(super) fn mount(
        &mut self,
        materials: &Materials<'_>,
        (node, namespace): (usize, &str),
        volumes: &mut SmallMap<Volume>,
    ) -> Result<(), Missing> {
        let Some(spec) = &materials.pod.spec else {
            return Ok(());
        };
        for volume in spec.volumes.iter().flatten() {
            if volumes.contains_key(volume.name.as_str()) {
                continue;
            }
            let claim = volume.persistent_volume_claim.as_ref().and_then(|source| {
                self.claims.get(&ObjectKey {
                    namespace: namespace.to_owned(),
                    name: source.claim_name.clone(),
                })
            });
            let directory = volume.host_path.as_ref().filter(|own| {
                let type_ = own.type_.as_deref().unwrap_or_default();
                DIRECTORIES.contains(&type_)
            });
            let made = match (claim, directory) {
                (Some(claim), _) => self.processes.volumes.of_claim(store::uid(&**claim)),
                (None, Some(directory)) => self.processes.volumes.of_host(node, &directory.path),
                (None, None) => materials
                    .projected(volume)
                    .map_err(|cause| Missing::Volume {
                        volume: volume.name.clone(),
                        cause: Box::new(cause),
                    })?,
            };
            small_map::insert(volumes, &volume.name, made);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::FileSystem;

    #[test]
    fn kubelets_share_what_a_claim_holds_and_not_what_a_node_holds() {
        let mut one = Volumes::default();
        let mut other = one.for_others();
        let mounted = |volume: Volume| FileSystem::new(vec![("/here".to_owned(), volume)]);
        let write = |volume: Volume| mounted(volume).write("/here/file", b"text", false).unwrap();
        let has = |volume: Volume| mounted(volume).exists("/here/file");
        write(one.of_claim("uid".to_owned()));
        write(one.of_host(1, "/data"));
        assert!(has(other.of_claim("uid".to_owned())));
        assert!(!has(other.of_claim("another".to_owned())));
        assert!(has(one.of_host(1, "/data")));
        assert!(!has(one.of_host(2, "/data")));
        assert!(!has(other.of_host(1, "/data")));
        other.forget_claim("uid");
        assert!(!has(one.of_claim("uid".to_owned())));
    }
}
