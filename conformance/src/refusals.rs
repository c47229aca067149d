//! Writes of controllers that the server refused: they leave no trace in the journal.
//!
//! Two refusals are left out, because they only show that a cache was stale, and the controller continues normally:
//! 409 Conflict, and 404 for the deletion of an object that is gone.
//! Whether they occur is a matter of timing, on which no golden should depend. Refused events and leases are not
//! shown either: they are not a controller's purpose, and an event's name is the time.

use std::convert::Infallible;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Either, Full};
use jiff::Timestamp;
use kube::client::Body;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, RequestInfo, ResponseBody};
use kubeproof_machinery::json::Value;
use parking_lot::Mutex;
use tower::{Service, ServiceExt};

/// The server's body as it is, or one that was read to its end.
type AnswerBody = Either<ResponseBody, Full<bytes::Bytes>>;

/// Resources whose refusals are not shown.
const HIDDEN_RESOURCES: &[&str] = &["events", "leases"];

/// One write that was refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The version of the last write before it.
    pub after_rv: ResourceVersion,
    /// When it was refused.
    pub time: Timestamp,
    /// The user agent of the writer.
    pub user_agent: String,
    /// Code, reason, request and message, on one line.
    pub what: String,
}

/// Sits between a client and the server and notes refused writes.
#[derive(Clone)]
pub(crate) struct Recorder {
    server: ApiServer,
    refusals: Arc<Mutex<Vec<Refusal>>>,
}

impl Recorder {
    pub(crate) fn new(server: ApiServer) -> Self {
        Self {
            server,
            refusals: Arc::default(),
        }
    }

    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.refusals.lock().clone()
    }

    async fn pass(self, request: Request<Body>) -> Result<Response<AnswerBody>, Infallible> {
        let method = request.method().clone();
        let uri = request.uri().clone();
        let user_agent = request.headers().get(http::header::USER_AGENT);
        let user_agent = user_agent.and_then(|value| value.to_str().ok());
        let user_agent = user_agent.unwrap_or_default().to_owned();
        let answer = self.server.clone().oneshot(request).await?;
        let is_refused = answer.status().is_client_error() || answer.status().is_server_error();
        // A refusal without a complete body belongs to an answer that gets lost.
        let is_whole = answer.body().size_hint().exact().is_some();
        if method == Method::GET || !is_refused || !is_whole {
            return Ok(answer.map(Either::Left));
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await;
        let bytes = body.expect("it is whole").to_bytes();
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let resource = short_path(&method, uri.path());
        if is_shown(&method, &resource, &status) {
            self.refusals.lock().push(Refusal {
                after_rv: self.server.resource_version(),
                time: self.server.clock().now(),
                user_agent,
                what: in_words(&method, head.status, &resource, &status),
            });
        }
        Ok(Response::from_parts(head, Either::Right(Full::new(bytes))))
    }
}

impl Service<Request<Body>> for Recorder {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, Infallible>>;

    fn poll_ready(
        &mut self,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}

/// Whether the refusal says something about the controller's behavior.
fn is_shown(method: &Method, resource: &str, status: &Value) -> bool {
    let resource = resource.split('/').next().unwrap_or_default();
    if HIDDEN_RESOURCES.contains(&resource) {
        return false;
    }
    match status["reason"].as_str() {
        Some("Conflict") => false,
        Some("NotFound") => method != Method::DELETE,
        _ => true,
    }
}

/// The resource, name and subresource in a request's path: `statefulsets/web/status`. Empty for a path of no resource.
fn short_path(method: &Method, path: &str) -> String {
    let Some(info) = RequestInfo::parse(method, path, "") else {
        return String::new();
    };
    let parts = [Some(info.resource), info.name, info.subresource];
    let parts: Vec<String> = parts.into_iter().flatten().chain(info.rest).collect();
    parts.join("/")
}

fn in_words(method: &Method, code: StatusCode, resource: &str, status: &Value) -> String {
    let reason = status["reason"].as_str().unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    // `StatefulSet.apps "web" is invalid: ` repeats the path.
    let message = message
        .split_once(" is invalid: ")
        .map_or(message, |(_, causes)| causes);
    let message = first_line(message);
    format!(
        "refused {} {reason}: {method} {resource}: {message}",
        code.as_u16()
    )
}

/// Returns the first line of a message; the other lines hold a diff of whole specs.
pub(crate) fn first_line(message: &str) -> String {
    match message.split_once('\n') {
        Some((first, _)) => format!("{} …", first.trim_end()),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn paths_are_shortened_to_what_is_written() {
        for (path, short) in [
            (
                "/apis/apps/v1/namespaces/default/statefulsets/web/status",
                "statefulsets/web/status",
            ),
            ("/api/v1/namespaces/default/pods", "pods"),
            ("/api/v1/namespaces/default", "namespaces/default"),
            (
                "/api/v1/namespaces/default/finalize",
                "namespaces/default/finalize",
            ),
        ] {
            assert_eq!(short_path(&Method::PUT, path), short);
        }
    }

    #[test]
    fn a_refusal_is_shown_without_what_its_path_says() {
        let status = json!({
            "reason": "Invalid",
            "message": "StatefulSet.apps \"web\" is invalid: spec.replicas: Invalid value: -1: why",
        });
        let resource = "statefulsets/web";
        let words = in_words(
            &Method::PUT,
            StatusCode::UNPROCESSABLE_ENTITY,
            resource,
            &status,
        );
        let expected = "refused 422 Invalid: PUT statefulsets/web: \
            spec.replicas: Invalid value: -1: why";
        assert_eq!(words, expected);
    }

    #[test]
    fn what_only_shows_a_stale_cache_is_not_shown() {
        let shown = |method, reason| is_shown(&method, "pods/web-0", &json!({"reason": reason}));
        assert!(!shown(Method::PUT, "Conflict"));
        assert!(!shown(Method::DELETE, "NotFound"));
        assert!(shown(Method::PATCH, "NotFound"));
        assert!(shown(Method::POST, "AlreadyExists"));
        let forbidden = json!({"reason": "Forbidden"});
        assert!(!is_shown(&Method::POST, "events", &forbidden));
    }
}
