//! The server on a socket: HTTP/1.1, HTTP/2, and clients that misbehave.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limits;
mod panics;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Authorization, WatchControl, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

async fn start() -> Running {
    start_with(ApiServer::builder().build()).await
}

async fn start_with(server: ApiServer) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async { drop(stopped.await) };
    let served = tokio::spawn(serve(server, listener, shutdown));
    Running {
        address,
        stop,
        served,
    }
}

type Http2 = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

/// A connection of HTTP/2, and the task that runs it.
async fn http2(running: &Running) -> (Http2, JoinHandle<hyper::Result<()>>) {
    let stream = TokioIo::new(TcpStream::connect(running.address).await.unwrap());
    let executor = TokioExecutor::new();
    let connected = hyper::client::conn::http2::handshake(executor, stream).await;
    let (client, connection) = connected.unwrap();
    (client, tokio::spawn(connection))
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

    let (mut http2, http2_task) = http2(&running).await;
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
        b"POST /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
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
    let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
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

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates a ConfigMap of 64 KiB, not by the socket.
async fn create(server: &ApiServer, name: &str) {
    let object = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(64 * 1024)}});
    let request = Request::post(CONFIGMAPS)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(object.to_string())))
        .unwrap();
    assert_eq!(server.handle(request).await.status(), 201);
}

/// Opens a watch from now on over HTTP/1.1, with little room for unread bytes.
async fn watch(running: &Running, server: &ApiServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stream = socket.connect(running.address).await.unwrap();
    let from = server.resource_version();
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={from}");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 OK"));
    stream
}

/// Everything up to the end of the connection, however it ends.
async fn rest(mut stream: TcpStream) -> String {
    let mut read = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut read).await;
    String::from_utf8(read).unwrap()
}

/// The events in a chunked body, each `TYPE name`; one that was cut off is left out.
fn events(chunked: &str) -> Vec<String> {
    let lines = chunked
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    lines
        .filter(Value::is_object)
        .map(|event| {
            let name = text(&event["object"]["metadata"]["name"]);
            format!("{} {name}", text(&event["type"]))
        })
        .collect()
}

