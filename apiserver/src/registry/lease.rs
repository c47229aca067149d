//! Leases.

use super::Strategy;

#[derive(Debug)]
pub(super) struct Lease;

impl Strategy for Lease {
    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
