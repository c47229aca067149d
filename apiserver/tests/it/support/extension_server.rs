//! An API server of someone's own behind TLS, on loopback: the resource `flunders` of `wardle.example.com`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeproof_apiserver::json::{Value, json};
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::ports::RefusingPort;
use super::webhook_server::acceptor;

pub(crate) const GROUP: &str = "wardle.example.com";
pub(crate) const VERSION: &str = "v1alpha1";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether the server has the aggregated form of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    Aggregated,
    Legacy,
}

/// What has come in, and what goes out in a watch.
struct Shared {
    discovery: Discovery,
    seen: Mutex<Vec<(Parts, Bytes)>>,
    /// The events of the next watch.
    events: Mutex<Option<mpsc::Receiver<Value>>>,
}

/// A running server; it ends when it is dropped.
pub(crate) struct ExtensionServer {
    pub(crate) address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    connections: JoinSet<()>,
}

impl ExtensionServer {
    pub(crate) async fn start(discovery: Discovery) -> Self {
        Self::start_for(WebPkiClientVerifier::no_client_auth(), discovery).await
    }

    /// A server that takes in only clients that `clients` does.
    pub(crate) async fn start_for(
        clients: Arc<dyn ClientCertVerifier>,
        discovery: Discovery,
    ) -> Self {
        let key = KeyPair::generate().unwrap();
        let names = vec!["ext.default.svc".to_owned()];
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let acceptor = acceptor(&certificate, &key, clients);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            discovery,
            seen: Mutex::default(),
            events: Mutex::default(),
        });
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Self {
            address,
            ca_pem: certificate.pem(),
            shared,
            connections,
        }
    }

    /// Closes its socket and its connections. Its port refuses connections from here on.
    pub(crate) async fn stop(mut self) -> RefusingPort {
        self.connections.shutdown().await;
        RefusingPort::at(self.address)
    }

    /// The authority of its certificate.
    pub(crate) fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }

    /// The APIService of its group version, with the service `default/ext`.
    pub(crate) fn api_service(&self) -> Value {
        api_service(GROUP, VERSION, json!({"caBundle": self.ca_bundle()}))
    }

    /// The requests of others than the aggregator, as far as they have come in.
    pub(crate) fn seen(&self) -> Vec<(Parts, Bytes)> {
        let seen = self.shared.seen.lock();
        let others = seen.iter().filter(|(parts, _)| {
            let user = parts.headers.get("x-remote-user");
            user.is_none_or(|user| user != "system:kube-aggregator")
        });
        others.cloned().collect()
    }

    /// The next watch is that of the events that are sent here.
    pub(crate) fn events(&self) -> mpsc::Sender<Value> {
        let (sender, receiver) = mpsc::channel(8);
        *self.shared.events.lock() = Some(receiver);
        sender
    }
}

/// An APIService of the service `default/ext`, with more in its spec.
pub(crate) fn api_service(group: &str, version: &str, more: Value) -> Value {
    let mut spec = json!({
        "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
        "service": {"namespace": "default", "name": "ext"},
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": format!("{version}.{group}")}, "spec": spec})
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            // A client that does not trust the certificate leaves.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(|request| answer(request, &shared));
            let connection = hyper::server::conn::http1::Builder::new();
            let served = connection.serve_connection(TokioIo::new(stream), service);
            drop(served.with_upgrades().await);
        });
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

async fn answer(request: Request<Incoming>, shared: &Shared) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    shared.seen.lock().push((parts.clone(), body.clone()));
    let path = parts.uri.path();
    let flunders = format!("/apis/{GROUP}/{VERSION}/namespaces/default/flunders");
    let version = format!("/apis/{GROUP}/{VERSION}");
    let is_watch = parts.uri.query() == Some("watch=true");
    Ok(match path {
        "/apis" if shared.discovery == Discovery::Aggregated => {
            whole(200, AGGREGATED, &aggregated())
        }
        "/openapi/v3" => {
            let key = format!("apis/{GROUP}/{VERSION}");
            let url = format!("/openapi/v3/{key}?hash=1");
            let index = json!({"paths": {key: {"serverRelativeURL": url}, "api": {}}});
            whole(200, "application/json", &index)
        }
        path if path == format!("/openapi/v3{version}") => {
            whole(200, "application/json", &json!({"openapi": "3.0.0"}))
        }
        path if path == version => whole(200, "application/json", &resources()),
        path if path == flunders && is_watch => {
            let events = shared.events.lock().take().unwrap();
            let events = futures::stream::unfold(events, async |mut events| {
                let event = events.recv().await?;
                let line = Bytes::from(format!("{event}\n"));
                Some((Ok(Frame::data(line)), events))
            });
            let body = BodyExt::boxed_unsync(StreamBody::new(events));
            let response = Response::builder().header("content-type", "application/json");
            response.body(body).unwrap()
        }
        path if path == flunders && parts.method == "POST" => {
            let made: Value = serde_json::from_slice(&body).unwrap();
            whole(201, "application/json", &made)
        }
        path if path == flunders => {
            let list = json!({"kind": "FlunderList", "apiVersion": format!("{GROUP}/{VERSION}"),
                "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}]});
            let mut response = whole(200, "application/json", &list);
            let headers = response.headers_mut();
            headers.insert("x-served-by", "extension".parse().unwrap());
            headers.insert("access-control-allow-origin", "*".parse().unwrap());
            headers.insert("keep-alive", "timeout=5".parse().unwrap());
            response
        }
        path if path == format!("{flunders}/moved") => {
            let mut response = whole(302, "application/json", &json!({}));
            let headers = response.headers_mut();
            headers.insert("location", "https://elsewhere.example".parse().unwrap());
            response
        }
        _ => whole(
            404,
            "application/json",
            &json!({"kind": "Status", "code": 404}),
        ),
    })
}

fn whole(code: u16, content_type: &str, document: &Value) -> Answer {
    let body = Full::new(Bytes::from(document.to_string()));
    let response = Response::builder().status(code);
    let response = response.header("content-type", content_type);
    response.body(BodyExt::boxed_unsync(body)).unwrap()
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                "verbs": ["get", "list"], "shortNames": ["fl"]},
            {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder",
                "verbs": ["get"]},
        ],
    })
}

fn aggregated() -> Value {
    let resources = json!([{
        "resource": "flunders", "scope": "Namespaced", "singularResource": "flunder",
        "verbs": ["get", "list"], "shortNames": ["fl"], "odd": 1,
    }]);
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{"metadata": {"name": GROUP}, "versions": [
            {"version": VERSION, "resources": resources, "freshness": "Current"}]}],
    })
}
