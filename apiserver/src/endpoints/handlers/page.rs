//! One page of a collection.

use std::sync::Arc;

use crate::meta::ResourceVersion;
use crate::storage::StoredObject;

/// One page of a collection.
pub(super) struct Page {
    pub(super) objects: Vec<Arc<StoredObject>>,
    pub(super) rv: ResourceVersion,
    /// The continue token of the next page.
    pub(super) next: Option<String>,
    /// The number of objects after this page, if it is known.
    pub(super) remaining: Option<usize>,
}
