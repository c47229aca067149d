//! Ports of pods: connections to programs on loopback, and to a small HTTP server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeproof_apiserver::{PodPorts, PortConnection};
use kubeproof_node::{Asked, Behind, Network, Site, loopback};
use tokio::io::DuplexStream;
use tokio::net::TcpStream;

/// The buffer between a client and the HTTP server, in bytes.
const PIPE_BYTES: usize = 64 * 1024;

/// The number of bytes that a program reads of a request's body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The target of a port of pods: `NAMESPACE/POD:PORT=ADDRESS`, on loopback. A `*` at the end of the pod's name stands
/// for any rest of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortForward {
    namespace: String,
    pod: String,
    is_prefix: bool,
    port: u16,
    address: SocketAddr,
}

/// A text that is not a [`PortForward`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected NAMESPACE/POD:PORT=ADDRESS:PORT, with an address of loopback")]
pub struct BadPortForward;

impl FromStr for PortForward {
    type Err = BadPortForward;

    fn from_str(text: &str) -> Result<Self, BadPortForward> {
        let parsed = || {
            let (target, address) = text.split_once('=')?;
            let (namespace, pod) = target.split_once('/')?;
            let (pod, port) = pod.split_once(':')?;
            let name = pod.strip_suffix('*');
            Some(Self {
                namespace: namespace.to_owned(),
                pod: name.unwrap_or(pod).to_owned(),
                is_prefix: name.is_some(),
                port: port.parse().ok().filter(|port| *port != 0)?,
                address: loopback(address)?,
            })
        };
        parsed().ok_or(BadPortForward)
    }
}

impl PortForward {
    /// The address, if it is `port` of this pod that leads there.
    fn address(&self, network: &Network, port: u16) -> Option<SocketAddr> {
        let named = match self.is_prefix {
            true => network.pod().starts_with(&self.pod),
            false => network.pod() == self.pod,
        };
        let leads = self.namespace == network.namespace() && named && self.port == port;
        leads.then_some(self.address)
    }
}

/// The ports of a pod.
pub(super) fn of(network: Network, forwards: Arc<[PortForward]>) -> PodPorts {
    PodPorts {
        sandbox: network.sandbox(),
        connect: Box::new(move |port| {
            let mut stated = forwards.iter();
            let stated = stated.find_map(|forward| forward.address(&network, port));
            let address = network.forwarded(port).or(stated);
            connect(network.clone(), port, address).boxed()
        }),
    }
}

async fn connect(
    network: Network,
    port: u16,
    address: Option<SocketAddr>,
) -> Result<PortConnection, String> {
    if let Some(address) = address.filter(|_| network.is_running()) {
        let connected = TcpStream::connect(address).await;
        let connected = connected.map_err(|_| network.refused(port))?;
        let (reader, writer) = connected.into_split();
        return Ok(PortConnection {
            reader: Box::new(reader),
            writer: Box::new(writer),
            serving: network.ended(),
        });
    }
    match network.connect(port) {
        Behind::Program(connection) => {
            let (reader, writer) = tokio::io::split(connection);
            Ok(PortConnection {
                reader: Box::new(reader),
                writer: Box::new(writer),
                serving: network.ended(),
            })
        }
        Behind::Site(site) => Ok(visit(*site)),
        Behind::Nobody => Err(network.refused(port)),
    }
}

/// A connection to the HTTP server of a container.
fn visit(site: Site) -> PortConnection {
    let (client, server) = tokio::io::duplex(PIPE_BYTES);
    let ended = site.ended();
    let (reader, writer) = tokio::io::split(client);
    PortConnection {
        reader: Box::new(reader),
        writer: Box::new(writer),
        serving: serve(site_answers(site), TokioIo::new(server), ended).boxed(),
    }
}

fn site_answers(
    site: Site,
) -> impl Fn(Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>> {
    let site = Arc::new(site);
    move |request| {
        let site = Arc::clone(&site);
        async move { answer(&site, request).await }.boxed()
    }
}

/// Answers requests until the container has ended.
async fn serve(
    answer: impl Fn(Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>>,
    io: TokioIo<DuplexStream>,
    ended: BoxFuture<'static, ()>,
) {
    let service = service_fn(|request| answer(request).map(Ok::<_, Infallible>));
    let mut server = http1::Builder::new();
    // Equal requests get equal answers; and who has ended its requests still reads these.
    server.auto_date_header(false).half_close(true);
    let served = async {
        // A client that does not speak HTTP has already got an answer that says so.
        let _ = server.serve_connection(io, service).await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        never = served => match never {},
        () = ended => {}
    }
}

async fn answer(site: &Site, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if site.serves_files() && !reads {
        let mut refused = Response::new(Full::default());
        *refused.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        let headers = refused.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
    let body = body.map_or_else(|_| Bytes::new(), Collected::to_bytes);
    let body = String::from_utf8_lossy(&body);
    let asked = Asked {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        body: &body,
    };
    let page = site.answer(asked).await;
    let mut response = Response::new(Full::from(page.body));
    *response.status_mut() = StatusCode::from_u16(page.status).expect("pages have codes of HTTP");
    let content_type = HeaderValue::from_static(page.content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Returns the answers to `requests` of a server whose pages show the method and the path.
    async fn answers(requests: &str) -> String {
        let answer = |request: Request<Incoming>| {
            let text = format!("{} {}", request.method(), request.uri().path());
            std::future::ready(Response::new(Full::from(text))).boxed()
        };
        let (mut client, server) = tokio::io::duplex(PIPE_BYTES);
        client.write_all(requests.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let (ending, ended) = tokio::sync::oneshot::channel::<()>();
        let serving = serve(answer, TokioIo::new(server), ended.map(drop).boxed());
        let reading = async {
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            drop(ending);
            text
        };
        tokio::join!(serving, reading).1
    }

    #[tokio::test]
    async fn requests_are_answered_one_after_the_other_and_alike() {
        let requests = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nHEAD /b HTTP/1.1\r\nHost: h\r\n\r\n\
                        GET /c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /d HTTP/1.1\r\n\r\n";
        let expected = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nGET /a\
                        HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n\
                        HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 6\r\n\r\nGET /c";
        assert_eq!(answers(requests).await, expected);
        let malformed = answers("no HTTP\r\n\r\n").await;
        assert!(
            malformed.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{malformed}"
        );
    }

    #[test]
    fn a_forward_names_a_port_of_pods_and_an_address_on_loopback() {
        let all: PortForward = "default/web-*:80=localhost:3000".parse().unwrap();
        assert_eq!((all.pod.as_str(), all.is_prefix), ("web-", true));
        assert_eq!(all.address, "127.0.0.1:3000".parse().unwrap());
        let one: PortForward = "a/b:1=[::1]:2".parse().unwrap();
        assert!(!one.is_prefix);
        for malformed in [
            "",
            "web:80=127.0.0.1:1",
            "a/web=127.0.0.1:1",
            "a/web:0=127.0.0.1:1",
            "a/web:80=10.0.0.1:1",
            "a/web:80=example.com:1",
        ] {
            assert_eq!(malformed.parse::<PortForward>(), Err(BadPortForward));
        }
    }
}
