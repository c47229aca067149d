//! The webhooks over HTTPS, for any API server that has OpenKruise's definitions.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Client;
use kubeproof_apiserver::{Tls, serve_each};
use kubeproof_controller::kruise::Gates;
use tokio::net::{TcpListener, TcpStream};

use super::answer;

/// No review is larger: it holds an object as it was and as it is to be.
const REVIEW_BYTES_MAX: usize = 8 << 20;

/// What answers reviews.
#[derive(Clone)]
pub struct TlsWebhook {
    /// The certificate, and its key.
    pub tls: Tls,
    /// Where pods are looked up: the API server that asks.
    pub client: Client,
    /// Which gates are on.
    pub gates: Gates,
}

/// Answers on `listener` until `shutdown` completes; then ends the open connections and joins them.
///
/// # Errors
/// Those of the listener, none of a connection's.
pub async fn serve(
    webhook: TlsWebhook,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let webhook = Arc::new(webhook);
    serve_each(listener, shutdown, |stream| {
        connection(Arc::clone(&webhook), stream)
    })
    .await
}

/// Answers the requests of a connection until it ends, in whatever way.
async fn connection(webhook: Arc<TlsWebhook>, stream: TcpStream) {
    // Who does not get through the handshake learns why from it.
    let Ok(stream) = webhook.tls.acceptor().accept(stream).await else {
        return;
    };
    let service = service_fn(|request| {
        let webhook = Arc::clone(&webhook);
        async move { Ok::<_, Infallible>(respond(&webhook, request).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let served = builder.serve_connection(TokioIo::new(stream), service);
    // A caller that goes away has told its own side.
    let _ = served.await;
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
    let answer = answer(&path, &document, webhook.gates, &webhook.client).await;
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
