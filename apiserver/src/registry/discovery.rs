//! EndpointSlices.

pub(crate) mod endpoint_slice;
