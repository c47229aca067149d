//! Logs and streams of containers, with a kubelet of the test's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, SinkExt, StreamExt};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{
    ApiServer, ContainerReference, ContainerStreams, ExecOptions, Kubelet, KubeletError,
    LogOptions, OutputStream, PodPorts, PodReference, PortConnection, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::requests::{read, respond};

/// A kubelet whose logs repeat the request, and whose processes echo their input until it ends.
#[derive(Debug)]
struct Echo;

impl Kubelet for Echo {
    fn logs(
        &self,
        container: ContainerReference<'_>,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Bytes>, KubeletError> {
        if options.previous {
            return Err(KubeletError::BadRequest("no previous".to_owned()));
        }
        if container.node != "node-1" {
            return Err(KubeletError::Unreachable);
        }
        let asked = format!("{} {} {options:?}", container.pod, container.container);
        let chunks = [Bytes::from(asked), Bytes::from("\n")];
        Ok(futures::stream::iter(chunks).boxed())
    }

    fn exec(
        &self,
        _container: ContainerReference<'_>,
        command: Vec<String>,
        options: ExecOptions,
    ) -> Result<ContainerStreams, KubeletError> {
        let (sender, input) = mpsc::channel::<Bytes>(1);
        let code = command[0].parse().map_err(|_| {
            let message = format!("no {}", command[0]);
            KubeletError::Failed(message)
        })?;
        let (ending, ended) = tokio::sync::oneshot::channel();
        let output = futures::stream::unfold((input, ending), |(mut input, ending)| async {
            let Some(bytes) = input.recv().await else {
                ending.send(()).unwrap();
                return None;
            };
            Some(((OutputStream::Stderr, bytes), (input, ending)))
        });
        Ok(ContainerStreams {
            output: output.boxed(),
            input: options.stdin.then_some(sender),
            ended: ended.map(move |_| Ok(code)).boxed(),
        })
    }

    fn attach(
        &self,
        _container: ContainerReference<'_>,
        _stdin: bool,
    ) -> Result<ContainerStreams, KubeletError> {
        Err(KubeletError::Unreachable)
    }

    fn port_forward(&self, pod: PodReference<'_>) -> Result<PodPorts, KubeletError> {
        let PodReference {
            namespace, name, ..
        } = pod;
        if name != "p1" {
            let why = format!("pod not found (\"{name}_{namespace}\")");
            return Err(KubeletError::Failed(why));
        }
        Ok(PodPorts {
            sandbox: pod.uid.to_owned(),
            connect: Box::new(|port| {
                if port == ECHO_PORT {
                    return std::future::ready(Ok(echo())).boxed();
                }
                let refused = Err(format!("{port} is closed"));
                std::future::ready(refused).boxed()
            }),
        })
    }
}

/// A port whose program answers with the request.
const ECHO_PORT: u16 = 8080;

/// A connection to a program that answers a request, whose body ends with `!`, with its own text.
fn echo() -> PortConnection {
    let (client, program) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(client);
    let serving = async move {
        let (mut input, mut output) = tokio::io::split(program);
        let mut asked = Vec::new();
        while !asked.ends_with(b"!") {
            asked.push(input.read_u8().await.unwrap());
        }
        let length = asked.len();
        let head =
            format!("HTTP/1.1 201 Created\r\nX-Program: echo\r\nContent-Length: {length}\r\n\r\n");
        output
            .write_all(&[head.as_bytes(), &asked].concat())
            .await
            .unwrap();
    };
    PortConnection {
        reader: Box::new(reader),
        writer: Box::new(writer),
        serving: serving.boxed(),
    }
}

async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, String) {
    let (request, headers) = (
        format!("{method} {path}"),
        [("content-type", "application/json")],
    );
    let (code, body) = read(respond(server, &request, &headers, body.to_string()).await).await;
    (code, String::from_utf8(body.to_vec()).unwrap())
}

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server with a pod on each of two nodes.
async fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    server.set_kubelet(Arc::new(Echo));
    for index in [1, 2] {
        let node = format!("node-{index}");
        let node_object = json!({"metadata": {"name": node}});
        send(&server, "POST", "/api/v1/nodes", node_object).await;
        let pod = json!({
            "metadata": {"name": format!("p{index}")},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        });
        assert_eq!(send(&server, "POST", PODS, pod).await.0, 201);
    }
    server
}

