//! Custom resources: what a definition declares in one of its versions, and how its objects behave.

mod typed;
mod versions;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::Strategy;
use crate::meta::GroupVersionKind;
use crate::schema::Object;
use crate::schema::structural::Structural;

pub(crate) use versions::Versions;

/// One version of a custom resource.
#[derive(Debug)]
pub(crate) struct CustomResource {
    /// Group, version and kind.
    pub(crate) gvk: GroupVersionKind,
    /// The kind of lists.
    pub(crate) list_kind: String,
    /// Whether the definition is being deleted.
    pub(crate) terminating: bool,
    /// The schemas of this and the other versions.
    pub(crate) versions: Arc<Versions>,
}

impl CustomResource {
    /// The schema of the version.
    pub(crate) fn schema(&self) -> &Structural {
        self.versions.schema(&self.gvk.version).structural()
    }

    /// The schema as field management sees it.
    pub(crate) fn typed(&self) -> &Arc<Object> {
        self.versions.schema(&self.gvk.version).typed()
    }

    /// A stored object as requests for this version see it.
    pub(crate) fn shown<'a>(&self, stored: &'a Value) -> Cow<'a, Value> {
        self.versions.shown(&self.gvk.version, stored)
    }
}

impl Strategy for CustomResource {
    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
