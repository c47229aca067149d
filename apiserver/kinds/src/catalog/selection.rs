//! A part of the catalog, for servers that do not serve all built-in resources.

use super::Catalog;
use crate::meta::GroupVersionResource;

impl Catalog {
    /// Returns the catalog with those resources alone that `is_served` names.
    #[must_use]
    pub fn only(&self, is_served: impl Fn(&GroupVersionResource) -> bool) -> Self {
        let mut catalog = self.clone();
        for group in &mut catalog.groups {
            for version in &mut group.versions {
                version.resources.retain(|info| is_served(info.gvr()));
            }
            group.versions.retain(|own| !own.resources.is_empty());
        }
        catalog.groups.retain(|own| !own.versions.is_empty());
        catalog
    }
}
