//! A webhook as a cluster would have one: a server of its own behind TLS, on loopback.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeproof_apiserver::json::{Value, json};
use parking_lot::Mutex;
use rcgen::{
    Certificate, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType,
};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};

/// The reaction of a webhook to a request.
pub(crate) enum Reply {
    /// Answers with a document.
    Json(Value),
    /// Answers with a code and a text.
    Text(u16, &'static str),
    /// Never answers.
    Silence,
}

type Handler = dyn Fn(&Value) -> Reply + Send + Sync;

/// The headers and the document of a request.
type Seen = (HeaderMap, Value);

/// A running webhook; it ends when it is dropped.
pub(crate) struct WebhookServer {
    pub(crate) address: SocketAddr,
    ca_pem: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _connections: JoinSet<()>,
}

impl WebhookServer {
    /// A webhook whose certificate is for loopback and for the service `hook` in `default`.
    pub(crate) async fn start(handler: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let names = vec![
            SanType::IpAddress(address),
            SanType::DnsName("hook.default.svc".try_into().unwrap()),
        ];
        Self::start_named(names, handler).await
    }

    /// A webhook whose certificate is for `names`.
    pub(crate) async fn start_named(
        names: Vec<SanType>,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Self::start_certified(certificate, &key, issuer.pem(), handler).await
    }

    /// A webhook with a certificate and its key, in whose configuration `ca_pem` is the authority.
    pub(crate) async fn start_certified(
        certificate: Certificate,
        key: &KeyPair,
        ca_pem: String,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let clients = WebPkiClientVerifier::no_client_auth();
        Self::start_for(clients, (certificate, key), ca_pem, handler).await
    }

    /// A webhook for loopback that takes in only clients with a certificate of `authority`.
    pub(crate) async fn start_mutual(
        authority: &str,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let pem = certificate.pem();
        Self::start_for(clients.build().unwrap(), (certificate, &key), pem, handler).await
    }

    async fn start_for(
        clients: Arc<dyn ClientCertVerifier>,
        (certificate, key): (Certificate, &KeyPair),
        ca_pem: String,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let acceptor = acceptor(&certificate, key, clients);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(handler);
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, acceptor, Arc::clone(&seen), handler));
        Self {
            address,
            ca_pem,
            seen,
            _connections: connections,
        }
    }

    /// A client configuration that reaches the webhook by its address.
    pub(crate) fn by_url(&self, path: &str) -> Value {
        json!({ "url": format!("https://{}{path}", self.address), "caBundle": self.ca_bundle() })
    }

    /// The authority of its certificate.
    pub(crate) fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }

    /// Every document received so far.
    pub(crate) fn seen(&self) -> Vec<Value> {
        let seen = self.seen.lock();
        seen.iter().map(|(_, document)| document.clone()).collect()
    }

    /// The values of a header in every request so far; empty where it is absent.
    pub(crate) fn seen_header(&self, name: &str) -> Vec<String> {
        let seen = self.seen.lock();
        let values = seen.iter().map(|(headers, _)| headers.get(name));
        let values = values.map(|value| value.map_or("", |value| value.to_str().unwrap()));
        values.map(str::to_owned).collect()
    }

    /// The authority of its certificate, in PEM.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }
}

pub(crate) fn acceptor(
    certificate: &Certificate,
    key: &KeyPair,
    clients: Arc<dyn ClientCertVerifier>,
) -> TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    seen: Arc<Mutex<Vec<Seen>>>,
    handler: Arc<Handler>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        let handler = Arc::clone(&handler);
        connections.spawn(async move {
            // A client that does not trust the certificate leaves.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(|request| answer(request, &seen, &*handler));
            let connection = hyper::server::conn::http1::Builder::new();
            drop(
                connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: &Mutex<Vec<Seen>>,
    handler: &Handler,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let headers = request.headers().clone();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let document = serde_json::from_slice(&body).unwrap();
    let reply = handler(&document);
    seen.lock().push((headers, document));
    let (code, content_type, body) = match reply {
        Reply::Json(value) => (200, "application/json", value.to_string()),
        Reply::Text(code, text) => (code, "text/plain", text.to_owned()),
        Reply::Silence => std::future::pending().await,
    };
    let response = Response::builder()
        .status(code)
        .header("content-type", content_type);
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}
