//! The costs of a test suite: starting a server, single requests, a write seen by many watches.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use futures::TryStreamExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kubeproof_apiserver::ApiServer;
use tokio::runtime::{Builder, Runtime};

/// Objects in the table that is read and listed.
const OBJECTS: usize = 1000;
/// Watches that see each write.
const WATCHES: usize = 100;

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime of one thread can be built")
}

/// Must be called within a runtime, which `kube::Client` asks for.
fn config_maps() -> Api<ConfigMap> {
    let server = ApiServer::builder().build();
    Api::default_namespaced(kube::Client::new(server, "default"))
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.data = Some([("colour".to_owned(), "blue".to_owned())].into());
    object
}

async fn create(api: &Api<ConfigMap>, name: &str) {
    let created = api.create(&PostParams::default(), &config_map(name)).await;
    created.expect("the name is free");
}

fn start(criterion: &mut Criterion) {
    let runtime = runtime();
    criterion.bench_function("start to first answer", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let list = config_maps().list(&ListParams::default()).await;
                list.expect("the server answers")
            })
        });
    });
}

fn requests(criterion: &mut Criterion) {
    let runtime = runtime();
    let api = runtime.block_on(async {
        let api = config_maps();
        for index in 0..OBJECTS {
            create(&api, &format!("map-{index}")).await;
        }
        api
    });
    criterion.bench_function("get one of 1000", |bencher| {
        bencher.iter(|| {
            let got = runtime.block_on(api.get("map-500"));
            got.expect("it exists")
        });
    });
    criterion.bench_function("list 1000", |bencher| {
        bencher.iter(|| {
            let listed = runtime.block_on(api.list(&ListParams::default()));
            listed.expect("the server answers")
        });
    });
    criterion.bench_function("create", |bencher| {
        bencher.iter_batched(
            || runtime.block_on(async { config_maps() }),
            |api| runtime.block_on(create(&api, "one")),
            BatchSize::SmallInput,
        );
    });
}

fn fan_out(criterion: &mut Criterion) {
    let runtime = runtime();
    criterion.bench_function("a write seen by 100 watches", |bencher| {
        bencher.iter_batched(
            || runtime.block_on(watched()),
            |(api, watches)| {
                runtime.block_on(async {
                    create(&api, "one").await;
                    join_all(watches.into_iter().map(first_event)).await
                })
            },
            BatchSize::SmallInput,
        );
    });
}

type Watch = futures::stream::BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

/// A new server with open watches.
async fn watched() -> (Api<ConfigMap>, Vec<Watch>) {
    let api = config_maps();
    let list = api.list(&ListParams::default()).await;
    let version = list.expect("the server answers").metadata.resource_version;
    let version = version.expect("a list has a version");
    let mut watches: Vec<Watch> = Vec::new();
    for _ in 0..WATCHES {
        let watch = api.watch(&WatchParams::default(), &version).await;
        watches.push(Box::pin(watch.expect("the server answers")));
    }
    (api, watches)
}

async fn first_event(mut watch: Watch) {
    let event = watch.try_next().await.expect("the watch goes on");
    assert!(matches!(event, Some(WatchEvent::Added(_))));
}

criterion_group!(benches, start, requests, fan_out);
criterion_main!(benches);
