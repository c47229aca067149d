//! Metrics as discovery lists them.

use std::sync::Arc;

use super::{Catalog, ResourceInfo, default_field_label_error, default_field_labels};
use crate::Strategy;
use crate::meta::{GroupVersionKind, GroupVersionResource};

impl ResourceInfo {
    /// A metric: `name` is that of discovery, such as `pods/requests`.
    pub(crate) fn of_metric(
        gvk: GroupVersionKind,
        name: String,
        namespaced: bool,
        strategy: &'static dyn Strategy,
    ) -> Self {
        Self {
            gvr: GroupVersionResource {
                group: gvk.group.clone(),
                version: gvk.version.clone(),
                resource: name,
            },
            gvk,
            singular: String::new(),
            namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: vec!["get".to_owned()],
            storage_version_hash: None,
            warning: None,
            subresources: Vec::new(),
            columns: Vec::new(),
            field_labels: default_field_labels(),
            custom: None,
            builtin: strategy,
            field_label_error: default_field_label_error(),
        }
    }
}

impl Catalog {
    /// Returns the catalog with `metrics` in their groups, which it has.
    #[must_use]
    pub fn with_metrics(&self, metrics: &[Arc<ResourceInfo>]) -> Self {
        let mut catalog = self.clone();
        for metric in metrics {
            let version = catalog.version_mut(&metric.gvk.group_version());
            version.resources.push(Arc::clone(metric));
        }
        catalog
    }
}
