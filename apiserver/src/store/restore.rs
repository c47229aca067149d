//! Objects of another cluster, stored as they were there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Store;
use crate::json::Value;
use crate::meta::ResourceVersion;
use crate::meta::object::meta_mut;
use crate::status::ApiError;
use crate::storage::{Change, Joint, ObjectKey, StoredObject, Table, Transaction};

/// An object that is to be stored as it was in its cluster.
pub(crate) struct Restoring<'a> {
    store: Store<'a>,
    table: Arc<Table>,
    key: ObjectKey,
    /// The object in its stored form, without a version.
    object: Value,
    /// The version that it gets unless that is past.
    rv: Option<ResourceVersion>,
    /// Whether it replaces an object of its name.
    replaces: bool,
}

impl<'a> Store<'a> {
    /// Prepares `object` for [`restore_all`], with its metadata and status; nothing is defaulted, admitted or validated. It
    /// gets the version `rv` unless that is past, and may replace an object of its name.
    ///
    /// # Errors
    /// When it cannot be converted to the stored version.
    pub(crate) async fn restoring(
        self,
        object: Value,
        rv: Option<ResourceVersion>,
        replaces: bool,
    ) -> Result<Restoring<'a>, ApiError> {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let (namespace, name) = (text("namespace"), text("name"));
        let key = self.key(namespace.as_deref(), &name.unwrap_or_default());
        let mut object = self.stored_form(object).await?;
        meta_mut(&mut object).remove("resourceVersion");
        Ok(Restoring {
            store: self,
            table: self.table(),
            key,
            object,
            rv,
            replaces,
        })
    }
}

impl Restoring<'_> {
    /// The object that has its name now.
    pub(crate) fn present(&self) -> Option<Arc<StoredObject>> {
        self.table.get(&self.key)
    }

    /// The object in its stored form, without a version.
    pub(crate) fn object(&self) -> &Value {
        &self.object
    }

    /// The error of a creation whose name is taken.
    pub(crate) fn already_exists(&self) -> ApiError {
        ApiError::AlreadyExists {
            resource: self.store.resource.gvr().group_resource(),
            name: self.object["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        }
    }

    /// The writes that store it. Watches are to see that an object with another uid is another object.
    fn writes<'w>(
        &'w mut self,
        before: Option<&'w Arc<StoredObject>>,
    ) -> impl Iterator<Item = Joint<'w>> {
        let object = std::mem::take(&mut self.object);
        let this: &'w Self = self;
        let value = before.map(|before| before.value());
        let other = value.filter(|value| value["metadata"]["uid"] != object["metadata"]["uid"]);
        let write = |expected, change, rv| Joint {
            table: &this.table,
            rv,
            transaction: Transaction {
                key: &this.key,
                expected,
                change,
                time: this.store.state.clock.now(),
                user_agent: this.store.user_agent,
            },
        };
        let removal = other.map(|other| write(before, Change::Remove(Value::clone(&other)), None));
        let is_removed = removal.is_some();
        let expected = before.filter(|_| !is_removed);
        let put = write(expected, Change::Put(object), this.rv);
        removal.into_iter().chain([put])
    }
}

/// Stores all objects at once.
///
/// # Errors
/// `AlreadyExists` for each whose name is taken and that does not replace; nothing is stored then.
pub(crate) fn restore_all(mut objects: Vec<Restoring<'_>>) -> Result<(), Vec<ApiError>> {
    let Some(state) = objects.first().map(|object| object.store.state) else {
        return Ok(());
    };
    loop {
        let before: Vec<_> = objects.iter().map(Restoring::present).collect();
        let taken = objects.iter().zip(&before);
        let taken = taken.filter(|(object, before)| before.is_some() && !object.replaces);
        let taken: Vec<ApiError> = taken.map(|(object, _)| object.already_exists()).collect();
        if !taken.is_empty() {
            return Err(taken);
        }
        let writes = objects.iter_mut().zip(&before);
        let writes = writes.flat_map(|(object, before)| object.writes(before.as_ref()));
        let values = match state.storage.commit_together(writes.collect()) {
            Ok(()) => break,
            // Somebody has written one of them meanwhile.
            Err((_, writes)) => {
                writes
                    .into_iter()
                    .filter_map(|write| match write.transaction.change {
                        Change::Put(object) => Some(object),
                        Change::Remove(_) | Change::RemoveStored => None,
                    })
            }
        };
        let values: Vec<Value> = values.collect();
        for (object, value) in objects.iter_mut().zip(values) {
            object.object = value;
        }
    }
    let stores = objects.iter().map(|object| {
        let gvr = object.store.resource.gvr();
        ((&gvr.group, &gvr.resource), object.store)
    });
    let stores: BTreeMap<_, Store<'_>> = stores.collect();
    stores.values().for_each(Store::follow_up);
    Ok(())
}
