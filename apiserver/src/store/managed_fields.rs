//! Managed fields: the owners of the fields that a request writes.

use super::Store;
use crate::clock::rfc3339;
use crate::field_manager::{FieldManager, equal_but_for_times};
use crate::json::Value;
use crate::meta::object::meta_mut;
use crate::schema;

impl Store<'_> {
    /// Returns the field manager of the request; `None` if the request does not change owners.
    pub(crate) fn field_manager(&self) -> Option<FieldManager> {
        let writer = self.writer?;
        let kind = self.resource.gvk();
        let schema = self.resource.schema().cloned();
        let resets =
            writer.subresource == "status" || self.resource.subresource("status").is_some();
        let reset = match resets {
            true => self.resource.strategy().reset_fields(writer.subresource),
            false => &[],
        };
        Some(FieldManager::new(kind, schema, &writer, reset))
    }

    pub(super) fn manage_created(&self, new: &mut Value) {
        if let Some(manager) = self.field_manager() {
            manager.create(new, &rfc3339(self.state.clock.now()));
        }
    }

    pub(super) fn manage_updated(&self, current: &Value, next: &mut Value) {
        if let Some(manager) = self.field_manager() {
            manager.update(current, next, &rfc3339(self.state.clock.now()));
        }
    }

    /// Removes empty lists from the object to store, after their ownership has been recorded.
    pub(super) fn forget_empty_lists(&self, object: &mut Value) {
        // Few objects have any, and their fields need not be looked up then.
        if has_empty_list(object)
            && let Some(schema) = schema::builtin(self.resource.gvk())
        {
            schema.forget_empty_lists(object);
        }
    }
}

/// Whether a list without items is in `value`.
fn has_empty_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty_list),
        Value::Object(fields) => fields.values().any(has_empty_list),
        _ => false,
    }
}

/// Whether a write changes nothing; the times of managed fields alone do not count as a change.
pub(super) fn is_no_change(next: &mut Value, current: &Value) -> bool {
    let held = current["metadata"].get("managedFields");
    let (Some(held), Some(managed)) = (held, next["metadata"].get_mut("managedFields")) else {
        return equal(next, current);
    };
    if managed == held || !equal_but_for_times(managed, held) {
        return equal(next, current);
    }
    let newer = std::mem::replace(managed, held.clone());
    if equal(next, current) {
        return true;
    }
    meta_mut(next).insert("managedFields", newer);
    false
}

/// Whether two objects are equal. The last fields are compared first: in most writes it is the status that differs, and
/// the spec before it is long.
fn equal(next: &Value, current: &Value) -> bool {
    match (next.as_object(), current.as_object()) {
        (Some(next), Some(current)) => next.iter().rev().eq(current.iter().rev()),
        _ => next == current,
    }
}
