//! Accessors of claims and storage classes, for those who bind volumes and those who place their pods.

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::{Selector, SelectorExt};
use serde_json::{Value, json};

use crate::pod_resources::amount;

/// The annotation by which the scheduler says where a claim's volume is to be.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a claim whose binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a volume or claim that a controller bound, and not a user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

const STORAGE: &str = "storage";
const FILESYSTEM: &str = "Filesystem";

/// The name of the storage class of a claim.
pub fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let name = claim.spec.as_ref()?.storage_class_name.as_deref()?;
    (!name.is_empty()).then_some(name)
}

/// Whether volumes of the class are made for pods that have a node.
pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Whether a volume satisfies `claim`, whichever party chose it.
pub fn suits(volume: &PersistentVolumeSpec, claim: &PersistentVolumeClaimSpec) -> bool {
    let mut wanted_modes = claim.access_modes.iter().flatten();
    let offered_modes = volume.access_modes.as_deref().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    holds(volume, claim)
        && wanted_modes.all(|mode| offered_modes.contains(mode))
        && text(&volume.storage_class_name) == text(&claim.storage_class_name)
}

/// Whether the volume has the size, the mode and the attributes that the claim asks for.
pub fn holds(volume: &PersistentVolumeSpec, claim: &PersistentVolumeClaimSpec) -> bool {
    let (offered, wanted) = (volume.volume_mode.as_deref(), claim.volume_mode.as_deref());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    capacity(volume) >= requested(claim)
        && offered.unwrap_or(FILESYSTEM) == wanted.unwrap_or(FILESYSTEM)
        && text(&volume.volume_attributes_class_name) == text(&claim.volume_attributes_class_name)
}

/// Whether the claim's selector, if any, selects the volume.
pub fn is_selected(volume: &PersistentVolume, claim: &PersistentVolumeClaimSpec) -> bool {
    let Some(selector) = claim.selector.clone() else {
        return true;
    };
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    Selector::try_from(selector).is_ok_and(|selector| selector.matches(&labels))
}

/// Returns the bytes that a claim requests.
pub fn requested(claim: &PersistentVolumeClaimSpec) -> i128 {
    let requests = claim.resources.as_ref();
    let requests = requests.and_then(|resources| resources.requests.as_ref());
    let requested = requests.and_then(|requests| requests.get(STORAGE));
    requested.map_or(0, |quantity| amount(STORAGE, quantity))
}

/// Returns the bytes of a volume.
pub fn capacity(volume: &PersistentVolumeSpec) -> i128 {
    let quantity = volume.capacity.as_ref().and_then(|it| it.get(STORAGE));
    quantity.map_or(0, |quantity| amount(STORAGE, quantity))
}

/// The reference a volume keeps to its claim.
#[must_use]
pub fn claim_reference(claim: &PersistentVolumeClaim) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    })
}
