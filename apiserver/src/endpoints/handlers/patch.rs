//! PATCH of an object, or of its status.

use serde_json::Value;

use super::{Answer, Request, apply, decode, update};
use crate::meta::object::name;
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
    decode::check_patch(request, patch_type)?;
    let gvk = request.resource.gvk();
    let store = request.store(dry_run);
    let written = store.update(request.namespace(), request.name(), part, |current| {
        let patched = patched(request, patch_type, current)?;
        decode::value(request, gvk, patched, "PatchOptions")
    })?;
    request.written(200, &written)
}

/// `current` with the patch of the request applied, not yet decoded.
pub(super) fn patched(
    request: &Request<'_>,
    patch_type: PatchType,
    current: &Value,
) -> Result<Value, ApiError> {
    let schema = schema::builtin(request.resource.gvk()).map(|schema| &**schema);
    let patched = patch::apply(patch_type, &request.body, current, schema)?;
    update::check_name(request, name(&patched))?;
    Ok(patched)
}
