//! What environment variables add to a control plane, and the command `kubeproof envtest`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use rustix::process::Signal;
use serde_json::json;

use super::plane::Plane;
use super::{code, create, names, start, start_with};
use crate::support::process::{output, send, stdout};

/// The time in which simulated controllers do their work, also on a busy machine.
const WORK_MAX: Duration = Duration::from_secs(20);

#[tokio::test]
async fn controllers_and_nodes_run_if_variables_ask_for_them() {
    let set = [
        ("KUBEPROOF_CONTROLLERS", "all"),
        ("KUBEPROOF_NODES", "2"),
        ("KUBEPROOF_NODDES", "2"),
    ];
    let ready = start_with("controllers", &[], &set).await;
    let nodes = Api::<Node>::all(ready.admin.clone());
    let began = Instant::now();
    while nodes
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .len()
        < 2
    {
        assert!(began.elapsed() < WORK_MAX, "{}", ready.server.errors());
    }
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    let deployments = Api::<Deployment>::default_namespaced(ready.admin.clone());
    create(&deployments, deployment).await;
    let is_running = async || {
        let pods = Api::<Pod>::default_namespaced(ready.admin.clone());
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let phases = pods
            .iter()
            .filter_map(|pod| pod.status.as_ref()?.phase.as_deref());
        phases.filter(|phase| *phase == "Running").count() == 2
    };
    while !is_running().await {
        assert!(began.elapsed() < WORK_MAX, "{}", ready.server.errors());
    }
    let errors = ready.server.errors();
    assert!(
        errors.contains("did you mean \"KUBEPROOF_NODES\"?"),
        "{errors}"
    );
}

#[tokio::test]
async fn nothing_but_the_server_runs_without_variables() {
    let ready = start("alone", &[]).await;
    let deleted = Api::<k8s_openapi::api::core::v1::Namespace>::all(ready.admin.clone());
    create(&deleted, json!({"metadata": {"name": "gone"}})).await;
    let _ = deleted
        .delete("gone", &DeleteParams::default())
        .await
        .unwrap();
    // As in envtest, nothing empties a namespace that is being deleted.
    assert!(names(&ready.admin).await.contains(&"gone".to_owned()));
}

#[tokio::test]
async fn faults_in_a_file_strike_from_the_start() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest-faults.yaml");
    let fault = "name: busy\non: {verb: create, resource: configmaps}\ntimes: 1\n\
                 refuse: {code: 409, reason: Conflict, message: later}\n";
    fs::write(&file, fault).unwrap();
    let set = [("KUBEPROOF_FAULTS", file.to_str().unwrap())];
    let ready = start_with("faults", &[], &set).await;
    let maps = Api::<ConfigMap>::default_namespaced(ready.admin.clone());
    let map: ConfigMap = super::object(json!({"metadata": {"name": "a"}}));
    let refused = maps.create(&Default::default(), &map).await.unwrap_err();
    assert_eq!(code(refused), 409);
    maps.create(&Default::default(), &map).await.unwrap();
}

/// The time between the last two events of a pod without a node, in a watch.
async fn deletion_takes(name: &str, set: &[(&str, &str)]) -> Duration {
    let ready = start_with(name, &[], set).await;
    let pods = Api::<Pod>::default_namespaced(ready.admin.clone());
    let container = json!({"name": "c", "image": "nginx"});
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}});
    let pod = create(&pods, pod).await;
    let from = pod.metadata.resource_version.unwrap();
    let events = pods.watch(&WatchParams::default(), &from).await.unwrap();
    let mut events = std::pin::pin!(events);
    let deletion = DeleteParams::default();
    let deleted = pods.delete("a", &deletion);
    let (mut marked, mut took) = (None, None);
    let watched = async {
        while took.is_none() {
            use futures::TryStreamExt as _;
            match events.try_next().await.unwrap().unwrap() {
                WatchEvent::Modified(_) => marked = Some(Instant::now()),
                WatchEvent::Deleted(_) => took = marked.map(|marked| marked.elapsed()),
                other => panic!("{other:?}"),
            }
        }
    };
    let ((), deleted) = tokio::join!(watched, deleted);
    deleted.unwrap();
    took.unwrap()
}

#[tokio::test]
async fn the_pace_of_etcd_is_kept_unless_a_variable_switches_it_off() {
    // A busy machine delays the client between two packets, or shows it both at once: the slowest of a paced server and
    // the fastest of another are what the server itself does.
    let (mut slowest, mut fastest) = (Duration::ZERO, Duration::MAX);
    for round in 0..5 {
        slowest = slowest.max(deletion_takes(&format!("paced{round}"), &[]).await);
        let set = [("KUBEPROOF_PACE", "0")];
        fastest = fastest.min(deletion_takes(&format!("unpaced{round}"), &set).await);
    }
    assert!(slowest >= Duration::from_micros(1400), "{slowest:?}");
    assert!(fastest < Duration::from_micros(1400), "{fastest:?}");
}

