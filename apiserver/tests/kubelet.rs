//! Logs and streams of containers, with a kubelet of the test's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, SinkExt, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::{
    ApiServer, ContainerReference, ContainerStreams, Kubelet, KubeletError, LogOptions,
    OutputStream, serve,
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// Its log is the question, and its processes repeat their input until that ends.
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
        stdin: bool,
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
            input: stdin.then_some(sender),
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
}

async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::<Bytes>::from(body.to_string()))
        .unwrap();
    let response = server.handle(request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
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
async fn a_log_is_the_kubelets() {
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
    ];
    for (path, code, part) in rows {
        let (found, body) = send(&server, "GET", &format!("{PODS}/{path}"), Value::Null).await;
        assert_eq!(found, code, "{path}: {body}");
        assert!(body.contains(part), "{path}: {body}");
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
