//! Writes to several tables at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Table, Transaction};
use crate::Storage;
use crate::meta::ResourceVersion;

/// A write among others that happen at once.
#[derive(Debug)]
pub struct Joint<'a> {
    /// The table that is written.
    pub table: &'a Table,
    /// The version that the write takes, unless that is past.
    pub rv: Option<ResourceVersion>,
    /// The write.
    pub transaction: Transaction<'a>,
}

impl<'a> Joint<'a> {
    /// The resource, in whose order tables are locked.
    fn resource(&self) -> (&'a str, &'a str) {
        (&self.table.gvr.group, &self.table.gvr.resource)
    }
}

impl Storage {
    /// Applies `writes` in their order, or none of them. Nobody sees a part of them, and watchers are woken when all are
    /// done. Of several writes of one object, the first one says what is expected.
    ///
    /// # Errors
    /// The writes, with the index of the first whose object is not as expected.
    pub fn commit_together<'a>(
        &self,
        writes: Vec<Joint<'a>>,
    ) -> Result<(), (usize, Vec<Joint<'a>>)> {
        let tables: BTreeMap<_, &Table> = writes
            .iter()
            .map(|write| (write.resource(), write.table))
            .collect();
        let mut locked: Vec<_> = tables.values().map(|table| table.state.write()).collect();
        let places: BTreeMap<_, usize> = tables.keys().copied().zip(0..).collect();
        let places: Vec<usize> = writes
            .iter()
            .map(|write| places[&write.resource()])
            .collect();
        let mut known = BTreeSet::new();
        let refused = writes.iter().zip(&places).position(|(write, place)| {
            let key = write.transaction.key;
            let current = locked[*place].objects.get(key);
            known.insert((*place, key)) && !write.transaction.expects(current)
        });
        if let Some(index) = refused {
            drop(locked);
            return Err((index, writes));
        }
        let mut done = Vec::with_capacity(writes.len());
        for (write, place) in writes.into_iter().zip(places) {
            if let Some(rv) = write.rv {
                self.advance_to(rv);
            }
            let state = &mut locked[place];
            let current = state.objects.get(write.transaction.key).map(Arc::clone);
            let mut written = write.table.write(state, write.transaction, current);
            // There may be many, and few are read soon.
            written.evict();
            done.push((write.table, written));
        }
        drop(locked);
        for (table, written) in done {
            table.announce(written);
        }
        Ok(())
    }
}
