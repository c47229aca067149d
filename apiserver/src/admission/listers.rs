//! The tables that plugins read.

use std::sync::{Arc, OnceLock};

use crate::meta::GroupVersionResource;
use crate::storage::{Storage, Table};

/// The tables that plugins read, cached because every write may read them.
#[derive(Debug, Default)]
pub(crate) struct Listers {
    namespaces: OnceLock<Arc<Table>>,
    limit_ranges: OnceLock<Arc<Table>>,
    quotas: OnceLock<Arc<Table>>,
    pods: OnceLock<Arc<Table>>,
}

impl Listers {
    pub(super) fn namespaces(&self, storage: &Storage) -> &Table {
        open(&self.namespaces, "namespaces", storage)
    }

    pub(super) fn limit_ranges(&self, storage: &Storage) -> &Table {
        open(&self.limit_ranges, "limitranges", storage)
    }

    pub(super) fn quotas(&self, storage: &Storage) -> &Table {
        open(&self.quotas, "resourcequotas", storage)
    }

    pub(super) fn pods(&self, storage: &Storage) -> &Table {
        open(&self.pods, "pods", storage)
    }
}

fn open<'t>(held: &'t OnceLock<Arc<Table>>, plural: &str, storage: &Storage) -> &'t Table {
    held.get_or_init(|| {
        storage.table(&GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: plural.to_owned(),
        })
    })
}
