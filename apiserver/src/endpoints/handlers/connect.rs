//! Admission of connections.

use super::Request;
use crate::json::{Map, Value};
use crate::meta::GroupVersionKind;
use crate::request::options::Query;
use crate::status::ApiError;

/// Calls the admission webhooks for a connection with the options `fields`; returns the options as
/// they left them.
///
/// # Errors
/// `BadRequest` for a dry run, the refusal of a webhook, and a failed call with the policy Fail.
pub(super) async fn admitted(request: &Request<'_>, fields: Map) -> Result<Query, ApiError> {
    if request.query.all("dryRun").next().is_some() {
        return Err(ApiError::BadRequest("dryRun is not supported".to_owned()));
    }
    let kind = kind(request)?;
    let mut sent = Map::new();
    sent.insert("kind", kind.kind.as_str().into());
    sent.insert("apiVersion", kind.api_version().into());
    sent.extend(fields);
    let sent = Value::Object(sent);
    let mut options = sent.clone();
    let store = request.store(false);
    store.admit_connection(kind, &mut options).await?;
    match options == sent {
        true => Ok(request.query.clone()),
        false => Ok(Query::of(&options)),
    }
}

/// The kind of the options.
fn kind<'r>(request: &'r Request<'_>) -> Result<&'r GroupVersionKind, ApiError> {
    let name = request.info.subresource.as_deref().unwrap_or_default();
    let subresource = request.resource.subresource(name);
    Ok(&subresource.ok_or(ApiError::NoSuchPath)?.gvk)
}

/// The options of a proxy: the rest of the path.
pub(super) fn proxy_options(request: &Request<'_>) -> Map {
    let mut options = Map::new();
    let path = request.info.rest.join("/");
    if !path.is_empty() {
        options.insert("path", format!("/{path}").into());
    }
    options
}
