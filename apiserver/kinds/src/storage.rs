//! Storage classes, and volumes as CSI drivers see them.

pub(crate) mod csi_driver;
pub(crate) mod csi_node;
pub(crate) mod csi_storage_capacity;
pub(crate) mod storage_class;
pub(crate) mod volume_attachment;
pub(crate) mod volume_attributes_class;

use super::ApiGroup;

/// The strategies of `storage.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "storage.k8s.io",
    strategies: &[
        ("csidrivers", &csi_driver::CsiDriver),
        ("csinodes", &csi_node::CsiNode),
        (
            "csistoragecapacities",
            &csi_storage_capacity::CsiStorageCapacity,
        ),
        ("storageclasses", &storage_class::StorageClass),
        ("volumeattachments", &volume_attachment::VolumeAttachment),
        (
            "volumeattributesclasses",
            &volume_attributes_class::VolumeAttributesClass,
        ),
    ],
};
