//! The served contents of CustomResourceDefinitions, which the server keeps up to date.

mod hash;
mod served;

use std::sync::Arc;

use parking_lot::RwLock;

use crate::Passes;
use crate::catalog::{Catalog, ResourceInfo};
use crate::meta::GroupVersionKind;
use crate::metrics;

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

/// The metrics that have values.
#[derive(Debug, Default)]
struct Metrics {
    listed: Vec<Arc<ResourceInfo>>,
    /// The catalog with these metrics, and the one that it was made of.
    catalog: Option<(Arc<Catalog>, Arc<Catalog>)>,
}

/// The custom resources that a server's definitions declare, updated with each write of a
/// definition.
///
/// The server's controllers of definitions run within the request that triggers them, so that the
/// client finds their work done.
#[derive(Debug)]
pub struct Definitions {
    served: RwLock<Arc<Served>>,
    /// The metrics that have values, as discovery lists them.
    metrics: RwLock<Arc<Metrics>>,
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
            metrics: RwLock::default(),
            passes: Passes::default(),
            user_agent: Arc::from(""),
        }
    }

    /// Copies the state for a server that starts with the same definitions.
    pub fn forked(&self) -> Self {
        Self {
            served: RwLock::new(Arc::clone(&self.served.read())),
            metrics: RwLock::new(Arc::clone(&self.metrics.read())),
            passes: Passes::default(),
            user_agent: Arc::clone(&self.user_agent),
        }
    }

    /// The resources in discovery, the built-in ones included.
    pub fn catalog(&self) -> Arc<Catalog> {
        let own = Arc::clone(&self.served.read().catalog);
        let metrics = Arc::clone(&self.metrics.read());
        if metrics.listed.is_empty() {
            return own;
        }
        if let Some((of, with)) = &metrics.catalog
            && Arc::ptr_eq(of, &own)
        {
            return Arc::clone(with);
        }
        let with = Arc::new(own.with_metrics(&metrics.listed));
        let mut present = self.metrics.write();
        // Another list may have come meanwhile.
        if Arc::ptr_eq(&present, &metrics) {
            *present = Arc::new(Metrics {
                listed: metrics.listed.clone(),
                catalog: Some((own, Arc::clone(&with))),
            });
        }
        with
    }

    /// Replaces the metrics in discovery, on a server that has their groups. `listed` is asked under the lock, so that
    /// of two calls the later one's list stays.
    pub fn list_metrics(&self, listed: impl FnOnce() -> Vec<Arc<ResourceInfo>>) {
        let mut present = self.metrics.write();
        *present = Arc::new(Metrics {
            listed: listed(),
            catalog: None,
        });
    }

    /// A custom resource that is served, or the one that answers for all metrics of a group. A client that has seen the
    /// condition Established finds it: if it is not served yet, the controllers of definitions are waited for.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        let found = self.resource_now(group, version, plural);
        found.or_else(|| {
            self.passes.wait();
            self.resource_now(group, version, plural)
        })
    }

    fn resource_now(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        let served = self.served.read();
        let has_group = || served.catalog.group(group).is_some();
        let metric = metrics::values_of(group, version).filter(|_| has_group());
        metric.or_else(|| served.resource(group, version, plural))
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
