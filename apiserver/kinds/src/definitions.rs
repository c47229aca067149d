//! The served contents of CustomResourceDefinitions, which the server keeps up to date.

mod hash;
mod served;

use std::sync::Arc;

use parking_lot::RwLock;

use crate::Passes;
use crate::catalog::{Catalog, ResourceInfo};
use crate::meta::GroupVersionKind;

pub use served::Served;

/// A kind that a CustomResourceDefinition declares, in one of its versions.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// Group, version and kind.
    pub gvk: GroupVersionKind,
    /// The kind of its lists.
    pub list_kind: String,
    /// The name of the resource in paths.
    pub plural: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Names of its subresources: `status`, `scale`.
    pub subresources: Vec<String>,
    /// `openAPIV3Schema` of the version in JSON, if it is structural.
    pub schema: Option<Arc<str>>,
    /// Whether the definition keeps unknown fields of all versions.
    pub preserve_unknown_fields: bool,
    /// JSON paths of `selectableFields`.
    pub selectable_fields: Vec<String>,
}

/// The custom resources that a server's definitions declare, updated with each write of a
/// definition.
///
/// The server's controllers of definitions run within the request that triggers them, so that the
/// client finds their work done.
#[derive(Debug)]
pub struct Definitions {
    served: RwLock<Arc<Served>>,
    /// The passes of the controllers of definitions.
    pub passes: Passes,
    /// The user agent of the server's own writes.
    pub user_agent: Arc<str>,
}

impl Definitions {
    /// Creates the state of a server without definitions, with these built-in resources.
    pub fn new(builtin: &Arc<Catalog>) -> Self {
        Self {
            served: RwLock::new(Arc::new(Served::builtin(builtin))),
            passes: Passes::default(),
            user_agent: Arc::from(""),
        }
    }

    /// Copies the state for a server that starts with the same definitions.
    pub fn forked(&self) -> Self {
        Self {
            served: RwLock::new(Arc::clone(&self.served.read())),
            passes: Passes::default(),
            user_agent: Arc::clone(&self.user_agent),
        }
    }

    /// The resources in discovery, the built-in ones included.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.served.read().catalog)
    }

    /// A custom resource that is served.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        self.served.read().resource(group, version, plural)
    }

    /// A custom resource in the version that it is stored in, by the name of its definition.
    pub fn stored_resource(&self, name: &str) -> Option<Arc<ResourceInfo>> {
        self.served.read().stored_resource(name)
    }

    /// Returns the resources served at present.
    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.read())
    }

    /// Replaces the served resources.
    pub fn serve(&self, served: Arc<Served>) {
        *self.served.write() = served;
    }
}

/// Returns the group in the name of a definition, which consists of plural and group. Reading all
/// definitions upon each write of one would double the time of the write.
pub fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}
