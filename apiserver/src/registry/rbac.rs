//! Roles and their bindings.

pub(crate) mod role;
pub(crate) mod role_binding;
