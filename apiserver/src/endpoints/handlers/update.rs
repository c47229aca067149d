//! PUT of an object, or of its status.

use super::{Answer, Request, decode, owner_references};
use crate::json::Value;
use crate::meta::object::{meta, meta_mut, name};
use crate::request::options::Preconditions;
use crate::status::ApiError;
use crate::store::{Store, Subresource};

pub(super) async fn update(request: &Request<'_>) -> Answer {
    update_subresource(request, Subresource::None).await
}

pub(super) async fn update_subresource(request: &Request<'_>, subresource: Subresource) -> Answer {
    let dry_run = request.query.dry_run("UpdateOptions")?;
    let mut object = decode::object(request, request.resource.gvk(), "UpdateOptions")?;
    let store = request.store(dry_run);
    check_place(request, &store, &mut object)?;
    owner_references::dedup(request, &mut object);
    let updated = store
        .update(request.namespace(), request.name(), subresource, |_| {
            Ok(object.clone())
        })
        .await;
    if updated.as_ref().is_err_and(ApiError::is_not_found)
        && subresource == Subresource::None
        && request.resource.strategy().allow_create_on_update()
    {
        return create(request, &store, object).await;
    }
    request.written(200, &updated?)
}

/// Creates the missing object of an update, unless the request requires a certain object.
async fn create(request: &Request<'_>, store: &Store<'_>, mut object: Value) -> Answer {
    let uid = Some(meta(&object, "uid").to_owned()).filter(|uid| !uid.is_empty());
    if let Some(message) = (Preconditions { uid, rv: None }).violation(&Value::Null) {
        let namespace = request.namespace().unwrap_or_default();
        return Err(store.storage_conflict(namespace, request.name(), &message));
    }
    meta_mut(&mut object).remove("resourceVersion");
    let created = store.create(request.namespace(), object).await?;
    request.written(201, &created)
}

/// The body must be in the namespace and have the name of the path.
pub(super) fn check_place(
    request: &Request<'_>,
    store: &Store<'_>,
    object: &mut Value,
) -> Result<(), ApiError> {
    store.set_namespace(object, request.namespace())?;
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
