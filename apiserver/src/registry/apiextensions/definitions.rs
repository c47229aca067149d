//! The contents of CustomResourceDefinitions, which `apiextensions` keeps up to date.

mod hash;
mod served;

use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use crate::meta::GroupVersionKind;
use crate::registry::Passes;
use crate::registry::catalog::{Catalog, ResourceInfo};
use crate::storage::ResourceVersion;

pub(crate) use served::Served;

/// A CustomResourceDefinition in storage.
pub(crate) trait StoredDefinition {
    /// The name, which consists of plural and group.
    fn name(&self) -> &str;

    /// The version of the object.
    fn resource_version(&self) -> ResourceVersion;

    /// The whole object.
    fn object(&self) -> Arc<Value>;
}

/// A kind that a CustomResourceDefinition declares, in one of its versions.
#[derive(Clone, Debug)]
pub(crate) struct CustomKind {
    /// Group, version and kind.
    pub(crate) gvk: GroupVersionKind,
    /// The kind of its lists.
    pub(crate) list_kind: String,
    /// The name of the resource in paths.
    pub(crate) plural: String,
    /// Whether objects live in a namespace.
    pub(crate) namespaced: bool,
    /// Names of its subresources: `status`, `scale`.
    pub(crate) subresources: Vec<String>,
    /// `openAPIV3Schema` of the version in JSON, if it is structural.
    pub(crate) schema: Option<Arc<str>>,
    /// Whether the definition keeps unknown fields of all versions.
    pub(crate) preserve_unknown_fields: bool,
    /// JSON paths of `selectableFields`.
    pub(crate) selectable_fields: Vec<String>,
}

/// The custom resources that a server's definitions declare, updated with each write of a
/// definition.
///
/// The server's controllers of definitions run within the request that triggers them, so that the
/// client finds their work done.
#[derive(Debug)]
pub(crate) struct Definitions {
    served: RwLock<Arc<Served>>,
    /// The passes of the controllers of definitions.
    pub(crate) passes: Passes,
    pub(crate) user_agent: Arc<str>,
}

impl Definitions {
    /// Creates the state of a server without definitions, with these built-in resources.
    pub(crate) fn new(builtin: &Arc<Catalog>) -> Self {
        Self {
            served: RwLock::new(Arc::new(Served::builtin(builtin))),
            passes: Passes::default(),
            user_agent: Arc::from(""),
        }
    }

    /// Copies the state for a server that starts with the same definitions.
    pub(crate) fn forked(&self) -> Self {
        Self {
            served: RwLock::new(Arc::clone(&self.served.read())),
            passes: Passes::default(),
            user_agent: Arc::clone(&self.user_agent),
        }
    }

    /// The resources in discovery, the built-in ones included.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.served.read().catalog)
    }

    /// A custom resource that is served.
    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<ResourceInfo>> {
        self.served.read().resource(group, version, plural)
    }

    /// A custom resource in the version that it is stored in, by the name of its definition.
    pub(crate) fn stored_resource(&self, name: &str) -> Option<Arc<ResourceInfo>> {
        self.served.read().stored_resource(name)
    }

    /// Returns the resources served at present.
    pub(crate) fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.read())
    }

    /// Replaces the served resources.
    pub(crate) fn serve(&self, served: Arc<Served>) {
        *self.served.write() = served;
    }
}

/// Returns the group in the name of a definition, which consists of plural and group. Reading all
/// definitions upon each write of one would double the time of the write.
pub(crate) fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}
