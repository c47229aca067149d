//! PATCH of an applied configuration: server-side apply.

use super::{Answer, Request, decode, update};
use crate::clock::rfc3339;
use crate::field_manager::{FieldManager, Force};
use crate::json::Value;
use crate::meta::GroupVersionKind;
use crate::meta::object::{meta, meta_mut};
use crate::status::ApiError;
use crate::store::{Store, Subresource, WriteResult, parse_rv};

/// Times that an apply starts over when the object comes or goes meanwhile.
const TRIES: usize = 3;

pub(super) async fn apply(
    request: &Request<'_>,
    subresource: Subresource,
    dry_run: bool,
) -> Answer {
    let (store, manager) = request.store_and_manager(dry_run);
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let updated = store.update(request.namespace(), request.name(), subresource, |live| {
            applied(request, &manager, Some(live))
        });
        let updated = updated.await;
        if !updated.as_ref().is_err_and(ApiError::is_not_found) || subresource != Subresource::None
        {
            return request.written(200, &updated?);
        }
        match create(request, &store, &manager).await {
            Err(ApiError::AlreadyExists { .. }) if tries > 0 => {}
            created => return request.written(201, &created?),
        }
    }
}

async fn create(
    request: &Request<'_>,
    store: &Store<'_>,
    manager: &FieldManager,
) -> Result<WriteResult, ApiError> {
    let mut object = applied(request, manager, None)?;
    let uid = meta(&object, "uid");
    if !uid.is_empty() {
        let message = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(store.conflict(request.name(), message));
    }
    parse_rv(meta(&object, "resourceVersion"))?;
    meta_mut(&mut object).remove("resourceVersion");
    store.create(request.namespace(), object).await
}

/// `live` with the configuration of the request applied.
fn applied(
    request: &Request<'_>,
    manager: &FieldManager,
    live: Option<&Value>,
) -> Result<Value, ApiError> {
    let mut object = merged(request, request.resource.gvk(), manager, live)?;
    update::check_place(request, &request.store(false), &mut object)?;
    Ok(object)
}

/// `live`, an object of kind `gvk`, with the configuration of the request merged into it.
pub(super) fn merged(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    manager: &FieldManager,
    live: Option<&Value>,
) -> Result<Value, ApiError> {
    let (configuration, duplicates) = decode::configuration(request)?;
    let force = match request.query.flag("force") {
        true => Force::Yes,
        false => Force::No,
    };
    let now = rfc3339(request.state.clock.now());
    let object = manager.apply(live, &configuration, force, &now)?;
    let object = decode::applied(request, gvk, &configuration, object)?;
    decode::check_configuration(request, duplicates)?;
    Ok(object)
}
