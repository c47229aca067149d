//! A webhook as controller-runtime serves it: TLS with a leaf certificate that is in the configuration itself.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::plane::Pair;

/// A running webhook that refuses every review. It ends when it is dropped.
pub(super) struct Webhook {
    pub(super) port: u16,
    paths: Arc<Mutex<Vec<String>>>,
    _connections: JoinSet<()>,
}

impl Webhook {
    pub(super) async fn start(pair: &Pair) -> Self {
        let provider = Arc::new(crypto::ring::default_provider());
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let paths = Arc::new(Mutex::new(Vec::new()));
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, acceptor, Arc::clone(&paths)));
        Self {
            port,
            paths,
            _connections: connections,
        }
    }

    /// The paths of all calls so far.
    pub(super) fn paths(&self) -> Vec<String> {
        self.paths.lock().clone()
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, paths: Arc<Mutex<Vec<String>>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, paths) = (acceptor.clone(), Arc::clone(&paths));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(|request| review(request, &paths));
            let connection = hyper::server::conn::http1::Builder::new();
            let served = connection.serve_connection(TokioIo::new(stream), service);
            drop(served.await);
        });
    }
}

async fn review(
    request: Request<Incoming>,
    paths: &Mutex<Vec<String>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    paths.lock().push(request.uri().path().to_owned());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": {
            "uid": review["request"]["uid"],
            "allowed": false,
            "status": {"message": "not on my watch"},
        },
    });
    let response = Response::builder().header("content-type", "application/json");
    Ok(response
        .body(Full::new(Bytes::from(answer.to_string())))
        .unwrap())
}
