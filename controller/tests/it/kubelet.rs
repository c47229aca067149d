//! The kubelet's handling of a pod's spec: init containers, sidecars, probes, hooks, deadlines and
//! rejections, on one node under virtual time.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only #[test] functions as tests"
)]

mod ephemeral;
mod hooks;
mod machine;
mod missing;
mod pace;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::{Manager, Options};
use kubeproof_node::{MissingImages, Timings};
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use crate::support::options;

/// An image that no registry has.
const MISSING: &str = "web:404";

struct Node {
    client: Client,
    manager: Manager,
}

impl Node {
    fn start() -> Self {
        Self::with(Timings::default())
    }

    fn with(timings: Timings) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let server = ApiServer::builder().clock(clock.clone()).build();
        let client = Client::new(server, "default");
        let options = Options {
            controllers: vec!["serviceaccount".to_owned()],
            timings,
            missing_images: MissingImages::try_new(vec![MISSING.to_owned()]).unwrap(),
            ..options(&clock)
        };
        let manager = Manager::start(client.clone(), options).unwrap();
        Self { client, manager }
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn run(&self, name: &str, spec: Value) {
        self.create(json!({ "metadata": { "name": name }, "spec": spec }))
            .await;
    }

    async fn create(&self, pod: Value) {
        let pod: Pod = from_value(pod).unwrap();
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
    }

    async fn status(&self, name: &str) -> Value {
        let pod = self.pods().get(name).await.unwrap();
        serde_json::to_value(pod.status.unwrap()).unwrap()
    }

    /// Returns a line for the pod: its phase, then each container's state with `+` if it is ready,
    /// and its restarts if there are any.
    async fn line(&self, name: &str) -> String {
        let status = self.status(name).await;
        let mut words = vec![status["phase"].as_str().unwrap().to_owned()];
        for list in ["initContainerStatuses", "containerStatuses"] {
            for container in status[list].as_array().into_iter().flatten() {
                words.push(word(container));
            }
        }
        words.join(" ")
    }

    /// Returns the events with this reason: their field path and message.
    async fn events(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = events.list(&ListParams::default()).await.unwrap();
        let events = events.items.into_iter();
        events
            .filter(|event| event.reason.as_deref() == Some(reason))
            .map(|event| {
                let path = event.involved_object.field_path.unwrap_or_default();
                format!("{path}: {}", event.message.unwrap_or_default())
            })
            .collect()
    }

    /// Returns the kubelet's events about a pod in order: reason, field path and message.
    async fn course(&self, pod: &str) -> Vec<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let params = ListParams::default().fields(&format!("involvedObject.name={pod}"));
        let mut events = events.list(&params).await.unwrap().items;
        events.retain(|event| event.reporting_component.as_deref() == Some("kubelet"));
        events.sort_by_key(|event| event.metadata.name.clone());
        let described = events.into_iter().map(|event| {
            let source = event.source.unwrap();
            assert_eq!(source.host.as_deref(), Some("node-1"));
            assert_eq!(event.reporting_instance.as_deref(), Some("node-1"));
            let path = event.involved_object.field_path.unwrap_or_default();
            let text = |text: Option<String>| text.unwrap_or_default();
            format!("{} {path} {}", text(event.reason), text(event.message))
        });
        described.collect()
    }
}

/// Returns when each container has ended, in seconds since the pod's start.
fn ends(status: &Value) -> Vec<(String, i64)> {
    let time = |value: &Value| -> Timestamp { value.as_str().unwrap().parse().unwrap() };
    let start = time(&status["startTime"]);
    let lists = ["initContainerStatuses", "containerStatuses"];
    let all = lists
        .iter()
        .flat_map(|list| status[list].as_array().into_iter().flatten());
    all.map(|container| {
        let ended = &container["state"]["terminated"];
        let at = time(&ended["finishedAt"]).duration_since(start).as_secs();
        let name = container["name"].as_str().unwrap();
        (format!("{name} {}", ended["exitCode"]), at)
    })
    .collect()
}

fn word(container: &Value) -> String {
    let state = &container["state"];
    let mut word = match (&state["running"], &state["waiting"]) {
        (Value::Object(_), _) => "running".to_owned(),
        (_, Value::Object(waiting)) => waiting["reason"].as_str().unwrap().to_owned(),
        _ => format!("exit{}", state["terminated"]["exitCode"]),
    };
    if container["ready"] == true {
        word.push('+');
    }
    match container["restartCount"].as_i64().unwrap() {
        0 => word,
        restarts => format!("{word}({restarts})"),
    }
}

