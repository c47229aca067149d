//! GET of one object.

use super::list_options::requested_version;
use super::{Answer, Request};
use crate::endpoints::watch::expired;
use crate::status::ApiError;
use crate::storage::WindowError;

pub(super) fn get(request: &Request<'_>) -> Answer {
    if request.query.flag("export") {
        let message = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(ApiError::BadRequest(message.to_owned()));
    }
    let current = request.state.storage.resource_version();
    let requested = request.query.get("resourceVersion").unwrap_or_default();
    let rv = requested_version(requested)?.not_older_than();
    if rv > current {
        return Err(expired(rv, WindowError::Future { current }));
    }
    let object = request
        .store(false)
        .get(request.namespace(), request.name())?;
    request.object(200, &object)
}
