//! Leases.

pub(crate) mod lease;
