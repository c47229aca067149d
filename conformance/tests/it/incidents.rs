//! The state of another cluster: exported, dumped, gathered or audited, and loaded again as it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::process::{file, get, kubeproof, output, post, serve, stdout, terminate};

/// A Deployment, and a ConfigMap that waits for its finalizer.
const OBJECTS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.25"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, finalizers: [example.com/kept]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shops, kind: Shop}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Shop
metadata: {name: books}
spec: {color: red}
"#;

/// Starts a server with these arguments and a kubeconfig.
pub(crate) fn start(name: &str, arguments: &[&str]) -> (std::process::Child, String, PathBuf) {
    let kubeconfig = file(&format!("incidents/{name}/kubeconfig"), "");
    let fixed = ["--kubeconfig-out", kubeconfig.to_str().unwrap()];
    let (child, url) = serve(&[&fixed[..], arguments].concat());
    (child, url, kubeconfig)
}

/// Starts a server that runs [`OBJECTS`], and waits until its pods are ready.
pub(crate) fn incident(name: &str, more: &[&str]) -> (std::process::Child, String, PathBuf) {
    let objects = file(&format!("incidents/{name}/objects.yaml"), OBJECTS);
    let fixed = ["--nodes", "1", "--load", objects.to_str().unwrap()];
    let started = start(name, &[&fixed[..], more].concat());
    let began = Instant::now();
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    while !get(&started.1, path, "").contains(r#""readyReplicas":2"#) {
        assert!(began.elapsed() < Duration::from_secs(60), "pods get ready");
    }
    started
}

/// The objects that a server exports, by kind, namespace and name.
pub(crate) fn exported(kubeconfig: &Path) -> BTreeMap<String, Value> {
    let ran = output(&[
        "export",
        "--list",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ]);
    by_key(&stdout(&ran))
}

fn by_key(list: &str) -> BTreeMap<String, Value> {
    let list: Value = serde_saphyr::from_str(list).unwrap();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("List"), &json!("v1"))
    );
    let items = list["items"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let keyed = items.map(|item| {
        let metadata = &item["metadata"];
        let parts = [&item["kind"], &metadata["namespace"], &metadata["name"]].map(text);
        (parts.join("/"), item.clone())
    });
    keyed.collect()
}

