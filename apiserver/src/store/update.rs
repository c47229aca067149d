//! Replacement of an object, in part or whole.

use std::mem;
use std::sync::Arc;

use super::refusals::{check_name, parse_rv};
use super::{Store, Subresource, WriteResult, managed_fields};
use crate::cancellation;
use crate::json::{Map, Value};
use crate::meta::ResourceVersion;
use crate::meta::object::{self, copy_field, is_terminating, meta, meta_mut};
use crate::request::options::Preconditions;
use crate::status::{ApiError, FieldErrors, FieldPath};
use crate::storage::{Change, Transaction};

impl Store<'_> {
    /// Replaces an object by the result of `change`; runs `change` again if another writer was
    /// faster.
    ///
    /// An update that changes nothing writes nothing. One that takes the last finalizer from a
    /// terminating object removes it.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` on a foreign `resourceVersion` or uid, `Invalid`, and the errors of
    /// `change`.
    pub(crate) async fn update(
        &self,
        namespace: Option<&str>,
        name: &str,
        subresource: Subresource,
        mut change: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<WriteResult, ApiError> {
        check_name(name)?;
        let key = self.key(namespace, name);
        let table = self.table();
        loop {
            let held = table.get(&key).ok_or_else(|| self.not_found(name))?;
            let shown = self.converted(Arc::clone(&held)).await?;
            let current = &*shown.value();
            let mut next = change(current)?;
            self.strategy.default(&mut next);
            self.manage_updated(current, &mut next);
            self.set_namespace(&mut next, namespace)?;
            self.check_escalation(&next, Some(current)).await?;
            self.admit_changed(&mut next, current, subresource).await?;
            self.check_preconditions(&next, current, name)?;
            self.keep_system_fields(&mut next, current, subresource);
            self.prepare_for_update(&mut next, current, subresource)?;
            self.bump_generation(&mut next, current, subresource);
            self.check_claim_status(&next, current, name).await?;
            self.validate_changed(&next, current, name, subresource)?;
            self.forget_empty_lists(&mut next);
            if subresource == Subresource::None {
                self.warn(&next, Some(current));
            }
            self.approve_stored(&next, Some(current)).await?;
            if managed_fields::is_no_change(&mut next, current) {
                return Ok(WriteResult::Stored(shown));
            }
            if self.dry_run {
                return Ok(WriteResult::Unstored(Arc::new(next)));
            }
            let gone = is_terminating(&next)
                && object::finalizers(&next).next().is_none()
                && !self.strategy.is_held(&next)
                && next["metadata"]["deletionGracePeriodSeconds"]
                    .as_i64()
                    .unwrap_or(0)
                    == 0;
            // The update itself is not stored: the event shows the last stored state, at the version of
            // the removal.
            let change = if gone {
                table.removal(&held)
            } else {
                Change::Put(self.stored_form(mem::take(&mut next)).await?)
            };
            let commit = Transaction {
                key: &key,
                expected: Some(&held),
                change,
                time: self.state.clock.now(),
                user_agent: self.user_agent,
            };
            cancellation::check()?;
            if let Ok(stored) = self.commit(&table, commit) {
                return Ok(if gone {
                    WriteResult::Unstored(Arc::new(next))
                } else {
                    WriteResult::Stored(self.converted(stored).await?)
                });
            }
        }
    }

    fn prepare_for_update(
        &self,
        next: &mut Value,
        old: &Value,
        subresource: Subresource,
    ) -> Result<(), ApiError> {
        if matches!(subresource, Subresource::Other | Subresource::Unchecked) {
            return Ok(());
        }
        let table = self.table();
        let context = self.context(&table);
        if subresource == Subresource::Status {
            self.strategy.prepare_for_status_update(next, old, context);
            return Ok(());
        }
        let faults = self.strategy.begin_update(next, old, context)?;
        self.invalid(object::name(old), faults)?;
        self.strategy.prepare_for_update(next, old, context);
        Ok(())
    }

    fn check_preconditions(
        &self,
        next: &Value,
        current: &Value,
        name: &str,
    ) -> Result<(), ApiError> {
        let uid =
            Some(meta(next, "uid").to_owned()).filter(|uid| self.guards_uid && !uid.is_empty());
        if let Some(message) = (Preconditions { uid, rv: None }).violation(current) {
            return Err(self.storage_conflict(object::namespace(current), name, &message));
        }
        let rv = meta(next, "resourceVersion");
        if parse_rv(rv)? == ResourceVersion::ZERO {
            if self.strategy.allow_unconditional_update() {
                return Ok(());
            }
            let mut errors = FieldErrors::new();
            let path = FieldPath::new("metadata.resourceVersion");
            errors.invalid(&path, &0.into(), "must be specified for an update");
            return self.invalid_resource(name, errors);
        }
        if rv != meta(current, "resourceVersion") {
            let message = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(self.conflict(name, message));
        }
        Ok(())
    }

    /// Returns `current` with a status write applied: the status, and the metadata that a status
    /// write may change. Other sent fields are dropped.
    fn with_sent_status(&self, current: &Value, mut sent: Value) -> Value {
        // A uid is kept to be refused if it is another object's.
        let own = [
            "uid",
            "labels",
            "annotations",
            "finalizers",
            "generateName",
            "ownerReferences",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
        ];
        let own = own.map(|field| (field, !self.strategy.status_update_keeps(field)));
        let is_own = |field: &str| own.contains(&(field, true));
        let fields = |value: &mut Value| value.as_object_mut().map(mem::take).unwrap_or_default();
        let mut sent = fields(&mut sent);
        let status = sent.remove("status");
        let metadata = sent.remove("metadata").as_mut().map(fields);
        let metadata = revert(metadata.unwrap_or_default(), &current["metadata"], is_own);
        // Only a kind without a Go type can lose its status.
        let loses = status.is_some() || self.resource.custom.is_some();
        let is_other = |field: &str| field == "metadata" || (field == "status" && loses);
        let mut next = revert(sent, current, is_other);
        next.insert("metadata", Value::Object(metadata));
        if let Some(status) = status {
            next.insert("status", status);
        }
        Value::Object(next)
    }

    /// Keeps the fields that this request may not write: server-owned metadata and the other half.
    fn keep_system_fields(&self, next: &mut Value, current: &Value, subresource: Subresource) {
        if self.resource.subresource("status").is_some() {
            match subresource {
                Subresource::None => copy_field(next, current, "status"),
                Subresource::Status => {
                    let sent = mem::take(next);
                    *next = self.with_sent_status(current, sent);
                }
                Subresource::Other | Subresource::Unchecked => {}
            }
        }
        let system = [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ];
        let kept = &current["metadata"];
        for field in system {
            let set = &next["metadata"][field];
            let forced = match field {
                "deletionTimestamp" => !kept[field].is_null(),
                // A dry run returns the sent object, which is never stored.
                "selfLink" => !self.dry_run,
                field => matches!(field, "resourceVersion" | "creationTimestamp"),
            };
            if set.is_null() || forced {
                copy_field(&mut next["metadata"], kept, field);
            }
        }
        copy_field(&mut next["metadata"], kept, "generation");
        for field in ["kind", "apiVersion"] {
            copy_field(next, current, field);
        }
    }

    fn bump_generation(&self, next: &mut Value, current: &Value, subresource: Subresource) {
        if !self.strategy.counts_generation()
            || matches!(subresource, Subresource::Status | Subresource::Unchecked)
        {
            return;
        }
        let counts_status = self.resource.custom.is_some();
        let is_spec = |name: &str| match name {
            "metadata" | "kind" | "apiVersion" => false,
            "status" => counts_status,
            _ => true,
        };
        let fields = |object: &'_ Value| {
            let fields = object.as_object().into_iter().flatten();
            fields.filter(|(name, _)| is_spec(name)).count()
        };
        let same = next.as_object().into_iter().flatten().all(|(name, value)| {
            let before = current.get(name.as_str());
            // To upstream a list without entries is the same as none.
            let is_none = before.is_some_and(is_empty_list) && is_empty_list(value);
            !is_spec(name) || before == Some(value) || is_none
        });
        let annotations = |object: &Value| object["metadata"]["annotations"].clone();
        let annotated =
            self.strategy.counts_annotations() && annotations(next) != annotations(current);
        if !same || fields(next) != fields(current) || annotated {
            let generation = current["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta_mut(next).insert("generation", generation.into());
        }
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// `sent` with all fields but its own as they are `held`. What is the same is not copied.
fn revert(mut sent: Map, held: &Value, is_own: impl Fn(&str) -> bool) -> Map {
    sent.retain(|field, value| is_own(field) || held.get(field) == Some(value));
    for (field, value) in held.as_object().into_iter().flatten() {
        if !is_own(field) && !sent.contains_key(field) {
            sent.insert(field.clone(), value.clone());
        }
    }
    sent
}
