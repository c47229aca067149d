//! Responses: objects, lists and failures as HTTP.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Response, StatusCode};
use serde_json::Value;

use super::body::ResponseBody;
use super::negotiation::{self, Accepted, MediaType, Transform, encode};
use super::warnings;
use crate::schema::protobuf;
use crate::status::ApiError;

/// A response with a whole body.
pub(crate) fn whole(
    code: u16,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Response<ResponseBody> {
    with_body(code, content_type, ResponseBody::whole(body))
}

/// A response with any body.
pub(crate) fn with_body(
    code: u16,
    content_type: &str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).expect("codes are written in this crate");
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_str(content_type);
    headers.insert(
        CONTENT_TYPE,
        content_type.expect("media types are written in this crate"),
    );
    response
}

/// Plain text, as Go's `http.Error` sends it.
pub(crate) fn text(code: u16, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = whole(code, "text/plain; charset=utf-8", body);
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// Refuses a request that got no seat; the client may retry after `retry_after` seconds.
pub(crate) fn too_many_requests(retry_after: u64) -> Response<ResponseBody> {
    let mut response = text(429, "Too many requests, please try again later.\n");
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}

/// A response of a code and nothing else.
pub(crate) fn empty(code: u16) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::from_u16(code).expect("codes are written in this crate");
    response
}

/// A value in the representation agreed on.
pub(crate) fn value(code: u16, value: &Value, accepted: Accepted) -> Response<ResponseBody> {
    whole(code, accepted.media.as_str(), encode(value, accepted))
}

/// JSON that has been serialized already, if plain JSON was agreed on.
pub(crate) fn json(code: u16, json: Bytes, accepted: Accepted) -> Response<ResponseBody> {
    if accepted.media == MediaType::Json && !accepted.pretty {
        return whole(code, MediaType::Json.as_str(), json);
    }
    let parsed = serde_json::from_slice(&json).expect("storage holds valid JSON");
    value(code, &parsed, accepted)
}

/// A failure as a `Status`.
pub(crate) fn error(error: &ApiError, accepted: Accepted) -> Response<ResponseBody> {
    if *error == ApiError::PageNotFound {
        return text(404, format!("{error}\n"));
    }
    // A clause of `Accept` that transforms objects says nothing of a failure.
    let accepted = match accepted.transform {
        Transform::None => accepted,
        _ => Accepted::JSON,
    };
    let mut response = value(error.code(), &error.to_status(), accepted);
    if let Some(seconds) = error.retry_after_seconds() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The refusal of an `Accept` that a custom resource cannot be shown in, in protobuf to who accepts
/// that: upstream agrees on it first, and then finds that it has no message for such an object.
pub(crate) fn unacceptable(headers: &HeaderMap) -> Response<ResponseBody> {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let refusal = negotiation::not_acceptable();
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.contains(PROTOBUF)) {
        let status = protobuf::encode_status(&refusal.to_status());
        return whole(refusal.code(), PROTOBUF, status);
    }
    error(&refusal, Accepted::JSON)
}

/// Adds a `Warning` header per text.
pub(crate) fn add_warnings(response: &mut Response<ResponseBody>, texts: &[String]) {
    for header in warnings::headers(texts) {
        response.headers_mut().append("warning", header);
    }
}
