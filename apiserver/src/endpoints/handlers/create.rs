//! POST of a new object.

use serde_json::Value;

use super::{Answer, Request, decode, owner_references};
use crate::meta::object::child_mut;

pub(super) async fn create(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let mut object = decode::object(request, request.resource.gvk(), "CreateOptions")?;
    if request.resource.gvk().kind == "CertificateSigningRequest" {
        set_requestor(request, &mut object);
    }
    owner_references::dedup(request, &mut object);
    let store = request.store(dry_run);
    let written = store.create(request.namespace(), object).await?;
    request.written(201, &written)
}

/// Sets the requestor of a certificate signing request to the user, whatever the body states.
fn set_requestor(request: &Request<'_>, object: &mut Value) {
    let info = request.user.to_user_info();
    let spec = child_mut(object, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        match info.get(field) {
            Some(value) => spec.insert(field.to_owned(), value.clone()),
            None => spec.remove(field),
        };
    }
}
