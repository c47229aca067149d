//! The server over TLS, on a loopback socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubeproof_apiserver::{ApiServer, ServingCertificate, Tls, serve_tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto, version};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn start(tls: Tls) -> Running {
    start_server(ApiServer::builder().build(), tls).await
}

async fn start_server(server: ApiServer, tls: impl Into<ServingCertificate>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async { drop(stopped.await) };
    let served = tokio::spawn(serve_tls(server, listener, tls.into(), shutdown));
    Running {
        address,
        stop,
        served,
    }
}

fn generated() -> Tls {
    Tls::generate(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A connection of a client that trusts `authority` and means to talk to `name`.
async fn connect(
    address: SocketAddr,
    authority: &str,
    name: &str,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// The answer to a client without TLS, in the words of Go's `net/http`.
const PLAIN: &str =
    "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

fn namespaces(query: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://localhost/api/v1/namespaces{query}"))
        .header("host", "localhost")
        .body(Empty::new())
        .unwrap()
}

#[tokio::test]
async fn clients_that_trust_the_authority_reach_the_server_by_all_its_names() {
    let tls = generated();
    let authority = tls.authority_pem().to_owned();
    let running = start(tls).await;
    for name in [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "localhost",
        "kubernetes",
        "kubernetes.default.svc",
    ] {
        let stream = connect(running.address, &authority, name, "http/1.1").await;
        let mut stream = stream.unwrap_or_else(|error| panic!("{name}: {error}"));
        let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        // The connection may end without a farewell of TLS.
        drop(stream.read_to_string(&mut answer).await);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{name}: {answer}");
    }
    let other = connect(running.address, &authority, "example.com", "http/1.1").await;
    assert!(other.is_err(), "it answers for no other name");
    let foreign = generated();
    let distrusted = connect(
        running.address,
        foreign.authority_pem(),
        "localhost",
        "http/1.1",
    )
    .await;
    assert!(
        distrusted.is_err(),
        "each server has an authority of its own"
    );
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn alpn_chooses_http2_and_plain_text_costs_only_its_own_connection() {
    let tls = generated();
    let authority = tls.authority_pem().to_owned();
    let server = ApiServer::builder().build();
    let running = start_server(server.clone(), tls).await;
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    plain.write_all(request).await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, PLAIN);
    let metrics = Request::get("/metrics")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let metrics = server.handle(metrics).await.into_body();
    let metrics = metrics.collect().await.unwrap().to_bytes();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    assert!(metrics.contains("\napiserver_tls_handshake_errors_total 1\n"));

    let stream = connect(running.address, &authority, "localhost", "h2").await;
    let stream = stream.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let watch = client.send_request(namespaces("?watch=1")).await.unwrap();
    let mut watch = watch.into_body();
    let first = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));

    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
    while let Some(Ok(_)) = watch.frame().await {}
    drop(client);
    drop(connection.await);
}

#[tokio::test]
async fn plain_http_on_the_port_of_tls_is_answered_in_words() {
    let running = start(generated()).await;
    let large = format!("POST /api HTTP/1.1\r\n\r\n{}", "x".repeat(1 << 20));
    for (sent, answered) in [
        ("GET / HTTP/1.1\r\n\r\n", PLAIN),
        ("OPTIONS * HTTP/1.1\r\n\r\n", PLAIN),
        (&large, PLAIN),
        // Go knows no others.
        ("DELETE /api HTTP/1.1\r\n\r\n", ""),
        ("GETTING /api HTTP/1.1\r\n\r\n", ""),
        ("\x17\x03\x03\0\x05later", ""),
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer, answered, "{sent:.20}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_end_is_given_up() {
    let running = start(generated()).await;
    for hello in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let began = tokio::time::Instant::now();
        stream.write_all(hello).await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer).await;
        let after = began.elapsed().as_secs();
        assert_eq!((after, answer.len()), (32, 0));
    }
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_given_certificate_is_shown_in_place_of_a_generated_one() {
    let tls = generated();
    let (certificate, key) = tls.serving_pem();
    let read = ServingCertificate::read(certificate.as_bytes(), key.as_bytes()).unwrap();
    for (version, certificate, is_refused) in [
        (&version::TLS12, read.clone(), false),
        (&version::TLS12, read.clone().only_tls13(), true),
        (&version::TLS13, read.only_tls13(), false),
    ] {
        let running = start_server(ApiServer::builder().build(), certificate).await;
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(tls.authority_pem().as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let config =
            ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let stream = TcpStream::connect(running.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connected = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await;
        assert_eq!(connected.is_err(), is_refused, "{version:?}");
        drop(running.stop);
        running.served.await.unwrap().unwrap();
    }
}

#[test]
fn a_certificate_without_its_key_is_refused_in_the_words_of_go() {
    let (one, other) = (generated(), generated());
    let (certificate, key) = one.serving_pem();
    let why = |chain: &str, key: &str| {
        let read = ServingCertificate::read(chain.as_bytes(), key.as_bytes());
        read.unwrap_err().to_string()
    };
    assert_eq!(
        why("", key),
        "tls: failed to find any PEM data in certificate input"
    );
    assert_eq!(
        why(certificate, certificate),
        "tls: failed to find any PEM data in key input"
    );
    assert_eq!(
        why(certificate, other.serving_pem().1),
        "tls: private key does not match public key"
    );
    let broken = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
    assert_eq!(why(certificate, broken), "tls: failed to parse private key");
}

#[test]
fn a_certificate_of_version_1_can_be_shown() {
    // As openssl makes them without extensions.
    let pair = include_bytes!("tls/version_1.pem");
    ServingCertificate::read(pair, pair).unwrap();
    let unreadable = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(ServingCertificate::read(unreadable, pair).is_err());
}
