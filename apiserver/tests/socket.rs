//! The same handler on a socket: HTTP/1.1, HTTP/2, and clients that misbehave.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubeproof_apiserver::{
    ApiServer, ContainerReference, ContainerStreams, Kubelet, KubeletError, LogOptions,
    WatchControl, serve,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Running {
    address: std::net::SocketAddr,
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

/// Opens a watch from now on over HTTP/1.1, with little room for what is not read.
async fn watch(running: &Running, server: &ApiServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stream = socket.connect(running.address).await.unwrap();
    let from = server.resource_version();
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={from}");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
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
        .header("host", "x")
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

/// Sends `bytes` on a new connection and waits for its end; tells after which virtual time it came.
async fn ends_after(running: &Running, bytes: &[u8]) -> (String, Duration) {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let began = tokio::time::Instant::now();
    stream.write_all(bytes).await.unwrap();
    (rest(stream).await, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn half_sent_heads_and_idle_connections_are_closed_as_upstream_closes_them() {
    let running = start().await;
    let seconds = Duration::from_secs;
    let half: [&[u8]; 4] = [
        b"",
        b"GET / HTT",
        b"GET /readyz HTTP/1.1\r\nhost: x\r\nx-more: ",
        b"PRI * HTTP/2.0\r\n\r\nS",
    ];
    for bytes in half {
        let (answer, after) = ends_after(&running, bytes).await;
        assert_eq!(answer, "", "{bytes:?}");
        assert!((seconds(32)..seconds(33)).contains(&after), "{after:?}");
    }
    // Between two requests there is more time, and from the first byte of the next as much as ever.
    let whole = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n";
    let (answer, after) = ends_after(&running, whole).await;
    assert!(answer.ends_with("ok"), "{answer}");
    assert!((seconds(89)..seconds(91)).contains(&after), "{after:?}");
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(whole).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") {
        answer.push(stream.read_u8().await.unwrap());
    }
    tokio::time::advance(seconds(50)).await;
    let began = tokio::time::Instant::now();
    stream.write_all(b"GET").await.unwrap();
    assert_eq!(rest(stream).await, "");
    let after = began.elapsed();
    assert!((seconds(31)..seconds(33)).contains(&after), "{after:?}");
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_of_http2_is_told_to_go_and_a_watch_is_not() {
    let server = ApiServer::builder().build();
    let running = start_with(server.clone()).await;
    let (mut client, task) = http2(&running).await;
    let mut watch = client
        .send_request(namespaces(
            "?watch=1&timeoutSeconds=600",
        ))
        .await
        .unwrap()
        .into_body();
    let began = tokio::time::Instant::now();
    let mut text = String::new();
    while let Some(frame) = watch.frame().await {
        let data = frame.unwrap().into_data().unwrap_or_default();
        text.push_str(std::str::from_utf8(&data).unwrap());
    }
    let after = began.elapsed();
    assert!(after >= Duration::from_secs(600), "{after:?}: {text}");
    // The client ends its side when it is told to go away.
    let began = tokio::time::Instant::now();
    task.await.unwrap().unwrap();
    let after = began.elapsed();
    let range = Duration::from_secs(89)..Duration::from_secs(92);
    assert!(range.contains(&after), "{after:?}");
    assert!(!client.is_ready());
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}

/// A kubelet with a fault of its own.
#[derive(Debug)]
struct Panicking;

impl Kubelet for Panicking {
    fn logs(
        &self,
        container: ContainerReference<'_>,
        _options: LogOptions,
    ) -> Result<BoxStream<'static, Bytes>, KubeletError> {
        panic!("no logs of {}", container.pod)
    }

    fn exec(
        &self,
        _container: ContainerReference<'_>,
        _command: Vec<String>,
        _stdin: bool,
    ) -> Result<ContainerStreams, KubeletError> {
        Err(KubeletError::Unreachable)
    }

    fn attach(&self, _container: ContainerReference<'_>) -> Result<ContainerStreams, KubeletError> {
        Err(KubeletError::Unreachable)
    }
}

#[tokio::test]
async fn a_handler_that_panics_answers_500_and_ends_no_other_stream() {
    let server = ApiServer::builder().build();
    server.set_kubelet(Arc::new(Panicking));
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
    });
    let request = Request::post("/api/v1/namespaces/default/pods")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(pod.to_string())))
        .unwrap();
    assert_eq!(server.handle(request).await.status(), 201);
    let running = start_with(server.clone()).await;
    let (mut client, task) = http2(&running).await;
    let watch = client.send_request(namespaces("?watch=1"));
    let mut watch = watch.await.unwrap().into_body();
    for _ in 0..2 {
        let request = Request::get("http://localhost/api/v1/namespaces/default/pods/p/log")
            .body(Empty::new())
            .unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 500);
        let headers = answer.headers();
        assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(headers.contains_key("audit-id"));
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let want = "This request caused apiserver to panic. Look in the logs for details.\n";
        assert_eq!(text, want);
    }
    let noted = "GET http://localhost/api/v1/namespaces/default/pods/p/log: no logs of p";
    assert_eq!(server.panics(), [noted; 2]);
    let first = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    drop((watch, client));
    task.await.unwrap().unwrap();
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}
