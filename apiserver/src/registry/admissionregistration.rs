//! Admission webhooks, policies and their bindings.

pub(crate) mod admission_policy;
pub(crate) mod webhook_configuration;
