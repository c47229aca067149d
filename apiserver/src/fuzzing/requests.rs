//! Whole requests, at a server that has some objects.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::Full;
use tokio::runtime::{Builder, Runtime};

use super::lines;
use crate::server::ApiServer;

/// How much of an answer is read: a watch does not end.
const FRAMES_MAX: usize = 4;

const POD: &str = r#"{"metadata":{"name":"web","labels":{"app":"web"}},
    "spec":{"containers":[{"name":"web","image":"web","ports":[{"containerPort":80}]}]}}"#;
const SET: &str = r#"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},
    "template":{"metadata":{"labels":{"app":"web"}},
        "spec":{"containers":[{"name":"web","image":"web"}]}}}}"#;

/// Method and path in the first line, the media type of the body in the second, then the body.
pub(super) fn request(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let Some((method, path)) = parts
        .next()
        .and_then(|line| lines(line).next())
        .and_then(|line| line.split_once(' '))
    else {
        return;
    };
    let content_type = parts.next().unwrap_or_default();
    let Ok(request) = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Bytes::copy_from_slice(parts.next().unwrap_or_default()))
    else {
        return;
    };
    let peer = Peer::new();
    peer.send("POST", "/api/v1/namespaces/default/pods", POD);
    peer.send("POST", "/apis/apps/v1/namespaces/default/replicasets", SET);
    peer.answer(request);
}

/// A client of a server of its own.
pub(super) struct Peer {
    server: ApiServer,
    /// The server's timers need one; nothing ever waits for them.
    runtime: Runtime,
}

impl Peer {
    pub(super) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime without sockets needs nothing");
        Self {
            server: ApiServer::builder().build(),
            runtime,
        }
    }

    /// Sends a body of JSON and gives the code of the answer; `APPLY` is the patch, `TABLE` a GET of
    /// a table.
    pub(super) fn send(&self, method: &str, path: &str, body: &str) -> Option<u16> {
        let (method, content_type, accept) = match method {
            "APPLY" => ("PATCH", "application/apply-patch+yaml", "*/*"),
            "TABLE" => (
                "GET",
                "",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            ),
            method => (method, "application/json", "*/*"),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("accept", accept)
            .body(Bytes::copy_from_slice(body.as_bytes()));
        self.answer(request.expect("the request is well-formed"))
    }

    /// Sends a request and reads the beginning of the answer; `None` if that is to be waited for.
    fn answer(&self, request: Request<Bytes>) -> Option<u16> {
        let _entered = self.runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        let handled = pin!(self.server.handle(request.map(Full::new)));
        let handled = handled.poll(&mut context);
        assert_eq!(self.server.panics(), [""; 0], "handlers do not panic");
        let Poll::Ready(response) = handled else {
            return None;
        };
        let code = response.status().as_u16();
        let mut body = response.into_body();
        for _ in 0..FRAMES_MAX {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) | Poll::Pending => break,
            }
        }
        Some(code)
    }
}
