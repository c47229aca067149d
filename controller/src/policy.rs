//! The controller of the group `policy`.

pub mod disruption;
