//! CustomResourceDefinitions and the custom resources that they declare.

pub(crate) mod custom_resource;
pub(crate) mod custom_resource_definition;
pub(crate) mod definitions;
