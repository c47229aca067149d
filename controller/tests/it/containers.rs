//! Containers with a command, on one node under virtual time.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only #[test] functions as tests"
)]

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_controller::{CONTROLLERS, Manager, Options};
use kubeproof_node::{LogOptions, PodReference};
use kubeproof_runtime::decode::from_value;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::options;

struct Node {
    client: Client,
    manager: Manager,
}

impl Node {
    fn start() -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let server = ApiServer::builder().clock(clock.clone()).build();
        let client = Client::new(server, "default");
        let options = Options {
            controllers: CONTROLLERS.iter().map(|name| (*name).to_owned()).collect(),
            ..options(&clock)
        };
        let manager = Manager::start(client.clone(), options).unwrap();
        Self { client, manager }
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + serde::Serialize
            + Clone
            + std::fmt::Debug,
    {
        let object: K = from_value(object).unwrap();
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Creates a pod with one container that runs `script`; `extra` adds fields to the container,
    /// and volumes to the pod.
    async fn run(&self, name: &str, policy: &str, script: &str, extra: Value) {
        let mut container = json!({
            "name": "main", "image": "busybox", "command": ["sh", "-c", script],
        });
        let mut spec = json!({ "restartPolicy": policy });
        for (key, value) in extra.as_object().into_iter().flatten() {
            match key.as_str() {
                "volumes" => spec[key] = value.clone(),
                _ => container[key] = value.clone(),
            }
        }
        spec["containers"] = json!([container]);
        self.create::<Pod>(json!({ "metadata": { "name": name }, "spec": spec }))
            .await;
    }

    async fn pod(&self, name: &str) -> (String, ContainerStatus) {
        let status = self.pods().get(name).await.unwrap().status.unwrap();
        let containers = status.container_statuses.unwrap_or_default();
        (status.phase.unwrap(), containers[0].clone())
    }

    /// Returns the output of a container until it ends, while an attached client writes `input`.
    async fn attach(&self, name: &str, input: &str) -> String {
        let pod = self.pods().get(name).await.unwrap();
        let reference = PodReference {
            name,
            uid: pod.metadata.uid.as_deref().unwrap(),
            node: "node-1",
        };
        let session = self.manager.containers().attach(reference, "main", true);
        let session = session.ok().unwrap();
        let sender = session.input.unwrap();
        let bytes = Bytes::copy_from_slice(input.as_bytes());
        sender.send(bytes).await.unwrap();
        drop(sender);
        assert_eq!(session.ended.await, Ok(0));
        let chunks = session.output.map(|(_, bytes)| bytes);
        let bytes = chunks.collect::<Vec<_>>().await.concat();
        String::from_utf8(bytes).unwrap()
    }

    async fn log(&self, name: &str, options: LogOptions) -> String {
        let pod = self.pods().get(name).await.unwrap();
        let reference = PodReference {
            name,
            uid: pod.metadata.uid.as_deref().unwrap(),
            node: "node-1",
        };
        let log = self.manager.containers().logs(reference, "main", options);
        let bytes: Vec<u8> = log.unwrap().collect::<Vec<_>>().await.concat();
        String::from_utf8(bytes).unwrap()
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_restarted_ends_as_its_container_does() {
    let node = Node::start();
    let script = "for i in 1 2; do echo line $i; sleep 5; done; exit $CODE";
    let code = |code: &str| json!({ "env": [{ "name": "CODE", "value": code }] });
    node.run("good", "Never", script, code("0")).await;
    node.run("bad", "Never", script, code("3")).await;
    pass(1).await;
    assert_eq!(node.pod("good").await.0, "Running");
    assert_eq!(node.log("good", LogOptions::default()).await, "line 1\n");
    let follow = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    assert_eq!(node.log("good", follow).await, "line 1\nline 2\n");
    pass(1).await;
    for (name, phase, code, reason) in [
        ("good", "Succeeded", 0, "Completed"),
        ("bad", "Failed", 3, "Error"),
    ] {
        let (found, container) = node.pod(name).await;
        let ended = container.state.unwrap().terminated.unwrap();
        assert_eq!((found.as_str(), ended.exit_code), (phase, code));
        assert_eq!(ended.reason.as_deref(), Some(reason));
        let ran =
            ended.finished_at.unwrap().0.as_second() - ended.started_at.unwrap().0.as_second();
        assert_eq!(ran, 10);
        assert!(!container.ready);
    }
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_is_restarted_later_and_later() {
    let node = Node::start();
    node.run(
        "crash",
        "Always",
        "echo from $(date +%S); exit 1",
        json!({}),
    )
    .await;
    pass(5).await;
    let (phase, container) = node.pod("crash").await;
    assert_eq!((phase.as_str(), container.restart_count), ("Running", 1));
    let waiting = container.state.unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
    assert!(
        waiting
            .message
            .unwrap()
            .starts_with("back-off 10s restarting failed container=main")
    );
    let last = container.last_state.unwrap().terminated.unwrap();
    assert_eq!(last.exit_code, 1);
    // The runs start at 0, 0, 10, 30, 70, 150, 310 seconds and then every 300 seconds.
    for (seconds, restarts) in [
        (10, 2),
        (20, 3),
        (40, 4),
        (80, 5),
        (160, 6),
        (300, 7),
        (300, 8),
    ] {
        pass(seconds).await;
        assert_eq!(node.pod("crash").await.1.restart_count, restarts);
    }
    let previous = LogOptions {
        previous: true,
        ..LogOptions::default()
    };
    assert_eq!(node.log("crash", previous).await, "from 10\n");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_keeps_its_files_and_a_config_map_gives_its_own() {
    let node = Node::start();
    node.create::<PersistentVolumeClaim>(json!({
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        },
    }))
    .await;
    let extra = json!({
        "volumeMounts": [
            { "name": "data", "mountPath": "/data" }, { "name": "own", "mountPath": "/own" },
            { "name": "config", "mountPath": "/config" },
        ],
        "volumes": [
            { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
            { "name": "own", "emptyDir": {} },
            { "name": "config", "configMap": { "name": "settings" } },
        ],
    });
    let script = "cat /config/word >> /data/words; cat /config/word >> /own/words; \
        cat /data/words /own/words";
    node.run("writer", "Never", script, extra.clone()).await;
    pass(60).await;
    let (phase, container) = node.pod("writer").await;
    let waiting = container.state.unwrap().waiting.unwrap();
    assert_eq!(
        (phase.as_str(), waiting.reason.as_deref()),
        ("Pending", Some("ContainerCreating"))
    );
    let settings = json!({ "metadata": { "name": "settings" }, "data": { "word": "a\n" } });
    node.create::<ConfigMap>(settings).await;
    pass(60).await;
    assert_eq!(node.log("writer", LogOptions::default()).await, "a\na\n");
    let now = DeleteParams::default().grace_period(0);
    node.pods().delete("writer", &now).await.unwrap();
    node.run("writer", "Never", script, extra).await;
    pass(60).await;
    assert_eq!(node.log("writer", LogOptions::default()).await, "a\na\na\n");
    node.manager.shutdown().await;
}

/// Upstream's StatefulSet tests break a pod and heal it in this way.
#[tokio::test(start_paused = true)]
async fn readiness_follows_what_a_probe_finds() {
    let node = Node::start();
    let page = "/usr/local/apache2/htdocs/index.html";
    let script =
        format!("sleep 60; mv {page} /tmp/; sleep 60; mv /tmp/index.html {page}; sleep 1h");
    let extra = json!({
        "image": "httpd:2",
        "readinessProbe": {
            "httpGet": { "path": "/index.html", "port": 80 },
            "initialDelaySeconds": 5, "periodSeconds": 1, "failureThreshold": 2,
        },
    });
    node.run("web", "Always", &script, extra).await;
    pass(4).await;
    assert!(!node.pod("web").await.1.ready);
    for (seconds, ready) in [(2, true), (53, true), (5, false), (55, false), (4, true)] {
        pass(seconds).await;
        assert_eq!(node.pod("web").await.1.ready, ready, "{seconds}");
    }
    let exec = json!({
        "readinessProbe": { "exec": { "command": ["test", "-f", "/tmp/ready"] } },
    });
    node.run(
        "file",
        "Always",
        "sleep 30; touch /tmp/ready; sleep 1h",
        exec,
    )
    .await;
    pass(29).await;
    assert!(!node.pod("file").await.1.ready);
    pass(12).await;
    assert!(node.pod("file").await.1.ready);
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_image_s_shell_ends_at_once_without_input() {
    let node = Node::start();
    let bare = json!({ "command": null });
    node.run("once", "Never", "", bare.clone()).await;
    node.run("again", "Always", "", bare).await;
    let typed = json!({ "command": null, "stdin": true });
    node.run("typed", "Never", "", typed).await;
    let terminal = json!({ "command": ["cat"], "tty": true });
    node.run("terminal", "Never", "", terminal).await;
    let words = json!({ "command": null, "args": ["sh", "-c", "echo hi; exit 3"] });
    node.run("words", "Never", "", words).await;
    pass(5).await;
    let (phase, container) = node.pod("again").await;
    let state = container.state.unwrap().waiting.unwrap();
    assert_eq!(phase, "Running");
    assert_eq!(state.reason.as_deref(), Some("CrashLoopBackOff"));
    let last = container.last_state.unwrap().terminated.unwrap();
    assert_eq!(last.reason.as_deref(), Some("Completed"));
    for (name, phase) in [
        ("once", "Succeeded"),
        ("typed", "Running"),
        ("terminal", "Running"),
        ("words", "Failed"),
    ] {
        assert_eq!(node.pod(name).await.0, phase, "{name}");
    }
    let ended = node.pod("words").await.1.state.unwrap().terminated.unwrap();
    assert_eq!(ended.exit_code, 3);
    assert_eq!(node.log("words", LogOptions::default()).await, "hi\n");
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shell_waits_for_who_attaches() {
    let node = Node::start();
    let once = json!({ "command": ["sh"], "stdin": true, "stdinOnce": true });
    for name in ["once", "silent"] {
        node.run(name, "Never", "", once.clone()).await;
    }
    let open = json!({ "command": ["sh"], "stdin": true });
    node.run("open", "Never", "", open).await;
    pass(60).await;
    let long = "for i in 1 2\ndo echo $i\ndone; echo no >&2\nexit 4\n";
    assert_eq!(node.attach("once", long).await, "1\n2\nno\n");
    node.attach("silent", "").await;
    let written = tokio::join!(node.attach("open", "x=1\n"), async {
        pass(60).await;
        assert_eq!(node.pod("open").await.0, "Running");
        node.attach("open", "read y; echo $x$y; exit\n2\n").await
    });
    assert_eq!(written.1, "12\n");
    pass(1).await;
    let code = |container: ContainerStatus| container.state.unwrap().terminated.unwrap().exit_code;
    for (name, expected) in [("once", 4), ("silent", 0), ("open", 0)] {
        assert_eq!(code(node.pod(name).await.1), expected, "{name}");
    }
    node.manager.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_s_terminal_echoes_what_is_typed_and_keeps_its_first_process_alive() {
    let node = Node::start();
    let terminal = json!({ "command": ["sh"], "stdin": true, "tty": true });
    node.run("shell", "Never", "", terminal.clone()).await;
    let mut sleeping = terminal;
    sleeping["command"] = json!(["sleep", "600"]);
    node.run("asleep", "Never", "", sleeping).await;
    pass(5).await;
    let typed = "echo hi\rexit 4\r";
    let shown = node.attach("shell", typed).await;
    assert_eq!(shown, "echo hi\r\nexit 4\r\nhi\r\n# ");
    assert_eq!(node.pod("shell").await.0, "Failed");
    let log = node.log("shell", LogOptions::default()).await;
    assert_eq!(log, format!("# {shown}"));
    // The first process has no handler for the signal.
    let typed = tokio::join!(node.attach("asleep", "\x03"), async {
        pass(10).await;
        let phase = node.pod("asleep").await.0;
        let params = kube::api::DeleteParams::default().grace_period(0);
        node.pods().delete("asleep", &params).await.unwrap();
        phase
    });
    assert_eq!(typed, ("^C".to_owned(), "Running".to_owned()));
    node.manager.shutdown().await;
}
