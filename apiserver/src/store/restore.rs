//! Objects of another cluster, stored as they were there.

use serde_json::Value;

use super::Store;
use crate::meta::ResourceVersion;
use crate::meta::object::meta_mut;
use crate::status::ApiError;
use crate::storage::{Change, Transaction};

impl Store<'_> {
    /// Stores `object` with its metadata and status, instead of one of its name; nothing is defaulted, admitted or
    /// validated. It gets the version `rv` unless that is past.
    ///
    /// # Errors
    /// When it cannot be converted to the stored version.
    pub(crate) async fn restore(
        &self,
        object: Value,
        rv: Option<ResourceVersion>,
    ) -> Result<(), ApiError> {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
        let key = self.key(namespace.as_deref(), &name.unwrap_or_default());
        let mut object = self.stored_form(object).await?;
        meta_mut(&mut object).remove("resourceVersion");
        let table = self.table();
        loop {
            let before = table.get(&key);
            let other = before.as_ref().map(|before| before.value());
            // Watches are to see that this is another object.
            let other = other.filter(|other| other["metadata"]["uid"].as_str() != uid.as_deref());
            let change = match &other {
                Some(other) => Change::Remove(Value::clone(other)),
                None => Change::Put(object.clone()),
            };
            let is_put = matches!(change, Change::Put(_));
            if let Some(rv) = rv.filter(|_| is_put) {
                self.state.storage.advance_to(rv);
            }
            let commit = Transaction {
                key: &key,
                expected: before.as_ref(),
                change,
                time: self.state.clock.now(),
                user_agent: self.user_agent,
            };
            if self.commit(&table, commit).is_ok() && is_put {
                return Ok(());
            }
        }
    }
}
