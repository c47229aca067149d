//! How many volumes of a CSI driver a node can have: the plugin NodeVolumeLimits.
//!
//! Volumes that Kubernetes once had a driver of its own for, such as disks of AWS, are not counted
//! as those of the CSI driver that has replaced it.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kubeproof_runtime::pod::{Pod, claims};
use kubeproof_runtime::volume::class_of;

use super::{Misfit, NodeInfo, Reason, Storage, cluster_key, name, volume_name};

/// The drivers of volumes, by the names of the volumes.
type Volumes = BTreeMap<String, String>;

/// Returns why the node cannot have the pod's volumes in addition to those that it has.
pub(super) fn misfit(pod: &Pod, storage: &Storage, node: &NodeInfo<'_>) -> Option<Misfit> {
    let mut wanted = match volumes_of(pod, storage) {
        Ok(wanted) => wanted,
        Err(missing) => return Some(Misfit::lasting(Reason::NoClaim(missing))),
    };
    if wanted.is_empty() {
        return None;
    }
    let csi_node = storage.csi_nodes.get(&cluster_key(name(node)))?;
    let drivers = csi_node.spec.drivers.iter();
    let limits: BTreeMap<&str, i32> = drivers
        .filter_map(|driver| Some((&*driver.name, driver.allocatable.as_ref()?.count?)))
        .collect();
    if limits.is_empty() {
        return None;
    }
    let mut taken = attached(storage, name(node));
    for other in &node.load.pods {
        // A claim that is gone counts for nothing, but the other claims of its pod do.
        taken.extend(known_volumes_of(other, storage));
    }
    wanted.retain(|volume, _| !taken.contains_key(volume));
    let count = |volumes: &Volumes, driver: &str| {
        let own = volumes.values().filter(|own| *own == driver).count();
        i64::try_from(own).unwrap_or(i64::MAX)
    };
    let exceeded = limits.into_iter().any(|(driver, limit)| {
        let new = count(&wanted, driver);
        new > 0 && count(&taken, driver) + new > i64::from(limit)
    });
    exceeded.then(|| Misfit::passing(Reason::VolumeCount))
}

/// Returns the volumes of CSI drivers that a pod uses.
///
/// # Errors
///
/// The message about a claim that does not exist.
fn volumes_of(pod: &Pod, storage: &Storage) -> Result<Volumes, String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for used in claims(pod) {
        let known = storage.claims.get(&kubeproof_runtime::store::ObjectKey {
            namespace: namespace.to_owned(),
            name: used.name.to_string(),
        });
        if known.is_none() {
            let name = &used.name;
            return Err(format!(
                "looking up PVC {namespace}/{name}: persistentvolumeclaim {name:?} not found"
            ));
        }
    }
    Ok(known_volumes_of(pod, storage))
}

fn known_volumes_of(pod: &Pod, storage: &Storage) -> Volumes {
    let volumes = claims(pod).filter_map(|used| {
        let claim = storage.claim(pod, &used).ok()?;
        let volume = storage.volumes.get(&cluster_key(volume_name(claim)));
        if let Some(volume) = volume {
            let source = volume.spec.as_ref()?.csi.as_ref()?;
            return Some((
                unique(&source.driver, &source.volume_handle),
                source.driver.clone(),
            ));
        }
        // The volume is yet to be provisioned, by the driver of the class.
        let class = storage.classes.get(&cluster_key(class_of(claim)?))?;
        let driver = class.provisioner.clone();
        let namespace = claim.namespace().unwrap_or_default();
        let handle = format!("claim {namespace}/{}", claim.name_any());
        Some((unique(&driver, &handle), driver))
    });
    volumes.collect()
}

/// Returns the volumes that are attached to the node, whether or not a pod there uses them.
fn attached(storage: &Storage, node: &str) -> Volumes {
    let attachments = storage.attachments.iter().map(|own| &own.spec);
    let here = attachments.filter(|own| own.node_name == node && !own.attacher.is_empty());
    let volumes = here.filter_map(|own| {
        let volume = own.source.persistent_volume_name.as_ref()?;
        let volume = storage.volumes.get(&cluster_key(volume))?;
        let source = volume.spec.as_ref()?.csi.as_ref()?;
        Some((
            unique(&own.attacher, &source.volume_handle),
            own.attacher.clone(),
        ))
    });
    volumes.collect()
}

fn unique(driver: &str, handle: &str) -> String {
    format!("{driver}/{handle}")
}
