//! Responses: objects, lists and failures as HTTP.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};

use super::body::ResponseBody;
use super::negotiation::{Accepted, MediaType, encode};
use super::warnings;
use crate::json::Value;
use crate::schema::protobuf::Document;
use crate::status::ApiError;
use crate::storage::StoredObject;

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
    headers.insert(CONTENT_TYPE, media_type(content_type));
    response
}

/// A media type that is written in this crate as the value of a header, without a copy for the most frequent.
fn media_type(text: &str) -> HeaderValue {
    let frequent = [MediaType::Json, MediaType::Protobuf].map(MediaType::as_str);
    match frequent.into_iter().find(|own| *own == text) {
        Some(own) => HeaderValue::from_static(own),
        None => HeaderValue::from_str(text).expect("media types are written in this crate"),
    }
}

/// A response whose content type browsers are not to guess at: a refusal of authorization.
pub(crate) fn unsniffed(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let nosniff = HeaderValue::from_static("nosniff");
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// Plain text, as Go's `http.Error` sends it.
pub(crate) fn text(code: u16, body: impl Into<Bytes>) -> Response<ResponseBody> {
    unsniffed(whole(code, "text/plain; charset=utf-8", body))
}

/// Refuses a request that got no seat; the client may retry after `retry_after` seconds.
pub(crate) fn too_many_requests(retry_after: u64) -> Response<ResponseBody> {
    let mut response = text(429, "Too many requests, please try again later.\n");
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}

/// A response with a code and an empty body.
pub(crate) fn empty(code: u16) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::from_u16(code).expect("codes are written in this crate");
    response
}

/// A value in the representation agreed on.
pub(crate) fn value(code: u16, value: &Value, accepted: Accepted) -> Response<ResponseBody> {
    match encode(value, accepted) {
        Ok(body) => whole(code, accepted.media.as_str(), body),
        Err(refusal) => error(&refusal, accepted),
    }
}

/// A stored object in the representation agreed on: its shared bytes, where that is plain JSON or
/// protobuf.
pub(crate) fn stored(
    code: u16,
    object: &StoredObject,
    accepted: Accepted,
) -> Response<ResponseBody> {
    let shared = match accepted.media {
        MediaType::Json if !accepted.pretty => Some(object.json_line()),
        MediaType::Protobuf => object.protobuf().map(Document::bytes),
        MediaType::Json | MediaType::Yaml => None,
    };
    match shared {
        Some(bytes) => whole(code, accepted.media.as_str(), bytes),
        None => value(code, &object.value(), accepted),
    }
}

/// A failure as a `Status`.
pub(crate) fn error(error: &ApiError, accepted: Accepted) -> Response<ResponseBody> {
    if *error == ApiError::PageNotFound {
        return text(404, format!("{error}\n"));
    }
    let mut response = value(error.code(), &error.to_status(), accepted);
    if let Some(seconds) = error.retry_after_seconds() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds a `Warning` header per text.
pub(crate) fn add_warnings(response: &mut Response<ResponseBody>, texts: &[String]) {
    for header in warnings::headers(texts) {
        response.headers_mut().append("warning", header);
    }
}
