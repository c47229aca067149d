//! Priority and fairness of requests.

pub(crate) mod flow_schema;
pub(crate) mod priority_level_configuration;
