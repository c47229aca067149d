//! Requests in process, and their answers.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use serde_json::Value;

/// An answer.
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
}

/// Sends `METHOD /path` with a body, a merge patch if it is a PATCH.
pub(crate) async fn send(server: &ApiServer, request: &str, body: Value) -> Answer {
    send_as(server, "", request, body).await
}

/// Sends it as another user.
pub(crate) async fn send_as(server: &ApiServer, user: &str, request: &str, body: Value) -> Answer {
    let (method, path) = request.split_once(' ').unwrap();
    let content_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type);
    if !user.is_empty() {
        request = request.header("impersonate-user", user);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = server.handle(request).await;
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|text| text.to_str().unwrap().to_owned());
    let (code, warnings) = (response.status().as_u16(), warnings.collect());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer {
        code,
        body,
        warnings,
    }
}
