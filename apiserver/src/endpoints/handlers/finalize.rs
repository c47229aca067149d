//! PUT of `finalize`.

use super::{Answer, Request, decode, update};
use crate::json::Value;
use crate::meta::object::copy_field;
use crate::status::{ApiError, FieldErrors};
use crate::store::Subresource;

/// PUT of `finalize`, which keeps the status; a terminating object goes with its last finalizer.
pub(super) async fn finalize(request: &Request<'_>, validate: fn(&Value) -> FieldErrors) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let mut wanted = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
    let store = request.store(dry_run);
    update::check_place(request, &store, &mut wanted)?;
    let written = store.update(None, request.name(), Subresource::Other, |current| {
        let mut next = wanted.clone();
        copy_field(&mut next, current, "status");
        let errors = validate(&next);
        if errors.is_empty() {
            return Ok(next);
        }
        Err(ApiError::Invalid {
            kind: request.resource.gvk().group_kind(),
            name: request.name().to_owned(),
            errors,
        })
    });
    request.written(200, &written.await?)
}
