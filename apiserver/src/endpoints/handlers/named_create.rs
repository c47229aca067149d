//! Steps of every POST below an object. Upstream: `rest.NamedCreater`.

use http::Response;

use super::Request;
use crate::admission;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;
use crate::metrics::admission::Plugin;
use crate::status::{ApiError, Status};

/// The answer to a subresource that makes no object.
pub(super) fn success(request: &Request<'_>) -> Response<ResponseBody> {
    let success = Status::success().with_code(201).to_value();
    response::value(201, &success, request.accepted)
}

/// Whether something may be created below `name`.
pub(super) fn admit(request: &Request<'_>, name: &str) -> Result<(), ApiError> {
    let namespace = request.namespace().unwrap_or_default();
    if !request.state.plugins.has(Plugin::NamespaceLifecycle) {
        return Ok(());
    }
    admission::admit_into(request.state, &request.resource, namespace, name)
}