#[tokio::test]
async fn a_kept_control_plane_outlives_its_harness() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest-home");
    let _ = fs::remove_dir_all(&home);
    let cache = home.to_str().unwrap();
    let set = [
        ("KUBEPROOF_KEEP", "1"),
        ("XDG_CACHE_HOME", cache),
        ("HOME", cache),
    ];
    let ready = start_with("kept", &[], &set).await;
    let maps = Api::<ConfigMap>::default_namespaced(ready.admin.clone());
    create(&maps, json!({"metadata": {"name": "a"}})).await;
    let errors = ready.plane.dir.join("kube-apiserver.stderr");
    assert!(ready.server.stop(Signal::TERM).success());
    let notice = fs::read_to_string(errors).unwrap();
    let words: Vec<&str> = notice.split_whitespace().collect();
    let after = |word: &str| {
        let at = words.iter().position(|own| *own == word).unwrap();
        words[at + 1]
    };
    let config = kube::config::Kubeconfig::read_from(after("--kubeconfig")).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await;
    let mut config = config.unwrap();
    // rustls asks for an authority; kubectl trusts the certificate itself.
    config.accept_invalid_certs = true;
    let client = super::plane::connect(config);
    let map = Api::<ConfigMap>::default_namespaced(client).get("a").await;
    send(Signal::TERM, after("kill").parse().unwrap());
    assert_eq!(map.unwrap().metadata.name.as_deref(), Some("a"));
}

#[test]
fn a_wrong_variable_ends_the_server_with_its_name() {
    let plane = Plane::new("variables");
    let dir = plane.dir.to_str().unwrap();
    let authority = super::plane::Authority::new();
    authority.itself().write(&plane.dir, "sa-signer");
    let mut server = plane.program("kube-apiserver");
    server
        .env("KUBEPROOF_CONTROLLERS", "garbage-colector")
        .args([
            "--etcd-servers=http://127.0.0.1:1",
            "--service-account-issuer=https://127.0.0.1:1/",
            &format!("--service-account-key-file={dir}/sa-signer.crt"),
            &format!("--service-account-signing-key-file={dir}/sa-signer.key"),
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
    let ended = server.output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    for word in ["KUBEPROOF_CONTROLLERS", "garbage-collector"] {
        assert!(errors.contains(word), "{errors}");
    }
}

#[test]
fn the_programs_are_written_again_and_into_stores() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest-layouts");
    let _ = fs::remove_dir_all(&root);
    let (into, store) = (root.join("into"), root.join("store"));
    let (into, store) = (into.to_str().unwrap(), store.to_str().unwrap());
    // Existing files are replaced.
    fs::create_dir_all(into).unwrap();
    fs::write(format!("{into}/kubectl"), "another").unwrap();
    for _ in 0..2 {
        let printed = output(&["envtest", "--into", into, "--print", "env"]);
        let line = format!("export KUBEBUILDER_ASSETS='{into}'\n");
        assert_eq!(stdout(&printed), line);
        let mut files: Vec<String> = fs::read_dir(into)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(
            files,
            ["etcd", "kube-apiserver", "kubectl", "setup-envtest"]
        );
        let own = fs::metadata(env!("CARGO_BIN_EXE_kubeproof")).unwrap().len();
        let lengths = files
            .iter()
            .map(|file| fs::metadata(format!("{into}/{file}")));
        assert!(
            lengths
                .map(|file| file.unwrap().len())
                .all(|len| len == own)
        );
    }
    let setup = stdout(&output(&["envtest", "--into", into, "--print", "setup"]));
    assert_eq!(setup, format!("{into}/setup-envtest\n"));
    let mut used = std::process::Command::new(setup.trim());
    used.args(["use", "-p", "path", "1.36.x"])
        .env("ENVTEST_USE_ENV", "true")
        .env("KUBEBUILDER_ASSETS", into);
    assert_eq!(stdout(&used.output().unwrap()), into);

    let args = ["envtest", "--store", store, "--version", "1.31.0"];
    let printed = stdout(&output(&args));
    assert!(
        printed.starts_with(&format!("{store}/1.31.0-")),
        "{printed}"
    );
    assert!(Path::new(printed.trim()).join("kube-apiserver").exists());
    let printed = output(&["envtest", "--version", "1.31.0"]);
    assert!(!printed.status.success(), "a version is that of a store");
}

#[tokio::test]
async fn a_control_plane_leaves_a_log_a_page_and_an_audit_log() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest-log");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    let policy = root.join("policy.yaml");
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n\
                 - {level: Metadata, resources: [{resources: [configmaps]}]}\n";
    fs::write(&policy, rules).unwrap();
    let (logs, audit) = (root.join("logs"), root.join("audit.log"));
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", audit.display()),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let set = [("KUBEPROOF_LOG", logs.to_str().unwrap())];
    let ready = start_with("log", &flags, &set).await;
    let maps = Api::<ConfigMap>::default_namespaced(ready.admin.clone());
    create(&maps, json!({"metadata": {"name": "mine"}})).await;
    assert_eq!(code(maps.get("absent").await.unwrap_err()), 404);
    assert!(ready.server.stop(Signal::TERM).success());

    let page = fs::read_to_string(logs.join("1.html")).unwrap();
    for words in ["configmap mine created", "configmaps/absent"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let log = fs::read_to_string(logs.join("1.log")).unwrap();
    assert!(log.contains(r#""name":"mine""#), "{log}");
    let audited = fs::read_to_string(audit).unwrap();
    let lines: Vec<serde_json::Value> = audited
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ended = |verb: &str| {
        let of = lines.iter().filter(|event| event["verb"] == verb);
        of.filter(|event| event["stage"] == "ResponseComplete")
            .count()
    };
    // The server itself publishes the authorities of clients.
    assert_eq!((ended("create"), ended("get")), (2, 1), "{audited}");
}
