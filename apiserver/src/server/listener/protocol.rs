//! Heads of HTTP/1.1 that the parser lets through and Go's `net/http` does not.

use http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use hyper::ext::ReasonPhrase;

use super::connection::HEAD_BYTES_MAX;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;

/// The refusal of a request by its head, in the words of `net/http`; None for a sound one.
pub(super) fn refuse<B>(request: &Request<B>) -> Option<Response<ResponseBody>> {
    if request.version() > Version::HTTP_11 {
        return None;
    }
    let headers = request.headers();
    let mut response = if head_bytes(request) > HEAD_BYTES_MAX {
        // Hyper limits its buffer, which the last read may exceed.
        response::empty(431)
    } else if !is_known_encoding(headers) {
        response::whole(
            501,
            "text/plain; charset=utf-8",
            "Unsupported transfer encoding",
        )
    } else if let Some(reason) = bad_host(request) {
        let body = format!("400 {reason}");
        let mut response = response::whole(400, "text/plain; charset=utf-8", body);
        let phrase = ReasonPhrase::from_static(reason.as_bytes());
        response.extensions_mut().insert(phrase);
        response
    } else if !is_expectation_met(headers) {
        response::empty(417)
    } else {
        return None;
    };
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    Some(response)
}

/// Bytes of a head as it was sent, without white space that has no meaning.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let uri = request.uri().path_and_query();
    let line = request.method().as_str().len() + uri.map_or(0, |uri| uri.as_str().len());
    let headers = request.headers().iter();
    // `: ` and a line break.
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
    line + headers.sum::<usize>()
}

fn is_known_encoding(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// The reason to refuse a request by its `Host`.
fn bad_host<B>(request: &Request<B>) -> Option<&'static str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Some("Bad Request"),
        (None, _) => {
            let needs =
                request.version() == Version::HTTP_11 && request.method() != Method::CONNECT;
            needs.then_some("Bad Request: missing required Host header")
        }
        (Some(host), None) => {
            let is_valid = host.as_bytes().iter().all(|byte| may_be_in_host(*byte));
            (!is_valid).then_some("Bad Request: malformed Host header")
        }
    }
}

fn may_be_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=['_~]".contains(&byte)
}

/// Whether the expectations, if any, include `100-continue`.
fn is_expectation_met(headers: &HeaderMap) -> bool {
    let Some(expected) = headers.get(EXPECT).filter(|expected| !expected.is_empty()) else {
        return true;
    };
    let mut tokens = expected
        .as_bytes()
        .split(|byte| matches!(byte, b',' | b' ' | b'\t'));
    tokens.any(|token| token.eq_ignore_ascii_case(b"100-continue"))
}
