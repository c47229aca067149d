//! Requests, and connections that share them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::bare::Answers;
use crate::client::{Connection, Target};
use crate::objects::{pod, status_patch};
use crate::rows::Side;

/// Connections that send requests at the same time.
const CLIENTS: usize = 16;

/// A request, and the code that it is to be answered with.
pub(crate) struct Call {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    code: u16,
}

impl Call {
    pub(crate) fn create(path: &str, object: &Value) -> Self {
        Self {
            method: "POST",
            path: path.to_owned(),
            content_type: "application/json",
            body: object.to_string().into_bytes(),
            code: 201,
        }
    }

    pub(crate) fn get(path: String) -> Self {
        Self {
            method: "GET",
            path,
            content_type: "",
            body: Vec::new(),
            code: 200,
        }
    }

    /// Deletes a pod without grace.
    pub(crate) fn delete(pods: &str, ordinal: usize) -> Self {
        Self {
            method: "DELETE",
            path: format!("{pods}/web-{ordinal}?gracePeriodSeconds=0"),
            content_type: "",
            body: Vec::new(),
            code: 200,
        }
    }

    pub(crate) fn status_patch(pods: &str, ordinal: usize, restarts: usize) -> Self {
        Self {
            method: "PATCH",
            path: format!("{pods}/web-{ordinal}/status"),
            content_type: "application/strategic-merge-patch+json",
            body: status_patch(ordinal, restarts).to_string().into_bytes(),
            code: 200,
        }
    }

    /// Sends the request; returns the length of the answer's body.
    async fn send(&self, connection: &mut Connection) -> usize {
        let (code, body) = connection
            .request(self.method, &self.path, self.content_type, &self.body)
            .await;
        assert_eq!(code, self.code, "{}", String::from_utf8_lossy(&body));
        body.len()
    }

    /// The bare server's answers to this request, with bodies of this length.
    pub(crate) fn answers(&self, body: usize) -> Answers {
        Answers::of(self.code, body)
    }
}

/// How long the requests of a run took.
pub(crate) struct Took {
    /// From the first request to the last answer.
    pub(crate) whole: Duration,
    /// Each request, in ascending order.
    each: Vec<Duration>,
    /// The length of an answer's body, on average.
    pub(crate) body: usize,
}

impl Took {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.each.len() as f64 / self.whole.as_secs_f64()
    }

    /// The 99th percentile of the requests in ms.
    pub(crate) fn p99_ms(&self) -> f64 {
        let at = self.each.len() * 99 / 100;
        self.each[at.min(self.each.len() - 1)].as_secs_f64() * 1e3
    }
}

/// Connections that share out requests among them.
pub(crate) struct Clients(Vec<Connection>);

impl Clients {
    pub(crate) async fn open(target: &Target) -> Self {
        Self(join_all((0..CLIENTS).map(|_| Connection::open(target))).await)
    }

    /// Sends `count` requests, each connection one at a time.
    ///
    /// The requests are made before the time begins.
    pub(crate) async fn send(&mut self, count: usize, call: impl Fn(usize) -> Call) -> Took {
        let calls: Arc<Vec<Call>> = Arc::new((0..count).map(call).collect());
        let next = Arc::new(AtomicUsize::new(0));
        let started = Instant::now();
        let tasks = self.0.drain(..).map(|mut connection| {
            let (calls, next) = (Arc::clone(&calls), Arc::clone(&next));
            tokio::spawn(async move {
                let (mut each, mut bytes) = (Vec::new(), 0);
                while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let sent = Instant::now();
                    bytes += call.send(&mut connection).await;
                    each.push(sent.elapsed());
                }
                (connection, each, bytes)
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let (mut each, mut bytes) = (Vec::new(), 0);
        for task in tasks {
            let (connection, own, read) = task.await.expect("every request succeeds");
            self.0.push(connection);
            each.extend(own);
            bytes += read;
        }
        let whole = started.elapsed();
        each.sort_unstable();
        let body = bytes / each.len().max(1);
        Took { whole, each, body }
    }
}

/// Creates a namespace; returns its path. The bare server has no use for one.
pub(crate) async fn create_namespace((side, target): (Side, &Target), name: &str) -> String {
    if side == Side::Bare {
        return format!("/api/v1/namespaces/{name}");
    }
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "generateName": format!("{name}-") },
    });
    let body = namespace.to_string().into_bytes();
    let mut connection = Connection::open(target).await;
    let path = "/api/v1/namespaces";
    let (code, created) = connection
        .request("POST", path, "application/json", &body)
        .await;
    assert_eq!(code, 201, "{}", String::from_utf8_lossy(&created));
    let created: Value = serde_json::from_slice(&created).expect("objects are JSON");
    let name = created["metadata"]["name"].as_str();
    format!("{path}/{}", name.expect("an object has a name"))
}

/// Creates pods of a StatefulSet that a kubelet has reported as running; returns their path.
pub(crate) async fn running_pods(
    (side, target): (Side, &Target),
    name: &str,
    count: usize,
) -> String {
    let pods = create_namespace((side, target), name).await + "/pods";
    if side == Side::Bare {
        return pods;
    }
    let mut clients = Clients::open(target).await;
    clients
        .send(count, |index| Call::create(&pods, &pod(index)))
        .await;
    clients
        .send(count, |index| Call::status_patch(&pods, index, 0))
        .await;
    pods
}
