//! The time, in real time, to replace all pods of one CloneSet, a fifth of them at a time,
//! under virtual time in one process: server, nodes and the CloneSet controller, by the number of its
//! pods, which may be given as arguments.

#[path = "load/size.rs"]
mod size;

use std::time::{Duration, Instant};

use kubeproof::json::{Value, json};
use kubeproof::testbed::{Testbed, TestbedOptions};
use kubeproof_controller::kruise::Gates;
use size::sized;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS: &[usize] = &[625, 1250, 2500, 5000];
/// A node takes 110 pods, and replacements come while the replaced are still there.
const PODS_PER_NODE: usize = 80;
const QUIET: Duration = Duration::from_secs(60);

fn main() {
    let given = std::env::args().filter_map(|argument| argument.parse().ok());
    let mut sizes: Vec<usize> = given.collect();
    if sizes.is_empty() {
        sizes = PODS.iter().map(|pods| sized(*pods)).collect();
    }
    for pods in sizes {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime starts");
        let took = runtime.block_on(roll(pods));
        println!(
            "{pods} pods of a CloneSet replaced: {took:.2?}, {:.2?} a pod",
            took / u32::try_from(pods).expect("few pods")
        );
    }
}

async fn roll(pods: usize) -> Duration {
    let options = TestbedOptions {
        nodes: pods.div_ceil(PODS_PER_NODE),
        controllers: vec!["cloneset".to_owned()],
        kruise: Some(Gates::default()),
        ..TestbedOptions::default()
    };
    let testbed = Testbed::start(options).await.expect("it starts");
    let mut set = set(pods);
    testbed.api().create(&set).await.expect("the set is valid");
    testbed.settle(QUIET).await.expect("it comes to rest");
    let began = Instant::now();
    set["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:1.26".into();
    testbed
        .api()
        .apply(&set)
        .await
        .expect("the change is valid");
    testbed.settle(QUIET).await.expect("it comes to rest");
    let took = began.elapsed();
    let set = testbed.api().get(("clonesets", "sample"), None).await;
    let status = &set.expect("the set is there")["status"];
    assert_eq!(
        status["updatedReadyReplicas"], pods,
        "all pods are replaced"
    );
    testbed.shutdown().await;
    took
}

fn set(pods: usize) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": { "name": "sample" },
        "spec": {
            "replicas": pods,
            "selector": { "matchLabels": { "app": "sample" } },
            "updateStrategy": { "maxUnavailable": "20%" },
            "template": {
                "metadata": { "labels": { "app": "sample" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.25" }] },
            },
        },
    })
}
