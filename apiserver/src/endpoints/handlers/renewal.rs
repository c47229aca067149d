//! PUT and PATCH of an object, which may be a lease that its holder has lost to a fault and is not to know of yet.

use std::sync::Arc;

use super::{Answer, Request, apply, decode, patch, update};
use crate::json::Value;
use crate::meta::object::meta;
use crate::patch::PatchType;
use crate::schema;
use crate::status::ApiError;
use crate::store::{Subresource, WriteResult};

/// The path of the holder in a JSON patch.
const HOLDER: &str = "/spec/holderIdentity";
/// The path of the version in a JSON patch.
const VERSION: &str = "/metadata/resourceVersion";

/// Updates the object, or answers as if a lost lease had been renewed.
pub(super) async fn update(request: &Request<'_>) -> Answer {
    if is_lost(request) {
        let object = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
        let renewed = renewed(request, |deposed, _| -> Result<_, ApiError> {
            let is_renewed = object["spec"]["holderIdentity"] == deposed;
            Ok(is_renewed.then(|| object.clone()))
        });
        if let Some(lease) = renewed? {
            return request.written(200, &WriteResult::Unstored(Arc::new(lease)));
        }
    }
    update::update(request).await
}

/// Patches the object, or answers as if a lost lease had been renewed.
pub(super) async fn patch(request: &Request<'_>) -> Answer {
    if is_lost(request)
        && let Some(lease) = patched(request, request.patch_type()?)?
    {
        return request.written(200, &WriteResult::Unstored(Arc::new(lease)));
    }
    patch::patch(request).await
}

/// The lease as its holder takes it to be after a patch; `None` for any other patch. The patch has to name the holder, or the
/// version of the lease that was lost.
///
/// # Errors
/// The errors of the patch, if the holder still had the lease.
fn patched(request: &Request<'_>, patch_type: PatchType) -> Result<Option<Value>, ApiError> {
    renewed(request, |deposed, lease| {
        let Some(patch) = body(request, patch_type) else {
            return Ok(None);
        };
        let version = meta(lease, "resourceVersion");
        if !names(&patch, patch_type, (deposed, version)) {
            return Ok(None);
        }
        let gvk = request.resource.gvk();
        let lease = match patch_type {
            PatchType::Apply => {
                let (_, manager) = request.store_and_manager(false);
                apply::merged(request, gvk, &manager, Some(lease))?
            }
            _ => patch::patched(request, gvk, patch_type, Subresource::None, lease)?,
        };
        // A holder that lets go, or hands over, does not renew.
        Ok((lease["spec"]["holderIdentity"] == deposed).then_some(lease))
    })
}

/// The patch, if it can be read.
fn body(request: &Request<'_>, patch_type: PatchType) -> Option<Value> {
    match patch_type {
        PatchType::Apply => decode::configuration(request).ok().map(|(patch, _)| patch),
        _ => serde_json::from_slice(&schema::readable(&request.body)).ok(),
    }
}

/// Whether a patch sets or tests this holder or this version.
fn names(patch: &Value, patch_type: PatchType, (holder, version): (&str, &str)) -> bool {
    if patch_type == PatchType::Json {
        let mut operations = patch.as_array().into_iter().flatten();
        return operations.any(|operation| {
            let (path, value) = (&operation["path"], &operation["value"]);
            path == HOLDER && value == holder || path == VERSION && value == version
        });
    }
    match &patch["spec"]["holderIdentity"] {
        Value::Null => patch["metadata"]["resourceVersion"] == version,
        named => named == holder,
    }
}

/// Whether the object is a lease that someone has lost without knowing it.
fn is_lost(request: &Request<'_>) -> bool {
    let is_lease = request.resource.gvk().kind == "Lease";
    is_lease && request.state.faults.have_lost(lease(request))
}

/// Namespace and name of the lease.
fn lease<'r>(request: &'r Request<'_>) -> (&'r str, &'r str) {
    (request.namespace().unwrap_or_default(), request.name())
}

fn renewed(
    request: &Request<'_>,
    renewed: impl Fn(&str, &Value) -> Result<Option<Value>, ApiError>,
) -> Result<Option<Value>, ApiError> {
    request.state.faults.renew_lost(lease(request), renewed)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_renewal_names_the_holder_or_the_version_that_it_has_read() {
        let is_named = |patch_type, patch: Value| names(&patch, patch_type, ("a", "7"));
        for merge in [
            PatchType::Merge,
            PatchType::StrategicMerge,
            PatchType::Apply,
        ] {
            let named = |patch| is_named(merge, patch);
            assert!(named(json!({"spec": {"holderIdentity": "a"}})));
            assert!(named(
                json!({"metadata": {"resourceVersion": "7"}, "spec": {"renewTime": "t"}})
            ));
            assert!(!named(json!({"spec": {"holderIdentity": "b"}})));
            assert!(!named(json!({"metadata": {"resourceVersion": "8"}})));
            assert!(!named(json!({"spec": {"renewTime": "t"}})));
        }
        let named = |patch| is_named(PatchType::Json, patch);
        assert!(named(
            json!([{"op": "test", "path": "/spec/holderIdentity", "value": "a"}])
        ));
        assert!(named(
            json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}])
        ));
        assert!(!named(
            json!([{"op": "replace", "path": "/spec/renewTime", "value": "a"}])
        ));
    }
}
