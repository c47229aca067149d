//! DELETE of one object.

use serde_json::{Value, json};

use super::{Answer, Request, decode};
use crate::endpoints::options::DeleteOptions;
use crate::endpoints::response;
use crate::meta::object::{meta, name};
use crate::registry::store::Deleted;

pub(super) fn delete(request: &Request<'_>) -> Answer {
    let body = decode::delete_options(request)?;
    let options = DeleteOptions::parse(body.as_ref(), &request.query)?;
    let store = request.store(options.dry_run);
    let deleted = store.delete(request.namespace(), request.name(), &options)?;
    match deleted {
        Deleted::Terminating(object) => request.value(200, &request.resource.shown(&object)),
        Deleted::Gone(object) if store.strategy.returns_deleted_object() => {
            request.value(200, &object)
        }
        Deleted::Gone(object) => Ok(response::value(
            200,
            &success(request, &object),
            request.accepted,
        )),
    }
}

fn success(request: &Request<'_>, object: &Value) -> Value {
    let gvr = request.resource.gvr();
    let mut details = json!({
        "name": name(object), "kind": gvr.resource, "uid": meta(object, "uid"),
    });
    if !gvr.group.is_empty() {
        details["group"] = gvr.group.as_str().into();
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
