//! Compression of large answers.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, VARY};
use http::{HeaderMap, Response};

use super::body::ResponseBody;

/// Answers of this size or less are sent as they are: compressing them costs more than it saves.
const THRESHOLD_BYTES: usize = 128 * 1024;

/// Whether the client accepts gzip; weights are ignored, as upstream does.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|token| token.trim() == "gzip"))
}

/// Compresses the body of `response` if it is whole and large; watches are streams and stay plain.
///
/// The least level: it is the fastest by far, and little larger than the best.
pub(crate) fn compress(response: Response<ResponseBody>) -> Response<ResponseBody> {
    let is_encoded = response.headers().contains_key(CONTENT_ENCODING);
    let large = |body: &Bytes| body.len() > THRESHOLD_BYTES && !is_encoded;
    let Some(plain) = response.body().bytes().filter(|body| large(body)) else {
        return response;
    };
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    let compressed = encoder
        .write_all(plain)
        .and_then(|()| encoder.finish())
        .expect("writing to a Vec succeeds");
    let (mut head, _) = response.into_parts();
    let headers = &mut head.headers;
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, ResponseBody::whole(compressed))
}
