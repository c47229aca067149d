//! Answers in JSON and in protobuf, side by side: an object that was just written, one that was sent
//! before, and a list.
//!
//! `cargo bench -p kubeproof --bench representation`

#[path = "load/objects.rs"]
#[expect(dead_code, reason = "only pods are measured here")]
mod objects;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use objects::{pod, status_patch};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// The program's allocator, so that memory costs what it does there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Pods that are listed.
const LISTED: usize = 1000;

async fn send(
    server: &ApiServer,
    (method, path): (&str, &str),
    content_type: &str,
    accept: &str,
    body: &Value,
) -> Bytes {
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", accept)
        .body(Full::new(body));
    let response = server.handle(request.expect("the parts are valid")).await;
    assert!(response.status().is_success());
    let body = response.into_body().collect().await;
    body.expect("the answer is whole").to_bytes()
}

async fn get(server: &ApiServer, path: &str, accept: &str) -> Bytes {
    send(server, ("GET", path), JSON, accept, &Value::Null).await
}

/// Writes the status of the first pod, and is answered in the `other` encoding: the written object
/// has yet to be encoded in the one that is measured.
async fn write(server: &ApiServer, count: usize, other: &str) {
    let path = format!("{PODS}/web-0/status");
    let patch = "application/strategic-merge-patch+json";
    let status = status_patch(0, count);
    send(server, ("PATCH", &path), patch, other, &status).await;
}

fn with_pods(runtime: &Runtime) -> ApiServer {
    let server = ApiServer::builder().build();
    runtime.block_on(async {
        let account = serde_json::json!({ "metadata": { "name": "web" } });
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        send(&server, ("POST", accounts), JSON, JSON, &account).await;
        for ordinal in 0..LISTED {
            send(&server, ("POST", PODS), JSON, JSON, &pod(ordinal)).await;
        }
    });
    server
}

fn answers(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime of one thread can be built");
    let server = with_pods(&runtime);
    let one = format!("{PODS}/web-0");
    let mut count = 0;
    for (name, accept, other) in [("JSON", JSON, PROTOBUF), ("protobuf", PROTOBUF, JSON)] {
        criterion.bench_function(&format!("first get of a pod, {name}"), |bencher| {
            bencher.iter_batched(
                || {
                    count += 1;
                    runtime.block_on(write(&server, count, other));
                },
                |()| runtime.block_on(get(&server, &one, accept)),
                BatchSize::PerIteration,
            );
        });
        criterion.bench_function(&format!("get of a pod, {name}"), |bencher| {
            bencher.iter(|| runtime.block_on(get(&server, &one, accept)));
        });
        criterion.bench_function(&format!("list of 1000 pods, {name}"), |bencher| {
            bencher.iter(|| runtime.block_on(get(&server, PODS, accept)));
        });
        let size = |path: &str| runtime.block_on(get(&server, path, accept)).len();
        println!(
            "{name}: a pod has {} bytes, the list {}",
            size(&one),
            size(PODS)
        );
    }
}

criterion_group!(benches, answers);
criterion_main!(benches);
