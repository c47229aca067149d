//! DELETE of all objects that a list would show.

use super::list;
use super::{Answer, Request, decode, looked_up};
use crate::meta::object;
use crate::request::options::DeleteOptions;

/// Deletes the objects one by one with the same options; an object that is gone already is skipped.
pub(super) async fn delete_collection(request: &Request<'_>) -> Answer {
    let query = list::ListQuery::parse(request)?;
    let body = decode::delete_options(request)?;
    let options = DeleteOptions::parse(body.as_ref(), &request.query)?;
    let page = looked_up(request, |request| list::page(request, &query)).await?;
    let store = request.store_for_deletion(options.dry_run, body.as_ref());
    for item in &page.objects {
        let value = item.value();
        let namespace = object::namespace(&value);
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let deleted = store.delete(namespace, object::name(&value), &options);
        match deleted.await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    list::answer(request, &page)
}
