//! Dynamic allocation of devices.

pub(crate) mod device_class;
pub(crate) mod devices;
pub(crate) mod resource_claim;
pub(crate) mod resource_slice;
