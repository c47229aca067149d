//! The webhooks over HTTPS, for any API server that has OpenKruise's definitions.

use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use kube::Client;
use kubeproof_apiserver::{Clock, Tls, serve_requests};
use kubeproof_controller::kruise::Gates;
use tokio::net::TcpListener;

use super::answer;

/// No review is larger: it holds an object as it was and as it is to be.
const REVIEW_BYTES_MAX: usize = 8 << 20;

/// The webhooks behind TLS, with what they need for reviews.
#[derive(Clone)]
pub struct TlsWebhook {
    /// The certificate, and its key.
    pub tls: Tls,
    /// The client of the API server that sends reviews, for looking up pods.
    pub client: Client,
    /// Which gates are on.
    pub gates: Gates,
}

/// Answers on `listener` until `shutdown` completes; then ends the open connections and joins them.
///
/// # Errors
/// Errors of the listener, not of single connections.
pub async fn serve(
    webhook: TlsWebhook,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (acceptor, webhook) = (webhook.tls.acceptor(), Arc::new(webhook));
    let answer = move |request| {
        let webhook = Arc::clone(&webhook);
        async move { respond(&webhook, request).await }
    };
    serve_requests(listener, Some(acceptor), shutdown, answer).await
}

async fn respond(webhook: &TlsWebhook, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::POST {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "reviews are posted");
    }
    let path = request.uri().path().to_owned();
    let body = Limited::new(request.into_body(), REVIEW_BYTES_MAX);
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let document = match serde_json::from_slice(&body) {
        Ok(document) => document,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let surroundings = (&webhook.client, Clock::real().now());
    let answer = answer(&path, &document, webhook.gates, surroundings).await;
    let mut response = Response::new(Full::from(answer.to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn refused(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{why}\n")));
    *response.status_mut() = status;
    response
}
