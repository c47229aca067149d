//! Rules of each kind.
//!
//! Facts about kinds (names, columns, subresources) are data in `catalog`; behavior is a
//! [`Strategy`] in the kind's own file.

pub(crate) mod admissionregistration;
pub(crate) mod apiextensions;
pub(crate) mod apiregistration;
pub(crate) mod apps;
mod authentication;
mod authorization;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod bootstrap;
pub(crate) mod catalog;
pub(crate) mod certificates;
pub(crate) mod columns;
mod condition;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod discovery;
mod events;
pub(crate) mod flowcontrol;
mod go_struct;
pub(crate) mod json_path;
mod net;
pub(crate) mod networking;
pub(crate) mod node;
mod passes;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod resource;
pub(crate) mod scheduling;
pub(crate) mod storage;
mod strategy;
#[cfg(test)]
mod tests;
pub(crate) mod unstructured;
pub(crate) mod validation;

pub(crate) use passes::Passes;
pub(crate) use strategy::{
    Context, Generic, MetadataCheck, ResetFields, Siblings, Strategy, Virtual,
};

/// An API group that is built in.
#[derive(Debug)]
pub(crate) struct ApiGroup {
    /// The name; `""` for the core group.
    name: &'static str,
    /// The strategy of each resource, by plural.
    strategies: &'static [(&'static str, &'static dyn Strategy)],
}

/// The data of a group that `cargo xtask import` does not write.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct GroupSource {
    /// The entry of `groups` in `resources.json`.
    pub(crate) resources: &'static str,
    /// The Go types in the format of `builtin.txt`.
    pub(crate) types: &'static str,
}

/// The groups in the order of discovery.
const GROUPS: &[ApiGroup] = &[
    core::GROUP,
    apiregistration::GROUP,
    apps::GROUP,
    events::GROUP,
    authentication::GROUP,
    authorization::GROUP,
    autoscaling::GROUP,
    batch::GROUP,
    certificates::GROUP,
    networking::GROUP,
    policy::GROUP,
    rbac::GROUP,
    storage::GROUP,
    admissionregistration::GROUP,
    apiextensions::GROUP,
    scheduling::GROUP,
    coordination::GROUP,
    node::GROUP,
    discovery::GROUP,
    resource::GROUP,
    flowcontrol::GROUP,
];

impl ApiGroup {
    /// The strategy of the resource named `plural`.
    ///
    /// # Panics
    /// When the group has none for it.
    fn strategy(&self, plural: &str) -> &'static dyn Strategy {
        let found = self.strategies.iter().find(|(own, _)| *own == plural);
        let (_, strategy) =
            found.unwrap_or_else(|| panic!("{plural} of {:?} have no strategy", self.name));
        *strategy
    }
}

/// The built-in group named `name`.
///
/// # Panics
/// When the group does not exist.
fn api_group(name: &str) -> &'static ApiGroup {
    let found = GROUPS.iter().find(|group| group.name == name);
    found.unwrap_or_else(|| panic!("{name:?} is no built-in group"))
}