fn rv(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// Without what goes on: leases and nodes are renewed, and reconciled objects are those of each server.
fn at_rest(objects: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let moving = [
        "Lease/",
        "Node/",
        "Event/",
        "FlowSchema/",
        "PriorityLevelConfiguration/",
    ];
    let objects = objects.iter();
    let resting = objects.filter(|(key, _)| !moving.iter().any(|kind| key.starts_with(kind)));
    resting
        .map(|(key, object)| (key.clone(), object.clone()))
        .collect()
}

pub(crate) fn without_rv(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    object
}

/// Loads `path` into a server without controllers, and returns what that exports.
fn loaded(name: &str, path: &Path, more: &[&str]) -> BTreeMap<String, Value> {
    let fixed = ["--controllers", "none", "--load", path.to_str().unwrap()];
    let (child, _, kubeconfig) = start(name, &[&fixed[..], more].concat());
    let objects = exported(&kubeconfig);
    terminate(child);
    objects
}

#[test]
fn what_is_exported_is_loaded_as_it_was() {
    let (child, url, kubeconfig) = incident("export", &[]);
    let path = "/api/v1/namespaces/default/configmaps/kept";
    delete(&url, path);
    let before = exported(&kubeconfig);
    terminate(child);
    let kept = &before["ConfigMap/default/kept"];
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    let pods = before
        .keys()
        .filter(|key| key.starts_with("Pod/default/web-"));
    assert_eq!(pods.count(), 2);
    let items: Vec<&Value> = before.values().collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    for (form, text) in [
        ("yaml", serde_saphyr::to_string(&list).unwrap()),
        ("json", list.to_string()),
    ] {
        let path = file(&format!("incidents/export/list.{form}"), &text);
        let after = loaded(&format!("export-{form}"), &path, &[]);
        for (key, object) in &before {
            let found = after.get(key).map(without_rv);
            assert_eq!(found, Some(without_rv(object)), "{key}");
        }
        let mut in_order: Vec<&String> = before.keys().collect();
        in_order.sort_by_key(|key| rv(&before[*key]));
        let versions: Vec<u64> = in_order.iter().map(|key| rv(&after[*key])).collect();
        assert!(versions.is_sorted(), "{versions:?}");
    }
}

fn delete(url: &str, path: &str) {
    let server = url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(server).unwrap();
    let request = format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
}

/// Runs kubectl; prints a note and returns `None` if it is not installed.
fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Option<String> {
    let ran = Command::new("kubectl")
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output();
    let Ok(ran) = ran else {
        eprintln!("skipped: there is no kubectl on the path");
        return None;
    };
    assert!(ran.status.success(), "{arguments:?}: {ran:?}");
    Some(stdout(&ran))
}

const KINDS: &str = "namespaces,pods,deployments,replicasets,configmaps,serviceaccounts,customresourcedefinitions,shops";

/// Writes what must-gather would, and returns its directory.
fn must_gather(kubeconfig: &Path) -> PathBuf {
    let gathered =
        file("incidents/kubectl/must-gather.local.1/version", "v4").with_file_name("sha256-1");
    let gather = |path: &str, arguments: &[&str]| {
        let text = kubectl(
            kubeconfig,
            &[&["get", "--output", "yaml"][..], arguments].concat(),
        );
        file(
            &format!("incidents/kubectl/must-gather.local.1/sha256-1/{path}"),
            &text.expect("kubectl prints it"),
        );
    };
    gather("namespaces/default/default.yaml", &["namespace", "default"]);
    gather("namespaces/default/core/pods.yaml", &["pods"]);
    gather("namespaces/default/apps/deployments.yaml", &["deployments"]);
    gather(
        "namespaces/default/example.com/shops/books.yaml",
        &["shop", "books"],
    );
    let definitions = "cluster-scoped-resources/apiextensions.k8s.io/customresourcedefinitions";
    let definition = ["customresourcedefinition", "shops.example.com"];
    gather(
        &format!("{definitions}/shops.example.com.yaml"),
        &definition,
    );
    file(
        "incidents/kubectl/must-gather.local.1/sha256-1/namespaces/default/pods/web/x.json",
        "{",
    );
    gathered.parent().expect("below a directory").to_owned()
}

#[test]
fn what_kubectl_prints_and_dumps_is_loaded_as_it_was() {
    let (child, _, kubeconfig) = incident("kubectl", &[]);
    let get = [
        "get",
        KINDS,
        "--all-namespaces",
        "--show-managed-fields",
        "--output",
    ];
    let Some(yaml) = kubectl(&kubeconfig, &[&get[..], &["yaml"]].concat()) else {
        terminate(child);
        return;
    };
    let before = exported(&kubeconfig);
    let dump = file("incidents/kubectl/dump/note", "").with_file_name("all");
    let directory = format!("--output-directory={}", dump.display());
    kubectl(
        &kubeconfig,
        &["cluster-info", "dump", "--all-namespaces", &directory],
    )
    .unwrap();
    let gathered = must_gather(&kubeconfig);
    terminate(child);
    let list = file("incidents/kubectl/list.yaml", &yaml);
    let shown = |object: &Value| {
        let mut object = without_rv(object);
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        object
    };
    for (name, path, own) in [
        (
            "list",
            list.as_path(),
            &[
                "ConfigMap/default/kept",
                "Shop/default/books",
                "ReplicaSet/default/web-",
            ][..],
        ),
        (
            "dump",
            &dump,
            &[
                "Deployment/default/web",
                "Pod/default/web-",
                "ReplicaSet/default/web-",
            ],
        ),
        (
            "gathered",
            &gathered,
            &[
                "Namespace//default",
                "Pod/default/web-",
                "Deployment/default/web",
                "Shop/default/books",
            ],
        ),
    ] {
        let after = loaded(&format!("kubectl-{name}"), path, &[]);
        for start in own {
            let mut found = 0;
            for (key, object) in before.iter().filter(|(key, _)| key.starts_with(start)) {
                found += 1;
                let (mut loaded, mut wanted) = (shown(&after[key]), shown(object));
                if name == "dump" {
                    // Of a status it has the fields that this kubectl knows.
                    for field in ["phase", "podIP", "readyReplicas"] {
                        assert_eq!(loaded["status"][field], wanted["status"][field]);
                    }
                    loaded["status"].take();
                    wanted["status"].take();
                }
                assert_eq!(loaded, wanted, "{name}: {key}");
                if name == "list" {
                    assert_eq!(
                        after[key]["metadata"]["managedFields"],
                        object["metadata"]["managedFields"]
                    );
                }
            }
            assert!(found > 0, "{name}: {start}");
        }
        // `export --from` writes the same objects as a List, which scenarios take.
        let out = stdout(&output(&["export", "--from", path.to_str().unwrap()]));
        let keys = by_key(&out);
        assert!(
            own.iter()
                .all(|start| keys.keys().any(|key| key.starts_with(start)))
        );
    }
}

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: RequestResponse}]
";

