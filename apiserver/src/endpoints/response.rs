//! Responses: objects, lists and failures as HTTP.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use serde_json::Value;

use super::body::ResponseBody;
use super::negotiation::{Accepted, MediaType, Transform, encode};
use crate::status::ApiError;

/// A response with a whole body.
pub(crate) fn whole(
    code: u16,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(body));
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

/// Adds a `Warning` header per text, worded as RFC 7234 has it.
pub(crate) fn add_warnings(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(header) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append("warning", header);
        }
    }
}
