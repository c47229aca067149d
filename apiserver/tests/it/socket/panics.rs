//! A handler that panics, and what it leaves alone.

use std::sync::Arc;

use futures::stream::BoxStream;
use kubeproof_apiserver::{
    ContainerReference, ContainerStreams, ExecOptions, Kubelet, KubeletError, LogOptions, PodPorts,
    PodReference,
};

use super::*;
use crate::support::audit::Events;

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
        _options: ExecOptions,
    ) -> Result<ContainerStreams, KubeletError> {
        Err(KubeletError::Unreachable)
    }

    fn attach(
        &self,
        _container: ContainerReference<'_>,
        _stdin: bool,
    ) -> Result<ContainerStreams, KubeletError> {
        Err(KubeletError::Unreachable)
    }

    fn port_forward(&self, _pod: PodReference<'_>) -> Result<PodPorts, KubeletError> {
        Err(KubeletError::Unreachable)
    }
}

#[tokio::test]
async fn a_handler_that_panics_answers_500_and_ends_no_other_stream() {
    let events = Events::default();
    let server = ApiServer::builder()
        .audit(events.audit("{level: Metadata, resources: [{resources: [pods/log]}]}"))
        .build();
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
    let events = events.all();
    assert_eq!(events.len(), 4);
    assert_eq!(events[0]["stage"], "RequestReceived");
    assert_eq!(events[1]["stage"], "Panic");
    let want = json!({
        "metadata": {}, "status": "Failure", "message": "APIServer panic'd: no logs of p",
        "reason": "InternalError", "code": 500,
    });
    assert_eq!(events[1]["responseStatus"], want);
    assert_eq!(events[1]["sourceIPs"], json!(["127.0.0.1"]));
    let first = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    drop((watch, client));
    task.await.unwrap().unwrap();
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
}
