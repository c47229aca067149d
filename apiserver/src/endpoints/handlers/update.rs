//! PUT of an object, or of its status.

use serde_json::Value;

use super::{Answer, Request, decode};
use crate::meta::object::{name, namespace};
use crate::registry::store::Part;
use crate::status::ApiError;

pub(super) fn update(request: &Request<'_>) -> Answer {
    update_part(request, Part::Main)
}

pub(super) fn update_part(request: &Request<'_>, part: Part) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let object = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
    check_identity(request, &object)?;
    let store = request.store(dry_run);
    let updated = store.update(request.namespace(), request.name(), part, |_| {
        Ok(object.clone())
    });
    if updated.as_ref().is_err_and(ApiError::is_not_found)
        && part == Part::Main
        && store.strategy.allows_create_on_update()
    {
        let created = store.create(request.namespace(), object)?;
        return request.written(201, &created);
    }
    request.written(200, &updated?)
}

/// The object must be the one of the path.
///
/// # Errors
/// `BadRequest`, for a foreign namespace before a foreign name.
pub(super) fn check_identity(request: &Request<'_>, object: &Value) -> Result<(), ApiError> {
    let own = namespace(object);
    if let Some(namespace) = request.namespace().filter(|_| request.resource.namespaced)
        && !own.is_empty()
        && own != namespace
    {
        return Err(ApiError::foreign_namespace());
    }
    check_name(request, name(object))
}

/// The body must name the object of the path.
pub(super) fn check_name(request: &Request<'_>, name: &str) -> Result<(), ApiError> {
    let url = request.name();
    if name.is_empty() {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != url {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    Ok(())
}
