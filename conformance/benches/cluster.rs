//! The time, in real time, in which a cluster of simulated nodes brings up a thousand StatefulSets of three pods
//! each, one pod after another, under virtual time in one process.
//!
//! The cost of a set must not grow with the number of sets. Numbers after `--` are other sizes.

#[path = "load/size.rs"]
mod size;

use std::time::{Duration, Instant};

use kubeproof::json::{Value, json};
use kubeproof::testbed::{Testbed, TestbedOptions};
use size::sized;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SETS: &[usize] = &[125, 250, 500, 1000];
const PODS: usize = 3;
/// A node takes 110 pods.
const PODS_PER_NODE: usize = 100;
const QUIET: Duration = Duration::from_secs(30);

fn main() {
    let given: Vec<usize> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let usual: Vec<usize> = SETS.iter().map(|sets| sized(*sets)).collect();
    let sizes = if given.is_empty() { usual } else { given };
    for sets in &sizes {
        let began = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime starts");
        let writes = runtime.block_on(bring_up(*sets));
        let took = began.elapsed();
        println!(
            "{sets} StatefulSets of {PODS} pods: {took:.2?}, {writes} writes, {:.2?} a set",
            took / u32::try_from(*sets).expect("few sets")
        );
    }
}

async fn bring_up(sets: usize) -> u64 {
    let options = TestbedOptions {
        nodes: (sets * PODS).div_ceil(PODS_PER_NODE),
        ..TestbedOptions::default()
    };
    let testbed = Testbed::start(options).await.expect("it starts");
    for index in 0..sets {
        let created = testbed.api().create(&set(&format!("set-{index}"))).await;
        created.expect("the set is valid");
    }
    testbed.settle(QUIET).await.expect("it comes to rest");
    let mut ready = 0;
    for index in 0..sets {
        let name = format!("set-{index}");
        let set = testbed.api().get(("statefulsets", &name), None).await;
        let set = set.expect("the set is there");
        ready += set["status"]["readyReplicas"].as_u64().unwrap_or(0);
    }
    assert_eq!(ready, (sets * PODS) as u64, "all pods are ready");
    let writes = testbed.resource_version().get();
    testbed.shutdown().await;
    writes
}

fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": name },
        "spec": {
            "serviceName": name,
            "replicas": PODS,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.25" }] },
            },
        },
    })
}