#[tokio::test]
async fn what_is_no_stream_is_answered_at_once() {
    let server = server().await;
    let rows = [
        (
            "p1/log?tailLines=3&timestamps=true&sinceTime=2026-01-02T03:04:05Z",
            200,
            "p1 c LogOptions { follow: false, previous: false, timestamps: true, \
             tail_lines: Some(3), limit_bytes: None, since_seconds: None, \
             since_time: Some(2026-01-02T03:04:05Z) }\n",
        ),
        ("p1/log?previous=true", 400, "\"message\":\"no previous\""),
        (
            "p1/log?sinceTime=now",
            400,
            "cannot parse \\\"now\\\" as \\\"2006\\\"",
        ),
        (
            "p1/log?container=x",
            400,
            "container x is not valid for pod p1",
        ),
        (
            "p2/log",
            500,
            "no preferred addresses found; known addresses: []",
        ),
        (
            "p1/exec?command=0&stdout=true",
            400,
            "Upgrade request required",
        ),
        ("p1/portforward?ports=80", 400, "Upgrade request required"),
        (
            "p1/portforward?ports=70000",
            400,
            "cannot convert to []int32: strconv.ParseUint: parsing \\\"70000\\\": value out of range",
        ),
        (
            "p1/portforward?ports=80,x",
            400,
            "cannot convert to []int32: strconv.ParseUint: parsing \\\"x\\\": invalid syntax",
        ),
        ("p3/portforward", 404, "pods \\\"p3\\\" not found"),
    ];
    for (path, code, part) in rows {
        let (found, body) = send(&server, "GET", &format!("{PODS}/{path}"), Value::Null).await;
        assert_eq!(found, code, "{path}: {body}");
        assert!(body.contains(part), "{path}: {body}");
    }
}

#[tokio::test]
async fn a_proxy_passes_requests_on_without_what_is_for_the_server() {
    let server = server().await;
    let status = json!({"status": {"podIP": "10.1.2.3"}});
    let (merge, headers) = (
        format!("PATCH {PODS}/p1/status"),
        [("content-type", "application/merge-patch+json")],
    );
    let (code, body) = read(respond(&server, &merge, &headers, status.to_string()).await).await;
    assert_eq!(code, 200, "{body:?}");
    let asked = format!("POST {PODS}/p1:8080/proxy/a/b%20c?x=1&y=%26%3D");
    let headers = [
        ("x-own", "kept"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "gone"),
    ];
    let response = respond(&server, &asked, &headers, "the body!").await;
    assert_eq!(response.headers()["x-program"], "echo");
    let (code, body) = read(response).await;
    let expected = "POST /a/b%20c?x=1&y=%26%3D HTTP/1.1\r\nx-own: kept\r\nhost: 10.1.2.3:8080\r\n\
                    content-length: 9\r\n\r\nthe body!";
    assert_eq!(
        (code, String::from_utf8(body.to_vec()).unwrap().as_str()),
        (201, expected)
    );
    for (path, message) in [
        (
            "p1/proxy",
            "dial tcp 10.1.2.3:80: connect: connection refused",
        ),
        (
            "p1:x/proxy",
            "dial tcp 10.1.2.3:x: connect: connection refused",
        ),
    ] {
        let (code, body) = send(&server, "GET", &format!("{PODS}/{path}"), Value::Null).await;
        assert_eq!(code, 503, "{body}");
        assert!(
            body.contains(&format!("error trying to reach service: {message}")),
            "{body}"
        );
    }
}

/// The messages of a process that is given two lines, and the code of the closing.
async fn exec(protocol: &str, command: &str) -> (Vec<(u8, String)>, Option<CloseCode>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let served = tokio::spawn(serve(server().await, listener, shutdown));
    let query = format!("stdin=true&stderr=true&command={command}");
    let mut request = format!("ws://{address}{PODS}/p1/exec?{query}")
        .into_client_request()
        .unwrap();
    let protocols = protocol.parse().unwrap();
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocols);
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, response) = tokio_tungstenite::client_async(request, stream)
        .await
        .unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], protocol);
    for message in [&b"\0one"[..], b"\0two", b"\x04{}", b"\xff\0"] {
        // A server that has closed already takes no more.
        let _ = socket.send(Message::binary(message.to_vec())).await;
    }
    let (mut messages, mut code) = (Vec::new(), None);
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Binary(bytes) => {
                let text = String::from_utf8(bytes[1..].to_vec()).unwrap();
                messages.push((bytes[0], text));
            }
            Message::Close(frame) => code = frame.map(|frame| frame.code),
            other => panic!("{other:?}"),
        }
    }
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
    (messages, code)
}

