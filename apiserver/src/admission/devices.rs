//! Claims of devices with the rights of an administrator are for namespaces that say so.

use crate::admission::State;
use crate::json::Value;
use crate::meta::object::meta;
use crate::registry::catalog::ResourceInfo;
use crate::status::{FieldErrors, FieldPath};
use crate::storage::ObjectKey;

const LABEL: &str = "resource.kubernetes.io/admin-access";

/// Faults of admin access in claims, their templates and allocations. Upstream checks it first
/// within validation.
pub(crate) fn faults(
    state: &State,
    resource: &ResourceInfo,
    object: &Value,
    old: Option<&Value>,
    is_status: bool,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let gvr = resource.gvr();
    if gvr.group != "resource.k8s.io" {
        return errors;
    }
    let (pointer, list, own) = match (&*gvr.resource, is_status) {
        ("resourceclaims", false) => ("/spec", "requests", "/exactly/adminAccess"),
        ("resourceclaimtemplates", false) => ("/spec/spec", "requests", "/exactly/adminAccess"),
        ("resourceclaims", true) => ("/status/allocation", "results", "/adminAccess"),
        _ => return errors,
    };
    // The spec does not change.
    if list == "requests" && old.is_some() {
        return errors;
    }
    let asked = |object: &Value| {
        let all = object.pointer(pointer)?["devices"][list].as_array()?;
        all.iter()
            .position(|one| one.pointer(own) == Some(&Value::Bool(true)))
    };
    // An object that had admin access before the write is not checked again.
    let Some(index) = asked(object).filter(|_| old.and_then(asked).is_none()) else {
        return errors;
    };
    let namespaces = state.listers.namespaces(&state.storage);
    let namespace = namespaces.get(&ObjectKey::new(None, meta(object, "namespace")));
    if namespace.is_some_and(|own| own.value()["metadata"]["labels"][LABEL] == "true") {
        return errors;
    }
    // Upstream gives a template the path of a claim.
    let path = match list {
        "requests" => "spec.devices.requests",
        _ => "status.allocation.devices.results",
    };
    let path = FieldPath::new(path).index(index).child("adminAccess");
    let detail = format!(
        "admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    );
    errors.forbidden(&path, &detail);
    errors
}
