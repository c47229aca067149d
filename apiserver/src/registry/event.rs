//! Events of the core group.

use super::Strategy;

#[derive(Debug)]
pub(super) struct Event;

impl Strategy for Event {
    fn allows_create_on_update(&self) -> bool {
        true
    }
}
