//! So many nodes that several threads share their kubelets, in real time.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only #[test] functions as tests"
)]

use http::Request;
use http::header::USER_AGENT;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::client::Body;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::{Manager, Options};
use kubeproof_runtime::decode::from_value;
use serde_json::json;
use tokio::sync::watch;

use crate::support::options;

/// Two threads have a task for each hundred.
const NODES: usize = 200;

fn start(server: &ApiServer) -> (Api<Pod>, Manager) {
    let client = Client::new(server.clone(), "default");
    let manager = start_with(&client, &["serviceaccount"], server.clock());
    (Api::default_namespaced(client), manager)
}

fn start_with(client: &Client, controllers: &[&str], clock: &Clock) -> Manager {
    let controllers = controllers.iter().map(|&name| name.to_owned());
    let options = Options {
        controllers: controllers.collect(),
        nodes: NODES,
        ..options(clock)
    };
    Manager::start(client.clone(), options).unwrap()
}

/// A client like `client`, and the user agents of its lists of all pods.
fn noting_lists(client: &Client) -> (Client, watch::Receiver<Vec<String>>) {
    let client = client.clone();
    let (noted, lists) = watch::channel(Vec::new());
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let is_list = !query.contains("watch=") || query.contains("sendInitialEvents=");
        if request.uri().path() == "/api/v1/pods" && is_list {
            let agent = request.headers()[USER_AGENT].to_str().unwrap();
            noted.send_modify(|agents| agents.push(agent.to_owned()));
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    (Client::new(service, "default"), lists)
}

/// Creates a pod, on `node` unless that is empty.
async fn create(pods: &Api<Pod>, name: &str, node: &str) {
    let container = json!({ "name": "main", "image": "nginx" });
    let pod = json!({
        "metadata": { "name": name },
        "spec": { "nodeName": node, "containers": [container] },
    });
    let pod = from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

/// Creates a pod and waits until it runs.
async fn run(pods: &Api<Pod>, name: &str, node: &str) {
    create(pods, name, node).await;
    let running = await_condition(pods.clone(), name, conditions::is_pod_running());
    running.await.unwrap();
}

/// Waits until the kubelet of node-7 knows that the node is cut off: a new pod there does not run, although the same
/// task runs a later one of node-9.
async fn await_cut(pods: &Api<Pod>) {
    for count in 0..100 {
        let (first, later) = (format!("a-probe-{count}"), format!("b-probe-{count}"));
        create(pods, &first, "node-7").await;
        run(pods, &later, "node-9").await;
        let status = pods.get(&first).await.unwrap().status.unwrap();
        if status.phase.as_deref() == Some("Pending") {
            return;
        }
    }
    panic!("node-7 goes on");
}

/// The pods whose containers run, with their nodes.
fn running(manager: &Manager) -> Vec<String> {
    let running = manager.containers().running().into_iter();
    running
        .map(|one| format!("{} on {}", one.pod, one.node))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_its_node_runs_on_is_no_business_of_other_kubelets() {
    let server = ApiServer::builder().clock(Clock::real()).build();
    let (pods, manager) = start(&server);
    run(&pods, "scheduled", "").await;
    for (name, node) in [("cut-off", "node-7"), ("reached", "node-8")] {
        run(&pods, name, node).await;
    }
    manager.faults().disconnect("node-7").unwrap();
    await_cut(&pods).await;
    for name in ["cut-off", "reached"] {
        let forced = DeleteParams::default().grace_period(0);
        pods.delete(name, &forced).await.unwrap();
    }
    // Each kubelet has seen the deletions once a later pod of it runs.
    for (name, node) in [("later-9", "node-9"), ("later-10", "node-10")] {
        run(&pods, name, node).await;
    }
    let mut running = running(&manager);
    running.retain(|one| !one.starts_with("scheduled") && !one.contains("probe"));
    assert_eq!(
        running,
        [
            "later-10 on node-10",
            "cut-off on node-7",
            "later-9 on node-9"
        ]
    );
    manager.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_share_a_watch_of_pods() {
    let server = ApiServer::builder().clock(Clock::real()).build();
    let client = Client::new(server.clone(), "default");
    let (noted, mut lists) = noting_lists(&client);
    let controllers = ["serviceaccount", "daemonset", "replicaset", "statefulset"];
    let manager = start_with(&noted, &controllers, server.clock());
    run(&Api::default_namespaced(client), "one", "").await;
    let mut agents = lists
        .wait_for(|agents| agents.len() >= 4)
        .await
        .unwrap()
        .clone();
    agents.sort();
    assert_eq!(
        agents,
        ["kube-scheduler", "kubelet", "kubelet", "shared-informers"]
    );
    manager.shutdown().await;
}