#[test]
fn an_audit_log_has_the_state_at_each_time() {
    let policy = file("incidents/audit/policy.yaml", POLICY);
    let log = file("incidents/audit/audit.log", "");
    let audit = [
        "--audit-policy-file",
        policy.to_str().unwrap(),
        "--audit-log-path",
        log.to_str().unwrap(),
    ];
    let (child, url, kubeconfig) = incident("audit", &audit);
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["first", "second"] {
        let body = json!({"metadata": {"name": name}, "data": {"a": "1"}}).to_string();
        assert!(post(&url, path, &body).starts_with("HTTP/1.1 201"));
    }
    delete(&url, &format!("{path}/kept"));
    let before = exported(&kubeconfig);
    delete(&url, &format!("{path}/first"));
    delete(&url, "/apis/apps/v1/namespaces/default/deployments/web");
    let began = Instant::now();
    while get(&url, "/api/v1/namespaces/default/pods", "").contains(r#""name":"web-"#) {
        assert!(began.elapsed() < Duration::from_secs(60), "pods go");
    }
    let end = exported(&kubeconfig);
    terminate(child);
    let text = std::fs::read_to_string(&log).unwrap();
    let mut events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_first =
        |event: &Value| event["verb"] == "delete" && event["objectRef"]["name"] == "first";
    let deleted = events.rfind(is_first).unwrap();
    let time = deleted["requestReceivedTimestamp"]
        .as_str()
        .unwrap()
        .to_owned();
    for (name, more, wanted) in [
        ("end", vec![], &end),
        ("until", vec!["--load-until", &*time], &before),
    ] {
        let after = at_rest(&loaded(&format!("audit-{name}"), &log, &more));
        let logged = |key: &&String| {
            let own = [
                "Pod/default/",
                "ReplicaSet/default/",
                "Deployment/default/",
                "ConfigMap/default/",
            ];
            own.iter().any(|kind| key.starts_with(kind))
        };
        let wanted = at_rest(wanted);
        let keys: Vec<&String> = wanted.keys().filter(logged).collect();
        assert_eq!(
            after.keys().filter(logged).collect::<Vec<_>>(),
            keys,
            "{name}"
        );
        for key in keys {
            assert_eq!(
                without_rv(&after[key]),
                without_rv(&wanted[key]),
                "{name}: {key}"
            );
        }
    }
    assert!(before.contains_key("ConfigMap/default/first"));
    // Without bodies there is no state in a log.
    let lines = text.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        event["responseObject"].take();
        event.to_string()
    });
    let without = file(
        "incidents/audit/without.log",
        &lines.collect::<Vec<_>>().join("\n"),
    );
    let ran = kubeproof(&["export", "--from", without.to_str().unwrap()])
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(out.contains("level RequestResponse"), "{out}");
}

#[test]
fn a_scenario_goes_on_from_an_incident() {
    let (child, _, kubeconfig) = incident("scenario", &[]);
    let objects = exported(&kubeconfig);
    terminate(child);
    let own = objects
        .iter()
        .filter(|(key, _)| key.contains("/default/web") || key.contains("shop"));
    let own: Vec<&Value> = own.map(|(_, object)| object).collect();
    assert!(own.len() >= 4, "{own:?}");
    // As a file, as a dump, and as an audit log.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": own}).to_string();
    file("incidents/scenario/area/cluster.json.txt", &list);
    file("incidents/scenario/area/dump/default/all.json", &list);
    let nodes = r#"{"apiVersion": "v1", "kind": "NodeList", "items": []}"#;
    file("incidents/scenario/area/dump/nodes.json", nodes);
    let events = own.iter().map(|object| audit_event(object).to_string());
    let log = events.collect::<Vec<_>>().join("\n");
    file("incidents/scenario/area/audit.log", &log);
    for given in ["cluster.json.txt", "dump", "audit.log"] {
        goes_on(&own, given);
    }
}

/// The event of a read, which shows `object`.
fn audit_event(object: &Value) -> Value {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Event",
        "stage": "ResponseComplete", "verb": "get", "stageTimestamp": "2026-01-01T00:00:00Z",
        "objectRef": {"resource": "any", "namespace": text("namespace"), "name": text("name")},
        "responseStatus": {"code": 200},
        "responseObject": object,
    })
}

/// A scenario whose state is that of `given`, which has the objects `own`.
fn goes_on(own: &[&Value], given: &str) {
    let scenario = format!(
        "
title: A Deployment of another cluster is scaled
source: an incident
given:
  objects:
  - {given}
  - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: new}}}}
steps:
- scale: {{target: deployment/web, replicas: 3}}
"
    );
    let scenario = file("incidents/scenario/area/scaled.yaml", &scenario);
    let report = scenario.with_file_name("report");
    let arguments = [
        "run",
        scenario.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
    ];
    let out = stdout(&output(&arguments));
    // It has no golden.
    assert!(out.contains("web"), "{out}");
    let log = std::fs::read_to_string(report.join("logs/area__scaled.log.jsonl")).unwrap();
    // The ReplicaSet adds one pod to those that were there.
    let created = log.matches("pods/web-").count();
    assert!(created > 0, "{out}");
    for pod in own.iter().filter(|object| object["kind"] == "Pod") {
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(out.contains(name) || log.contains(name), "{name}: {out}");
    }
}
