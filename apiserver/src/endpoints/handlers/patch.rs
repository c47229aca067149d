//! PATCH of an object, or of its status.

use serde_json::Value;

use super::{Answer, Request, apply, decode, owner_references, update};
use crate::endpoints::options::field_validation;
use crate::meta::GroupVersionKind;
use crate::patch::{self, PatchType};
use crate::registry::store::Part;
use crate::schema;
use crate::status::ApiError;

pub(super) fn patch(request: &Request<'_>) -> Answer {
    patch_part(request, Part::Main)
}

pub(super) fn patch_part(request: &Request<'_>, part: Part) -> Answer {
    let patch_type = request.patch_type()?;
    let dry_run = request.query.patch_options(patch_type)?;
    if patch_type == PatchType::Apply {
        return apply::apply(request, part, dry_run);
    }
    let gvk = request.resource.gvk();
    let store = request.store(dry_run);
    let written = store.update(request.namespace(), request.name(), part, |current| {
        let mut object = patched(request, gvk, patch_type, current)?;
        owner_references::dedup(request, &mut object);
        Ok(object)
    })?;
    request.written(200, &written)
}

/// `current`, an object of kind `gvk`, with the patch of the request applied.
pub(super) fn patched(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    patch_type: PatchType,
    current: &Value,
) -> Result<Value, ApiError> {
    let schema = schema::builtin(gvk).map(|schema| &**schema);
    let validation = field_validation(&request.query, "PatchOptions")?;
    let outcome = patch::apply(patch_type, &request.body, current, schema, validation)?;
    let object = decode::patched(request, gvk, outcome)?;
    update::check_identity(request, &object)?;
    Ok(object)
}
