//! Filters of every request and every answer.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use http::{HeaderMap, Response, Uri};

use super::Core;
use super::flow_control::Flow;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;
use crate::request::RequestInfo;
use crate::request::options::is_well_escaped;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The id that the answer will carry: the client's own, or a new one.
pub(super) fn audit_id(core: &Core, headers: &HeaderMap) -> HeaderValue {
    match headers.get(AUDIT_ID).filter(|id| !id.is_empty()) {
        Some(own) => own.clone(),
        None => HeaderValue::try_from(core.entropy.audit_id()).expect("a UUID is ASCII"),
    }
}

/// Names the id in a request that is passed on.
pub(super) fn set_audit_id(headers: &mut HeaderMap, audit_id: HeaderValue) {
    headers.insert(AUDIT_ID, audit_id);
}

/// Adds the headers that every answer has; a request refused before its classification has no flow.
pub(super) fn add_headers(
    response: &mut Response<ResponseBody>,
    audit_id: HeaderValue,
    flow: Option<Arc<Flow>>,
) {
    let headers = response.headers_mut();
    if let Some(flow) = flow {
        headers.insert(FLOW_SCHEMA_UID, flow.schema_uid.clone());
        headers.insert(PRIORITY_LEVEL_UID, flow.level_uid.clone());
    }
    headers.insert(AUDIT_ID, audit_id);
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
}

/// The answer to a request whose authorization has failed.
pub(super) fn internal_error(uri: &Uri, why: &str) -> Response<ResponseBody> {
    let uri = uri.path_and_query().map_or("", |whole| whole.as_str());
    let text = format!("Internal Server Error: {uri:?}: {why}\n");
    // Upstream lets no error look like HTML.
    let text = text.replace('&', "&amp;");
    let text = text.replace('<', "&lt;").replace('>', "&gt;");
    response::unsniffed(response::text(500, text))
}

/// The answer to a path that upstream fails to read at all.
pub(super) fn refuse_path(path: &str, uri: &Uri) -> Option<Response<ResponseBody>> {
    if !is_well_escaped(path) {
        return Some(response::text(400, "400 Bad Request"));
    }
    if RequestInfo::lacks_kind(path) {
        let uri = uri.path_and_query().map_or(path, |whole| whole.as_str());
        let why = "unable to determine kind and namespace from url";
        let body =
            format!("Internal Server Error: {uri:?}: failed to create RequestInfo: {why}, {uri}\n");
        return Some(response::text(500, body));
    }
    None
}
