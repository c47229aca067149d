//! Accessors of claims and storage classes, for those who bind volumes and those who place their pods.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;

/// The annotation by which the scheduler says where a claim's volume is to be.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The name of the storage class of a claim.
pub fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let name = claim.spec.as_ref()?.storage_class_name.as_deref()?;
    (!name.is_empty()).then_some(name)
}

/// Whether volumes of the class are made for pods that have a node.
pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}
