//! A large cluster: the time until all pods of a Deployment run on simulated nodes, the memory they take, and the
//! answers that clients get then. The server is `kubeproof serve` with all controllers, in a process of its own.
//!
//! `cargo bench -p kubeproof --bench nodes`; two numbers after `--` are other numbers of nodes and of pods.

#[path = "load/child.rs"]
mod child;
#[path = "load/program.rs"]
mod program;
#[path = "load/size.rs"]
mod size;

use std::process::Command;
use std::time::{Duration, Instant};

use child::ChildServer;
use futures::TryStreamExt;
use http::Request;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, Config, ResourceExt};
use program::program;
use serde_json::json;
use size::sized;

const NODES: usize = 1000;
const PODS: usize = 10_000;
/// The requests of a kind; the median is reported.
const REQUESTS: usize = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let numbers = std::env::args().skip(1);
    let mut numbers = numbers.filter_map(|argument| argument.parse().ok());
    let nodes = numbers.next().unwrap_or_else(|| sized(NODES));
    let pods = numbers.next().unwrap_or_else(|| sized(PODS));
    let mut serve = Command::new(program());
    serve.args(["serve", "--nodes", &nodes.to_string()]);
    let server = ChildServer::spawn(serve);
    let url = format!("http://{}", server.address);
    let config = Config::new(url.parse().expect("an address makes a URL"));
    let client = Client::try_from(config).expect("a client without credentials needs nothing");
    await_nodes(&client, nodes).await;
    let (idle_mb, idle_us) = (server.resident_mb(), server.processor_us());
    let began = Instant::now();
    run_pods(&client, pods).await;
    let took = began.elapsed().as_secs_f64();
    let resident_mb = server.resident_mb();
    println!(
        "{pods} pods on {nodes} nodes: ready after {took:.1} s ({:.0} in a second), {:.1} s of processor time",
        pods as f64 / took,
        (server.processor_us() - idle_us) / 1e6,
    );
    println!(
        "resident: {idle_mb:.0} MB with the nodes alone, {resident_mb:.0} MB with the pods, {:.0} kB a pod",
        (resident_mb - idle_mb) * 1000.0 / pods as f64,
    );
    let [list, get, event] = latencies(&client).await;
    println!(
        "list of all pods: {list:.1?}, get of one: {get:.1?}, event of its patch: {event:.1?}"
    );
}

/// Waits until the nodes have registered.
async fn await_nodes(client: &Client, count: usize) {
    let nodes: Api<Node> = Api::all(client.clone());
    let last = format!("node-{count}");
    let exists = |node: Option<&Node>| node.is_some();
    let registered = await_condition(nodes, &last, exists).await;
    registered.expect("the server answers");
}

/// Creates a Deployment and waits until all its pods are ready.
async fn run_pods(client: &Client, count: usize) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let labels = json!({ "app": "web" });
    let container = json!({ "name": "web", "image": "nginx:1.29" });
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": count,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    });
    let deployment = serde_json::from_value(deployment).expect("it is a Deployment");
    let created = deployments
        .create(&PostParams::default(), &deployment)
        .await;
    created.expect("the Deployment is valid");
    let reached = await_condition(deployments, "web", all_ready(count)).await;
    reached.expect("the server answers");
}

fn all_ready(count: usize) -> impl Condition<Deployment> {
    move |deployment: Option<&Deployment>| {
        let status = deployment.and_then(|deployment| deployment.status.as_ref());
        let ready = status.and_then(|status| status.ready_replicas);
        ready.and_then(|ready| usize::try_from(ready).ok()) == Some(count)
    }
}

/// The times of a list of all pods, of a get of one, and from its patch until a watch of it has the event.
async fn latencies(client: &Client) -> [Duration; 3] {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let first = pods.list(&ListParams::default().limit(1)).await;
    let first = first.expect("the server answers");
    let name = first.items[0].name_any();
    let read = async |path: String| {
        let request = Request::get(path).body(Vec::new()).expect("it is a path");
        let began = Instant::now();
        let answer = client.request_text(request).await;
        answer.expect("the server answers");
        began.elapsed()
    };
    let path = "/api/v1/namespaces/default/pods";
    let (mut lists, mut gets, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sized(REQUESTS) {
        lists.push(read(path.to_owned()).await);
        gets.push(read(format!("{path}/{name}")).await);
    }
    let own = WatchParams::default().fields(&format!("metadata.name={name}"));
    let version = first.metadata.resource_version.unwrap_or_default();
    let watch = pods.watch(&own, &version).await;
    let mut watch = Box::pin(watch.expect("the server answers"));
    for count in 0..sized(REQUESTS) {
        let patch = json!({ "metadata": { "annotations": { "count": count.to_string() } } });
        let began = Instant::now();
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let written = pods.patch(&name, &params, &patch).await;
        written.expect("the patch is valid");
        let event = watch.try_next().await.expect("the watch goes on");
        assert!(matches!(event, Some(WatchEvent::Modified(_))), "{event:?}");
        events.push(began.elapsed());
    }
    [lists, gets, events].map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}
