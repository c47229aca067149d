//! Refusals of requests for custom resources before any verb handles them.

use super::Request;
use crate::request::Verb;
use crate::status::ApiError;

/// Refuses requests that the definition does not serve.
///
/// # Errors
/// `PageNotFound` for a path of the wrong scope, `NotFound` for a subresource that is not declared,
/// `MethodNotSupported` for a verb that the resource lacks.
pub(super) fn check(request: &Request<'_>) -> Result<(), ApiError> {
    let verb = request.info.verb.ok_or(ApiError::PageNotFound)?;
    let in_namespace = request.info.namespace.is_some();
    let across = matches!(verb, Verb::List | Verb::Watch);
    if in_namespace != request.resource.namespaced && (in_namespace || !across) {
        return Err(ApiError::PageNotFound);
    }
    let resource = request.resource.gvr().group_resource();
    let Some(name) = &request.info.subresource else {
        return Ok(());
    };
    match request.resource.subresource(name) {
        None => Err(ApiError::NotFound {
            resource,
            name: request.name().to_owned(),
        }),
        Some(subresource) if subresource.verbs.iter().any(|own| own == verb.as_str()) => Ok(()),
        Some(_) => Err(ApiError::MethodNotSupported {
            resource,
            action: verb.as_str().to_owned(),
        }),
    }
}