fn condition(status: &Value, type_: &str) -> String {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|found| found["type"] == type_);
    let found = found.unwrap();
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    format!("{} {} {}", text("status"), text("reason"), text("message"))
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn shell(name: &str, script: &str) -> Value {
    json!({ "name": name, "image": "busybox", "command": ["sh", "-c", script] })
}

fn with(mut container: Value, key: &str, value: Value) -> Value {
    container[key] = value;
    container
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_turn_and_share_volumes() {
    let node = Node::start();
    let mounts = json!([{ "name": "work", "mountPath": "/work" }]);
    let mounted = |container| with(container, "volumeMounts", mounts.clone());
    node.run(
        "web",
        json!({
            "volumes": [{ "name": "work", "emptyDir": {} }],
            "initContainers": [
                mounted(shell("first", "sleep 10; touch /work/a")),
                mounted(shell("second", "sleep 10; test -f /work/a && touch /work/b")),
            ],
            "containers": [mounted(shell("main", "test -f /work/b && sleep 1h"))],
        }),
    )
    .await;
    pass(1).await;
    let expected = "Pending running PodInitializing PodInitializing";
    assert_eq!(node.line("web").await, expected);
    let status = node.status("web").await;
    assert_eq!(
        condition(&status, "Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [first second]"
    );
    assert_eq!(
        condition(&status, "Ready"),
        "False ContainersNotReady containers with unready status: [main]"
    );
    pass(10).await;
    let expected = "Pending exit0+ running PodInitializing";
    assert_eq!(node.line("web").await, expected);
    pass(10).await;
    assert_eq!(node.line("web").await, "Running exit0+ exit0+ running+");
    let status = node.status("web").await;
    assert_eq!(condition(&status, "Initialized").trim(), "True");
    assert_eq!(condition(&status, "Ready").trim(), "True");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_init_container_that_fails_is_run_again_or_fails_the_pod() {
    let node = Node::start();
    let spec = |policy: &str| {
        json!({
            "restartPolicy": policy,
            "initContainers": [shell("init", "sleep 1; exit 3")],
            "containers": [shell("main", "sleep 1h")],
        })
    };
    node.run("never", spec("Never")).await;
    node.run("always", spec("Always")).await;
    pass(5).await;
    assert_eq!(node.line("never").await, "Failed exit3 PodInitializing");
    let expected = "Pending CrashLoopBackOff(1) PodInitializing";
    assert_eq!(node.line("always").await, expected);
    assert_eq!(
        node.events("BackOff").await.len(),
        1,
        "{:?}",
        node.events("BackOff").await
    );
    pass(10).await;
    let expected = "Pending CrashLoopBackOff(2) PodInitializing";
    assert_eq!(node.line("always").await, expected);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_starts_before_and_ends_after_the_rest() {
    let node = Node::start();
    let startup = json!({ "exec": { "command": ["test", "-f", "/up"] }, "periodSeconds": 1 });
    let sidecar = shell("proxy", "sleep 5; touch /up; sleep 1h");
    let sidecar = with(sidecar, "restartPolicy", json!("Always"));
    let sidecar = with(sidecar, "startupProbe", startup.clone());
    node.run(
        "job",
        json!({
            "restartPolicy": "Never",
            "initContainers": [
                with(sidecar, "startupProbe", with(startup, "failureThreshold", json!(9))),
                shell("init", "sleep 1"),
            ],
            "containers": [shell("main", "sleep 10")],
        }),
    )
    .await;
    pass(1).await;
    let expected = "Pending running PodInitializing PodInitializing";
    assert_eq!(node.line("job").await, expected);
    pass(6).await;
    assert_eq!(node.line("job").await, "Running running+ exit0+ running+");
    pass(10).await;
    assert_eq!(node.line("job").await, "Succeeded exit0 exit0+ exit0");
    let status = node.status("job").await;
    assert_eq!(
        condition(&status, "Initialized").trim(),
        "True PodCompleted"
    );
    assert_eq!(condition(&status, "Ready").trim(), "False PodCompleted");
    node.manager.shutdown().await;
}

/// Two sidecars, the second with a hook, and a main container that ends after 10 s.
fn attended() -> Value {
    let sidecar = |name: &str| with(shell(name, "sleep 1h"), "restartPolicy", json!("Always"));
    let hook = json!({ "preStop": { "exec": { "command": ["sleep", "1"] } } });
    json!({
        "restartPolicy": "Never",
        "initContainers": [sidecar("proxy"), with(sidecar("log"), "lifecycle", hook)],
        "containers": [shell("main", "sleep 10")],
    })
}

#[tokio::test(start_paused = true)]
async fn sidecars_are_stopped_last_and_the_first_of_them_at_the_end() {
    let node = Node::start();
    let slow = json!({ "kubeproof.dev/stop-seconds": "4" });
    let pod = |name: &str, grace: u64| {
        let spec = with(attended(), "terminationGracePeriodSeconds", json!(grace));
        let metadata = json!({
            "name": name, "annotations": slow, "finalizers": ["example.com/look"],
        });
        json!({ "metadata": metadata, "spec": spec })
    };
    node.create(pod("done", 30)).await;
    pass(11).await;
    // The pod goes on while a sidecar runs.
    assert_eq!(node.line("done").await, "Running running+ running+ exit0");
    pass(20).await;
    assert_eq!(node.line("done").await, "Succeeded exit0 exit0 exit0");
    let ended = |main: i64, log: (i32, i64), proxy: (i32, i64)| {
        vec![
            (format!("proxy {}", proxy.0), proxy.1),
            (format!("log {}", log.0), log.1),
            ("main 0".to_owned(), main),
        ]
    };
    // The hook of `log` takes one second, and each sidecar takes four to stop.
    let status = node.status("done").await;
    assert_eq!(ends(&status), ended(10, (0, 15), (0, 19)));

    for (name, grace, expected) in [
        ("calm", 30, ended(5, (0, 9), (0, 13))),
        // A sidecar whose turn comes at the end of the grace period is killed two seconds later.
        ("hasty", 6, ended(5, (137, 7), (137, 9))),
    ] {
        node.create(pod(name, grace)).await;
        pass(1).await;
        let params = DeleteParams::default();
        node.pods().delete(name, &params).await.unwrap();
        pass(3).await;
        assert_eq!(node.line(name).await, "Running running+ running+ running+");
        pass(20).await;
        assert_eq!(ends(&node.status(name).await), expected, "{name}");
    }
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_kubelet_records_the_events_of_a_real_one() {
    let node = Node::start();
    let mut spec = attended();
    spec["containers"] = json!([{ "name": "main", "image": "nginx:1.25" }]);
    node.run("web", spec).await;
    pass(1).await;
    let pulled = |image: &str| {
        format!(
            "Container image \"{image}\" already present on machine and can be accessed by the pod"
        )
    };
    let mut events = Vec::new();
    for name in ["proxy", "log"] {
        let path = format!("spec.initContainers{{{name}}}");
        events.push(format!("Pulling {path} Pulling image \"busybox\""));
        events.push(format!(
            "Pulled {path} Successfully pulled image \"busybox\" in 0s (0s including waiting). \
             Image size: 0 bytes."
        ));
        events.push(format!("Created {path} Container created"));
        events.push(format!("Started {path} Container started"));
    }
    let path = "spec.containers{main}";
    events.push(format!("Pulled {path} {}", pulled("nginx:1.25")));
    events.push(format!("Created {path} Container created"));
    events.push(format!("Started {path} Container started"));
    assert_eq!(node.course("web").await, events);
    let params = DeleteParams::default();
    node.pods().delete("web", &params).await.unwrap();
    pass(5).await;
    for (path, name) in [
        ("spec.initContainers", "proxy"),
        ("spec.initContainers", "log"),
        ("spec.containers", "main"),
    ] {
        events.push(format!(
            "Killing {path}{{{name}}} Stopping container {name}"
        ));
    }
    assert_eq!(node.course("web").await, events);

    let image = json!({ "containers": [{ "name": "main", "image": "nginx:1.25" }] });
    node.run("forced", image.clone()).await;
    node.run("changed", image).await;
    pass(1).await;
    let params = DeleteParams::default().grace_period(0);
    node.pods().delete("forced", &params).await.unwrap();
    let patch = json!({ "spec": { "containers": [{ "name": "main", "image": "nginx:1.26" }] } });
    let params = PatchParams::default();
    node.pods()
        .patch("changed", &params, &Patch::Strategic(patch))
        .await
        .unwrap();
    pass(1).await;
    assert_eq!(
        node.course("forced").await[3..],
        ["Killing spec.containers{main} Stopping container main"]
    );
    let changed = "Container main definition changed, will be restarted";
    let pulled = format!("Pulled {path} {}", pulled("nginx:1.26"));
    // The counts of Created and Started are in their first events.
    assert_eq!(
        node.course("changed").await[3..],
        [format!("Killing {path} {changed}"), pulled]
    );
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_alive_is_started_again() {
    let node = Node::start();
    let probe = json!({
        "exec": { "command": ["sh", "-c", "test -f /ok || (echo gone; false)"] },
        "initialDelaySeconds": 1, "periodSeconds": 5, "failureThreshold": 2,
    });
    let script = "touch /ok; sleep 10; rm /ok; sleep 1h";
    let main = with(shell("main", script), "livenessProbe", probe);
    node.run("web", json!({ "containers": [main] })).await;
    pass(12).await;
    assert_eq!(node.line("web").await, "Running running+");
    let unhealthy = "spec.containers{main}: Liveness probe failed: gone\n";
    assert_eq!(node.events("Unhealthy").await, [unhealthy]);
    pass(5).await;
    assert_eq!(node.line("web").await, "Running running+(1)");
    let killing = "spec.containers{main}: Container main failed liveness probe, will be restarted";
    assert_eq!(node.events("Killing").await, [killing]);
    let status = node.status("web").await;
    let last = &status["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(last["exitCode"], 0);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn other_probes_wait_for_the_startup_probe() {
    let node = Node::start();
    let exec = |file: &str| json!({ "command": ["test", "-f", file] });
    let startup = json!({ "exec": exec("/up"), "periodSeconds": 2, "failureThreshold": 5 });
    let liveness = json!({ "exec": exec("/up"), "periodSeconds": 1, "failureThreshold": 1 });
    let probed = |script: &str| {
        let main = with(shell("main", script), "startupProbe", startup.clone());
        json!({ "containers": [with(main, "livenessProbe", liveness.clone())] })
    };
    node.run("slow", probed("sleep 5; touch /up; sleep 1h"))
        .await;
    node.run("never", probed("sleep 1h")).await;
    pass(3).await;
    for name in ["slow", "never"] {
        assert_eq!(node.line(name).await, "Running running");
        let status = node.status(name).await;
        assert_eq!(status["containerStatuses"][0]["started"], false);
    }
    pass(4).await;
    assert_eq!(node.line("slow").await, "Running running+");
    pass(2).await;
    assert_eq!(node.line("slow").await, "Running running+");
    assert_eq!(node.line("never").await, "Running running(1)");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_fails() {
    let node = Node::start();
    let containers = json!([shell("main", "sleep 1h")]);
    let spec = json!({ "containers": containers, "activeDeadlineSeconds": 30 });
    node.run("short", spec).await;
    pass(29).await;
    assert_eq!(node.line("short").await, "Running running+");
    pass(2).await;
    assert_eq!(node.line("short").await, "Failed exit137");
    let status = node.status("short").await;
    assert_eq!(status["reason"], "DeadlineExceeded");
    let message = "Pod was active on the node longer than the specified deadline";
    assert_eq!(status["message"], message);
    assert_eq!(
        node.events("DeadlineExceeded").await,
        [format!(": {message}")]
    );
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_refuses_what_it_has_no_room_for() {
    let node = Node::start();
    let port = json!([{ "containerPort": 80, "hostPort": 21017 }]);
    let serving = with(shell("main", "sleep 1h"), "ports", port);
    let greedy = json!({ "requests": { "cpu": "9" } });
    let greedy = with(shell("main", "sleep 1h"), "resources", greedy);
    let pinned = |container: &Value| json!({ "nodeName": "node-1", "containers": [container] });
    node.run("first", pinned(&serving)).await;
    pass(1).await;
    node.run("second", pinned(&serving)).await;
    node.run("greedy", pinned(&greedy)).await;
    pass(2).await;
    assert_eq!(node.line("first").await, "Running running+");
    for (name, reason, message) in [
        (
            "second",
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            "greedy",
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000",
        ),
    ] {
        let status = node.status(name).await;
        assert_eq!(
            (&status["phase"], &status["reason"]),
            (&json!("Failed"), &json!(reason))
        );
        assert_eq!(status["message"], format!("Pod was rejected: {message}"));
        assert_eq!(condition(&status, "Ready").trim(), "False PodFailed");
        assert_eq!(node.events(reason).await, [format!(": {message}")]);
    }
    node.pods()
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();
    pass(1).await;
    node.run("third", pinned(&serving)).await;
    pass(1).await;
    assert_eq!(node.line("third").await, "Running running+");
    node.manager.shutdown().await;
}