#[tokio::test]
async fn a_process_is_streamed_over_a_websocket() {
    let (messages, code) = exec("v5.channel.k8s.io", "3").await;
    let streams = [(2, ""), (2, "one"), (2, "two")].map(|(id, text)| (id, text.to_owned()));
    assert_eq!(messages[..3], streams);
    let status: Value = serde_json::from_str(&messages[3].1).unwrap();
    assert_eq!(messages[3].0, 3);
    assert_eq!(status["reason"], "NonZeroExitCode");
    assert_eq!(
        status["details"]["causes"],
        json!([{"reason": "ExitCode", "message": "3"}])
    );
    assert_eq!((messages.len(), code), (4, Some(CloseCode::Normal)));

    let (messages, _) = exec("v5.channel.k8s.io", "what").await;
    let (channel, status) = messages.last().unwrap();
    let status: Value = serde_json::from_str(status).unwrap();
    let message = "Internal error occurred: unable to upgrade connection: no what";
    assert_eq!((*channel, &status["message"]), (3, &json!(message)));
}

/// The bytes that the server writes to a client that requests an upgrade with these headers and
/// then `sends` bytes, up to `enough`.
async fn upgraded(request: &str, headers: &str, sends: &[u8], enough: &[u8]) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let served = tokio::spawn(serve(server().await, listener, shutdown));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(sends).await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.windows(enough.len()).any(|part| part == enough) {
        let read = stream.read_buf(&mut bytes).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&bytes));
    }
    drop(stream);
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
    bytes
}

const SPDY: &str = "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n";
const WEBSOCKET: &str = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The two streams that a `kubectl port-forward` of port 80 has opened for a connection.
const OPENED: &[u8] = include_bytes!("../../fuzz/seeds/spdy/port-forward");
const CLOSED: &[u8] = b"uid : 80 is closed";

#[tokio::test]
async fn ports_are_forwarded_over_spdy_and_through_websockets() {
    let post = format!("POST {PODS}/p1/portforward");
    let answer = upgraded(&post, SPDY, OPENED, CLOSED).await;
    let text = String::from_utf8_lossy(&answer).to_lowercase();
    for part in [
        "http/1.1 101 ",
        "\r\nupgrade: spdy/3.1\r\n",
        "\r\nx-stream-protocol-version: portforward.k8s.io\r\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // A message of a client is masked, here by zeros.
    let length = u8::try_from(OPENED.len()).unwrap();
    let message = [&[0x82, 0xfe, 0, length, 0, 0, 0, 0][..], OPENED].concat();
    let tunnel = format!("{WEBSOCKET}Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n");
    let get = format!("GET {PODS}/p1/portforward");
    let answer = upgraded(&get, &tunnel, &message, CLOSED).await;
    let text = String::from_utf8_lossy(&answer).to_lowercase();
    let part = "\r\nsec-websocket-protocol: spdy/3.1+portforward.k8s.io\r\n";
    assert!(text.contains(part), "{text}");

    let channels = format!("{WEBSOCKET}Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n");
    let get = format!("GET {PODS}/p1/portforward?ports=80");
    upgraded(&get, &channels, b"", CLOSED).await;
}

#[tokio::test]
async fn ports_that_are_not_forwarded_are_refused_in_the_kubelets_words() {
    let channels = format!("{WEBSOCKET}Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n");
    for (request, headers, code, enough) in [
        (
            "p2/portforward",
            SPDY,
            "500",
            "\r\n\r\npod not found (\"p2_default\")",
        ),
        (
            "p1/portforward",
            &channels,
            "400",
            "\r\n\r\nquery parameter \"port\" is required",
        ),
        (
            "p1/portforward?ports=0",
            &channels,
            "400",
            "\r\n\r\nport \"0\" must be > 0",
        ),
        (
            "p1/exec?command=0&stdout=true",
            SPDY,
            "403",
            "server accepts [v4.channel.k8s.io v3.channel.k8s.io",
        ),
        (
            "p1/exec?command=x&stdout=true",
            &channels,
            "500",
            "\r\n\r\nno x",
        ),
    ] {
        let get = format!("GET {PODS}/{request}");
        let answer = upgraded(&get, headers, b"", enough.as_bytes()).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(
            text.starts_with(&format!("HTTP/1.1 {code} ")),
            "{request}: {text}"
        );
    }
}