#[tokio::test]
async fn a_client_that_reads_late_is_expired_and_nobody_else_misses_an_event() {
    let server = ApiServer::builder().watch_window_events(16).build();
    let running = start_with(server.clone()).await;
    let slow = watch(&running, &server).await;
    let stream = TokioIo::new(TcpStream::connect(running.address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let task = tokio::spawn(connection);
    let from = server.resource_version();
    let request = Request::get(format!("{CONFIGMAPS}?watch=1&resourceVersion={from}"))
        .header("host", "localhost")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let mut prompt = client.send_request(request).await.unwrap().into_body();
    let names: Vec<String> = (0..120).map(|index| format!("m{index:04}")).collect();
    for name in &names {
        create(&server, name).await;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let frame = prompt.frame().await.unwrap().unwrap();
            line.extend_from_slice(&frame.into_data().unwrap());
        }
        let event: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(event["object"]["metadata"]["name"], name.as_str());
    }
    let seen = rest(slow).await;
    assert!(seen.ends_with("0\r\n\r\n"), "a proper end");
    let seen = events(&seen);
    let (last, seen) = seen.split_last().unwrap();
    assert_eq!(last, "ERROR -", "410 Expired");
    assert!((1..names.len()).contains(&seen.len()), "{}", seen.len());
    let in_order = seen.iter().zip(&names);
    for (event, name) in in_order {
        assert_eq!(*event, format!("ADDED {name}"));
    }
    drop(prompt);
    drop(client);
    drop(task.await);
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_for_a_minute_loses_its_connection() {
    let server = ApiServer::builder().build();
    let running = start_with(server.clone()).await;
    let stuck = watch(&running, &server).await;
    for index in 0..120 {
        create(&server, &format!("m{index:04}")).await;
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(61)).await;
    let seen = rest(stuck).await;
    assert!(!seen.ends_with("0\r\n\r\n"), "cut off");
    let seen = events(&seen);
    assert!((1..120).contains(&seen.len()), "{}", seen.len());
    assert!(seen.iter().all(|event| event.starts_with("ADDED")));
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_closed_watch_ends_properly_and_a_dropped_one_in_the_middle() {
    let server = ApiServer::builder().build();
    let running = start_with(server.clone()).await;
    for (control, is_whole) in [(WatchControl::Close, true), (WatchControl::Drop, false)] {
        let stream = watch(&running, &server).await;
        server.control_watches(control, None);
        let seen = rest(stream).await;
        assert_eq!(seen == "0\r\n\r\n", is_whole, "{control:?}: {seen:?}");
    }
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_web_page_is_no_administrator_of_a_server_without_credentials() {
    let token = Some("secret".to_owned());
    let open = ApiServer::builder()
        .own_hosts(vec!["api.test".to_owned()])
        .build();
    let closed = ApiServer::builder().token(token.clone()).build();
    let lax = ApiServer::builder()
        .token(token)
        .authorization(Authorization::AlwaysAllow)
        .build();
    let asking = ApiServer::builder().ask_for_credentials().build();
    let rows = [
        (&open, "localhost", "", 201),
        (&open, "Api.Test", "", 201),
        (&open, "localhost", "http://127.0.0.1:3000", 201),
        (&open, "evil.example", "", 403),
        (&open, "localhost", "http://evil.example", 403),
        (&open, "127.0.0.1", "null", 403),
        (&lax, "evil.example", "", 403),
        (&lax, "localhost", "", 201),
        // Nobody in particular may do nothing, whatever the host is.
        (&closed, "localhost", "", 403),
        (&asking, "localhost", "", 403),
    ];
    for (server, host, origin, want) in rows {
        let running = start_with(server.fork()).await;
        let stream = TokioIo::new(TcpStream::connect(running.address).await.unwrap());
        let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        let task = tokio::spawn(connection);
        // A web page may send a body without a type and without permission of the server.
        let mut request = Request::post(CONFIGMAPS).header("host", host);
        if !origin.is_empty() {
            request = request.header("origin", origin);
        }
        let object = json!({"metadata": {"name": "a"}}).to_string();
        let request = request.body(Full::<Bytes>::from(object)).unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.status(), want, "{host} {origin}");
        running.stop.send(()).unwrap();
        running.served.await.unwrap().unwrap();
        drop(client);
        drop(task.await);
    }
    // No web page can send requests in process.
    create(&open, "b").await;
    let request = Request::get("http://evil.example/api")
        .body(Empty::<Bytes>::new())
        .unwrap();
    assert_eq!(asking.handle(request).await.status(), 200);
}

/// A body of about 1.4 MB that takes a debug build a second or more.
fn large_body(name: &str) -> String {
    let reference = |at: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("n{at}"), "uid": format!("u{at}")});
    let references: Vec<Value> = (0..20_000).map(reference).collect();
    json!({"metadata": {"name": name, "ownerReferences": references}}).to_string()
}

async fn post(address: SocketAddr, query: &'static str, body: String) -> (u16, Value) {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let task = tokio::spawn(connection);
    let request = Request::post(format!("{CONFIGMAPS}{query}"))
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    let code = response.status().as_u16();
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    task.abort();
    (code, serde_json::from_slice(&answer).unwrap())
}

/// The runtime has a single worker: a request that kept it busy would block all others.
#[tokio::test]
async fn large_requests_leave_others_served() {
    let running = start().await;
    let large = futures::future::join_all((0..3).map(|at| {
        let body = large_body(&format!("large-{at}"));
        post(running.address, "?dryRun=All", body)
    }));
    let healthy = async {
        for _ in 0..5 {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("ok"), "{answer}");
        }
    };
    tokio::pin!(large);
    tokio::select! {
        _ = &mut large => panic!("small requests waited for large ones"),
        () = healthy => {}
    }
    for (code, answer) in large.await {
        assert_eq!(code, 201, "{answer}");
    }
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_whose_time_is_over_is_answered_and_not_stored() {
    let server = ApiServer::builder().build();
    let running = start_with(server.clone()).await;
    let (code, status) = post(running.address, "?timeout=1ms", large_body("late")).await;
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
    assert_eq!(
        status["message"],
        "Timeout: request did not complete within the allotted timeout"
    );
    let metrics = Request::get("/metrics").body(Empty::<Bytes>::new());
    let metrics = server.handle(metrics.unwrap()).await.into_body();
    let metrics = metrics.collect().await.unwrap().to_bytes();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let terminated = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_terminations_total{code=\"504\"")
            && line.contains("resource=\"configmaps\"")
    });
    assert_eq!(terminated.count(), 1, "{metrics}");
    // The name is still free: the write that timed out was not and will not be made.
    let (code, answer) = post(running.address, "", large_body("late")).await;
    assert_eq!(code, 201, "{answer}");
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}
