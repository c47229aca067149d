//! The name of a device.

use std::fmt;

/// A device of a pool of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceId<'a> {
    pub(super) driver: &'a str,
    pub(super) pool: &'a str,
    pub(super) device: &'a str,
}

impl fmt::Display for DeviceId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}
