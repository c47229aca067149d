//! Requests in process, and their answers.

use std::borrow::Borrow;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::json::Value;
use kubeproof_apiserver::{ApiServer, Clock, ResponseBody};

/// An answer that is JSON, or else null.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    /// The message of a refusal.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// A field of the object's metadata.
    pub(crate) fn meta(&self, field: &str) -> &Value {
        &self.body["metadata"][field]
    }
}

/// A server with simulated time, from 2026 on.
pub(crate) fn server() -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::builder().clock(Clock::simulated(epoch)).build()
}

/// The response to `METHOD /path`.
pub(crate) async fn respond(
    server: &ApiServer,
    request: &str,
    headers: &[(&str, impl AsRef<[u8]>)],
    body: impl AsRef<[u8]>,
) -> Response<ResponseBody> {
    let (method, path) = request.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value.as_ref()).unwrap());
    }
    let body = Full::new(Bytes::copy_from_slice(body.as_ref()));
    server.handle(request.body(body).unwrap()).await
}

/// The code and the whole body of a response.
pub(crate) async fn read(response: Response<ResponseBody>) -> (u16, Bytes) {
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap();
    (code, body.to_bytes())
}

/// Reads a response whose body is JSON.
pub(crate) async fn answer(response: Response<ResponseBody>) -> Answer {
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|text| text.to_str().unwrap().to_owned());
    let warnings = warnings.collect();
    let (code, body) = read(response).await;
    Answer {
        code,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        warnings,
    }
}

/// Sends `METHOD /path` with a body, a merge patch if it is a PATCH; null is no body.
pub(crate) async fn send(server: &ApiServer, request: &str, body: impl Borrow<Value>) -> Answer {
    send_as(server, "", request, body).await
}

/// Sends it, and returns the code and the body of the answer.
pub(crate) async fn outcome(
    server: &ApiServer,
    request: &str,
    body: impl Borrow<Value>,
) -> (u16, Value) {
    let answer = send(server, request, body).await;
    (answer.code, answer.body)
}

/// Sends it as another user.
pub(crate) async fn send_as(
    server: &ApiServer,
    user: &str,
    request: &str,
    body: impl Borrow<Value>,
) -> Answer {
    let content_type = match request.starts_with("PATCH ") {
        true => "application/merge-patch+json",
        false => "application/json",
    };
    let body = match body.borrow() {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let headers = [("content-type", content_type), ("impersonate-user", user)];
    let headers = &headers[..if user.is_empty() { 1 } else { 2 }];
    answer(respond(server, request, headers, body).await).await
}

/// Sends a body of this type.
pub(crate) async fn send_typed(
    server: &ApiServer,
    request: &str,
    content_type: &str,
    body: impl AsRef<[u8]>,
) -> Answer {
    let headers = [("content-type", content_type)];
    answer(respond(server, request, &headers, body).await).await
}
