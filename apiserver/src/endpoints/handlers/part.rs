//! Writes of a part of an object, by a subresource of its own.

use super::{Answer, Request, apply, decode, patch, update};
use crate::clock::rfc3339;
use crate::field_manager::FieldManager;
use crate::json::Value;
use crate::patch::PatchType;
use crate::registry::rest::Part;
use crate::status::ApiError;
use crate::store::Subresource;

/// PUT of the object, of which only the part counts.
pub(super) async fn update(request: &Request<'_>, part: &dyn Part) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let mut object = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
    update::check_place(request, &request.store(dry_run), &mut object)?;
    write(request, part, dry_run, |manager, current| {
        let mut wanted = object.clone();
        update_owners(request, manager, current, &mut wanted);
        Ok(wanted)
    })
    .await
}

/// PATCH of the part.
pub(super) async fn patch(request: &Request<'_>, part: &dyn Part) -> Answer {
    let patch_type = request.patch_type()?;
    let dry_run = request.patch_options(patch_type)?;
    let gvk = request.resource.gvk();
    write(request, part, dry_run, |manager, current| {
        if patch_type != PatchType::Apply {
            let mut wanted = patch::patched(request, gvk, patch_type, Subresource::Other, current)?;
            update_owners(request, manager, current, &mut wanted);
            return Ok(wanted);
        }
        let mut wanted = apply::merged(request, gvk, manager, Some(current))?;
        update::check_place(request, &request.store(false), &mut wanted)?;
        Ok(wanted)
    })
    .await
}

/// Whoever sets a field comes to own it, also one that is then left as it was.
fn update_owners(
    request: &Request<'_>,
    manager: &FieldManager,
    current: &Value,
    wanted: &mut Value,
) {
    let strategy = request.resource.strategy();
    strategy.default(wanted);
    manager.update(current, wanted, &rfc3339(request.state.clock.now()));
}

async fn write(
    request: &Request<'_>,
    part: &dyn Part,
    dry_run: bool,
    change: impl Fn(&FieldManager, &Value) -> Result<Value, ApiError>,
) -> Answer {
    let (store, manager) = request.store_and_manager(dry_run);
    let (namespace, name) = (request.namespace(), request.name());
    let written = store.update(namespace, name, Subresource::Other, |current| {
        let mut wanted = change(&manager, current)?;
        store.strategy.default(&mut wanted);
        let next = part.take(&wanted, current);
        let errors = part.validate(&next, current);
        if !errors.is_empty() {
            return Err(ApiError::Invalid {
                kind: request.resource.gvk().group_kind(),
                name: request.name().to_owned(),
                errors,
            });
        }
        Ok(next)
    });
    request.written(200, &written.await?)
}
