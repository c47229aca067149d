//! POST of a new object.

use super::{Answer, Request, decode};

pub(super) fn create(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let object = decode::object(request, request.resource.gvk(), "CreateOptions")?;
    let written = request.store(dry_run).create(request.namespace(), object)?;
    request.written(201, &written)
}
