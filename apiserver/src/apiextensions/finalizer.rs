//! The end of a definition: its objects go first.

use super::naming::write_status;
use crate::clock::rfc3339;
use crate::json::Value;
use crate::meta::object::{finalizers, is_terminating, name, namespace, set_finalizers};
use crate::registry::apiextensions::custom_resource_definition::conditions::{self, Condition};
use crate::registry::apiextensions::custom_resource_definition::finalizer::FINALIZER;
use crate::request::options::DeleteOptions;
use crate::storage::StoredObject;
use crate::store::{Store, at_once};

/// Deletes the objects of a definition that is being deleted, and lets go of it when none is left.
pub(super) fn sync(store: &Store<'_>, definition: &StoredObject) {
    let value = &*definition.value();
    if !is_terminating(value) || !finalizers(value).any(|own| own == FINALIZER) {
        return;
    }
    let now = rfc3339(store.state.clock.now());
    let in_progress = Condition {
        condition_type: "Terminating",
        status: "True",
        reason: "InstanceDeletionInProgress",
        message: "CustomResource deletion is in progress",
    };
    write_status(store, definition, |next| {
        conditions::set(next, in_progress, &now)
    });
    let done = if conditions::is_true(value, "Established") {
        if !delete_instances(store, value) {
            return;
        }
        Condition {
            condition_type: "Terminating",
            status: "False",
            reason: "InstanceDeletionCompleted",
            message: "removed all instances",
        }
    } else {
        Condition {
            condition_type: "Terminating",
            status: "False",
            reason: "NeverEstablished",
            message: "resource was never established",
        }
    };
    write_status(store, definition, |next| {
        conditions::set(next, done, &now);
        let kept = finalizers(next).filter(|own| *own != FINALIZER);
        let kept = kept.map(str::to_owned).collect();
        set_finalizers(next, kept);
    });
}

/// Deletes every object of the definition, and answers whether none is left.
fn delete_instances(store: &Store<'_>, definition: &Value) -> bool {
    let Some(info) = store.state.definitions.stored_resource(name(definition)) else {
        return true;
    };
    let instances = Store {
        resource: &info,
        strategy: info.strategy(),
        writer: None,
        ..*store
    };
    let table = instances.table();
    for object in table.snapshot().range(None, None) {
        let value = object.value();
        let namespace = Some(namespace(&value)).filter(|namespace| !namespace.is_empty());
        let options = DeleteOptions::default();
        let deleted = instances.delete(namespace, name(&value), &options);
        if let Err(error) = at_once(deleted) {
            tracing::debug!(object = %object.key, %error, "object not deleted");
        }
    }
    table.snapshot().range(None, None).next().is_none()
}
