//! DELETE of one object.

use super::{Answer, Request, decode};
use crate::endpoints::response;
use crate::json::{Value, json};
use crate::meta::object::{meta, name};
use crate::request::options::DeleteOptions;
use crate::status::Status;
use crate::store::Deleted;

pub(super) async fn delete(request: &Request<'_>) -> Answer {
    let body = decode::delete_options(request)?;
    let options = DeleteOptions::parse(body.as_ref(), &request.query)?;
    if let Some(warning) = request.resource.strategy().warning_on_delete(&options) {
        request.warn(warning.to_owned());
    }
    let store = request.store_for_deletion(options.dry_run, body.as_ref());
    let deleted = store.delete(request.namespace(), request.name(), &options);
    let deleted = deleted.await?;
    match deleted {
        // Only a client that asked for cascading in the old way gets a 202.
        Deleted::Terminating(object) => {
            let accepted = options.orphan_dependents == Some(false);
            let code = if accepted { 202 } else { 200 };
            match request.resource.shows_as_stored() {
                true => request.written(code, &object),
                false => request.value(code, &request.converted(&object.value()).await?),
            }
        }
        Deleted::Gone(object) if request.resource.strategy().return_deleted_object() => {
            request.written(200, &object)
        }
        Deleted::Gone(object) => Ok(response::value(
            200,
            &success(request, &object.value()),
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
    Status::success().with_details(details).to_value()
}
