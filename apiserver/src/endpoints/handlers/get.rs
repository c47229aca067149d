//! GET of one object.

use super::{Answer, Request};
use crate::endpoints::watch::expired;
use crate::storage::WindowError;

pub(super) fn get(request: &Request<'_>) -> Answer {
    let current = request.core.storage.revision();
    if let Some(rv) = request
        .query
        .get("resourceVersion")
        .and_then(|rv| rv.parse::<u64>().ok())
        && rv > current
    {
        return Err(expired(rv, WindowError::Future { current }));
    }
    let object = request
        .store(false)
        .get(request.namespace(), request.name())?;
    request.object(200, &object)
}
