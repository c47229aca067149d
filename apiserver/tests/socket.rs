//! The same handler on a socket: HTTP/1.1, HTTP/2, and clients that misbehave.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubeproof_apiserver::{ApiServer, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

struct Running {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async { drop(stopped.await) };
    let served = tokio::spawn(serve(ApiServer::builder().build(), listener, shutdown));
    Running {
        address,
        stop,
        served,
    }
}

fn namespaces(query: &str) -> Request<Empty<Bytes>> {
    let uri = format!("http://localhost/api/v1/namespaces{query}");
    Request::get(uri)
        .header("host", "localhost")
        .body(Empty::new())
        .unwrap()
}

#[tokio::test]
async fn both_versions_of_http_are_served_and_shutdown_ends_watches() {
    let running = start().await;
    let stream = TokioIo::new(TcpStream::connect(running.address).await.unwrap());
    let (mut http1, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let http1_task = tokio::spawn(connection);
    let listed = http1.send_request(namespaces("")).await.unwrap();
    assert_eq!(listed.status(), 200);
    assert!(
        !listed
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .is_empty()
    );

    let stream = TokioIo::new(TcpStream::connect(running.address).await.unwrap());
    let executor = TokioExecutor::new();
    let (mut http2, connection) = hyper::client::conn::http2::handshake(executor, stream)
        .await
        .unwrap();
    let http2_task = tokio::spawn(connection);
    let mut watch = http2
        .send_request(namespaces("?watch=1"))
        .await
        .unwrap()
        .into_body();
    let first = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    let listed = http2.send_request(namespaces("")).await.unwrap();
    assert_eq!(listed.status(), 200, "beside the open watch");

    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
    while let Some(Ok(_)) = watch.frame().await {}
    drop((http1, http2));
    drop((http1_task.await, http2_task.await));
}

#[tokio::test]
async fn clients_that_misbehave_cost_only_their_own_connection() {
    let running = start().await;
    let garbage: &[&[u8]] = &[
        b"",
        b"\x00\x01\x02",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // Whatever the server says to it, it must end the connection by itself.
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
        drop(read.await.expect("the connection ends"));
    }
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"),
        "{answer}"
    );
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}
