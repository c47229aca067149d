//! The condition of definitions in community groups: whether the project has approved them.

use super::naming::write_status;
use crate::clock::rfc3339;
use crate::registry::apiextensions::custom_resource_definition::approval::{Approval, annotation};
use crate::registry::apiextensions::custom_resource_definition::conditions::{self, Condition};
use crate::storage::StoredObject;
use crate::store::Store;

const CONFORMANT: &str = "KubernetesAPIApprovalPolicyConformant";

/// Sets the condition that follows from the annotation.
pub(super) fn sync(store: &Store<'_>, definition: &StoredObject) {
    let Some(definition) = store.table().get(&definition.key) else {
        return;
    };
    let value = &*definition.fields(&["metadata.annotations", "status"]);
    let own = annotation(value);
    let approval = Approval::of(own);
    let message = approval.message(own);
    let condition = Condition {
        condition_type: CONFORMANT,
        status: match approval {
            Approval::Approved => "True",
            Approval::Missing | Approval::Bypassed | Approval::Invalid => "False",
        },
        reason: approval.reason(),
        message: &message,
    };
    let is_reported = conditions::find(value, CONFORMANT).is_some_and(|held| {
        held["status"] == condition.status
            && held["reason"] == condition.reason
            && held["message"] == message
    });
    if is_reported {
        return;
    }
    let now = rfc3339(store.state.clock.now());
    write_status(store, &definition, |next| {
        conditions::set(next, condition, &now);
    });
}
