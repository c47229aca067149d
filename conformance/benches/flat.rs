//! The cost of one request in process as more and more objects are stored, and the memory of a pod.
//!
//! `cargo bench -p kubeproof --bench flat`

#[path = "load/objects.rs"]
mod objects;
#[path = "load/size.rs"]
mod size;

use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::{ApiServer, ResponseBody};
use objects::{config_map, pod, status_patch};
use serde_json::Value;
use size::sized;

/// The program's allocator, so that memory is measured as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const STORED: [usize; 3] = [1000, 10_000, 100_000];
/// Requests of a kind that are timed at each size.
const TIMED: usize = 2000;
/// Requests are timed in groups; the median group is reported.
const GROUP: usize = 50;
/// Pods stored to weigh them.
const WEIGHED: usize = 10_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread can be built");
    runtime.block_on(async {
        weigh().await;
        let server = ApiServer::builder().build();
        let mut stored = 0;
        for size in STORED.map(sized) {
            while stored < size {
                send(&server, "POST", MAPS, &config_map(stored)).await;
                stored += 1;
            }
            time(&server, size).await;
        }
    });
}

async fn time(server: &ApiServer, size: usize) {
    let mut gets = Vec::new();
    let mut creates = Vec::new();
    let mut events = Vec::new();
    let path = format!(
        "{MAPS}?watch=1&resourceVersion={}",
        server.resource_version()
    );
    let mut watch = send(server, "GET", &path, &Value::Null).await;
    for group in 0..sized(TIMED).div_ceil(GROUP) {
        let names: Vec<usize> = (0..GROUP).map(|index| group * GROUP + index).collect();
        let started = Instant::now();
        for name in &names {
            let path = format!("{MAPS}/map-{}", name * 7919 % size);
            send(server, "GET", &path, &Value::Null).await;
        }
        gets.push(started.elapsed());
        let started = Instant::now();
        for name in &names {
            send(server, "POST", MAPS, &config_map(size + name)).await;
        }
        creates.push(started.elapsed());
        let started = Instant::now();
        let mut seen = 0;
        while seen < GROUP {
            let frame = watch.frame().await.expect("the watch goes on");
            let data = frame.expect("a stream cannot fail").into_data();
            let data = data.expect("a watch sends data");
            seen += data.iter().filter(|byte| **byte == b'\n').count();
        }
        events.push(started.elapsed());
        for name in &names {
            let path = format!("{MAPS}/map-{}", size + name);
            send(server, "DELETE", &path, &Value::Null).await;
            watch.frame().await;
        }
    }
    let middle = |mut times: Vec<std::time::Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6 / GROUP as f64
    };
    println!(
        "{size:6} stored: get {:.1} µs, create {:.1} µs, watch event {:.1} µs",
        middle(gets),
        middle(creates),
        middle(events)
    );
}

/// Prints the growth of the process for each running pod.
async fn weigh() {
    let server = ApiServer::builder().build();
    let before = resident();
    for ordinal in 0..sized(WEIGHED) {
        send(&server, "POST", PODS, &pod(ordinal)).await;
        let status = format!("{PODS}/web-{ordinal}/status");
        send(&server, "PATCH", &status, &status_patch(ordinal, 0)).await;
    }
    server.compact();
    let grown = resident().saturating_sub(before);
    println!(
        "memory of a running pod: {} kB",
        grown / sized(WEIGHED) / 1000
    );
}

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> ResponseBody {
    let content_type = match method {
        "PATCH" => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("user-agent", "kube-controller-manager/v1.36.2")
        .body(Full::new(body))
        .expect("a request is well formed");
    let response = server.handle(request).await;
    assert!(response.status().is_success(), "{method} {path}");
    response.into_body()
}

/// Resident memory in bytes, from /proc; 0 elsewhere than on Linux.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.map_or(0, |number| number.parse::<usize>().unwrap_or(0) * 1024)
}
