//! POST of a new object.

use super::{Answer, Request, decode, owner_references};

pub(super) async fn create(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let mut object = decode::object(request, request.resource.gvk(), "CreateOptions")?;
    let strategy = request.resource.strategy();
    strategy.set_requestor(&mut object, &|| request.user.to_user_info());
    owner_references::dedup(request, &mut object);
    let store = request.store(dry_run);
    let written = store.create(request.namespace(), object).await?;
    request.written(201, &written)
}
