//! Claims of devices with the rights of an administrator are for namespaces that say so.

use serde_json::Value;

use super::plugins::Written;
use crate::meta::object::{meta, name};
use crate::status::{ApiError, FieldErrors, FieldPath};
use crate::storage::ObjectKey;

const LABEL: &str = "resource.kubernetes.io/admin-access";

/// Looks at claims, their templates, and what is allocated to claims.
///
/// # Errors
/// `Invalid`.
pub(super) fn check(written: Written<'_>) -> Result<(), ApiError> {
    let gvr = written.resource.gvr();
    if gvr.group != "resource.k8s.io" {
        return Ok(());
    }
    let (pointer, list, own) = match (&*gvr.resource, written.subresource) {
        ("resourceclaims", "") => ("/spec", "requests", "/exactly/adminAccess"),
        ("resourceclaimtemplates", "") => ("/spec/spec", "requests", "/exactly/adminAccess"),
        ("resourceclaims", "status") => ("/status/allocation", "results", "/adminAccess"),
        _ => return Ok(()),
    };
    let asked = |object: &Value| {
        let all = object.pointer(pointer)?["devices"][list].as_array()?;
        all.iter()
            .position(|one| one.pointer(own) == Some(&Value::Bool(true)))
    };
    // What was granted stays as it is.
    let Some(index) = asked(written.object).filter(|_| written.old.and_then(asked).is_none())
    else {
        return Ok(());
    };
    let namespaces = written.core.tables.namespaces(&written.core.storage);
    let namespace = namespaces.get(&ObjectKey::new(None, meta(written.object, "namespace")));
    if namespace.is_some_and(|own| own.value()["metadata"]["labels"][LABEL] == "true") {
        return Ok(());
    }
    let mut errors = FieldErrors::new();
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
    Err(ApiError::Invalid {
        kind: written.resource.gvk().group_kind(),
        name: name(written.object).to_owned(),
        errors,
    })
}
