//! The costs of isolated clusters: one from its creation until a StatefulSet's three pods are ready, including its
//! end, created from scratch or from a snapshot, and the fork of a server that holds ten thousand objects.

use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use kubeproof::json::json;
use kubeproof::testbed::{Snapshot, Testbed, TestbedBuilder, TestbedError};
use kubeproof_apiserver::{ApiServer, Manifests};
use tokio::runtime::{Builder, Runtime};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OBJECTS: usize = 10_000;
/// Longer than pods take to become ready.
const QUIET: Duration = Duration::from_secs(30);
const SET: &str = include_str!("../../fixtures/statefulset/web.yaml");

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread can be built")
}

/// A server, one node, the StatefulSet controller.
fn small() -> TestbedBuilder {
    Testbed::builder().nodes(1).controllers(["statefulset"])
}

async fn bring_up(started: impl Future<Output = Result<Testbed, TestbedError>>) {
    let testbed = started.await.expect("it starts");
    testbed.apply(SET).await.expect("the set is valid");
    testbed.settle(QUIET).await.expect("it comes to rest");
    let set = testbed.api().get(("statefulsets", "web"), None).await;
    let ready = &set.expect("the set is there")["status"]["readyReplicas"];
    assert_eq!(ready, &json!(3), "all pods are ready");
}

/// The snapshot that others begin from, with a node and nothing else.
async fn prepared(builder: TestbedBuilder) -> Snapshot {
    let testbed = builder.start().await.expect("it starts");
    testbed.settle(QUIET).await.expect("it comes to rest");
    testbed.snapshot().expect("it is simulated")
}

fn clusters(criterion: &mut Criterion) {
    criterion.bench_function("a cluster with three ready pods", |bencher| {
        bencher.iter(|| runtime().block_on(bring_up(small().start())));
    });
    let snapshot = runtime().block_on(prepared(small()));
    criterion.bench_function("the same begun from a snapshot", |bencher| {
        bencher.iter(|| runtime().block_on(bring_up(snapshot.start())));
    });
    let all = Testbed::builder()
        .nodes(3)
        .controllers(kubeproof_controller::CONTROLLERS.iter().copied());
    criterion.bench_function("the same with every controller", |bencher| {
        bencher.iter(|| runtime().block_on(bring_up(all.clone().start())));
    });
}

fn fork(criterion: &mut Criterion) {
    let server = runtime().block_on(async {
        let mut manifests = Manifests::new();
        for index in 0..OBJECTS {
            let metadata = json!({ "name": format!("map-{index}"), "namespace": "default" });
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
            manifests = manifests.object(&map).expect("the object is valid");
        }
        let server = ApiServer::builder().build_with(manifests).await;
        server.expect("all objects are valid")
    });
    criterion.bench_function("a fork of 10,000 objects", |bencher| {
        // The fork's end is not part of it.
        bencher.iter_batched(|| (), |()| server.fork(), BatchSize::PerIteration);
    });
    let began = Instant::now();
    drop(server.fork());
    println!("one fork and its end: {:.1?}", began.elapsed());
}

criterion_group!(benches, clusters, fork);
criterion_main!(benches);
