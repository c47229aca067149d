//! The rules of each kind of Kubernetes v1.36, by API group, as `pkg/registry` and `pkg/apis` have them upstream:
//! defaults, validation, warnings, status, columns of tables, and what differs from the generic store.
//!
//! Facts about kinds (names, verbs, columns, subresources) are data in [`catalog`]; behavior is a [`Strategy`] in the
//! kind's own file, below the folder of its group. [`catalog`] also holds the kinds of CustomResourceDefinitions, whose
//! rules are in [`apiextensions`]; [`definitions`] keeps what is served of them.

use kubeproof_cel as cel;
use kubeproof_machinery::{clock, json, meta, nesting, request, schema, status, x509};

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
mod authentication;
mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod bootstrap;
pub mod catalog;
pub mod certificates;
pub mod columns;
pub mod condition;
pub(crate) mod coordination;
pub mod core;
pub mod definitions;
pub mod discovery;
mod events;
pub mod flowcontrol;
mod go_struct;
pub mod json_path;
pub mod metrics;
mod net;
pub mod networking;
pub mod node;
mod passes;
pub mod policy;
pub mod rbac;
pub mod resource;
pub mod rest;
pub mod scheduling;
pub mod storage;
mod strategy;
pub mod unstructured;
pub mod validation;

pub use passes::Passes;
pub use strategy::{
    Context, Generic, MetadataCheck, ResetFields, SelectableField, Strategy, Virtual,
};

/// An API group that is built in.
#[derive(Debug)]
pub struct ApiGroup {
    /// The name; `""` for the core group.
    pub name: &'static str,
    /// The strategy of each resource, by plural.
    pub strategies: &'static [(&'static str, &'static dyn Strategy)],
}

/// The data of a group that `cargo xtask import` does not write.
#[derive(Debug)]
pub struct GroupSource {
    /// The entry of `groups` in `resources.json`.
    pub resources: &'static str,
    /// The Go types in the format of `builtin.txt`.
    pub types: &'static str,
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
