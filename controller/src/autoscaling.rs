//! The controller of the group `autoscaling`.

pub mod horizontal;
