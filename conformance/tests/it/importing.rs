//! Objects that a running server takes in.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::incidents::{exported, incident, start, without_rv};
use crate::support::process::{file, get, kubeproof, output, post, stdout, terminate};

/// Imports `path` into the server at `url`.
fn import(url: &str, path: &Path, more: &[&str]) -> Output {
    let fixed = ["import", path.to_str().unwrap(), "--server", url];
    output(&[&fixed[..], more].concat())
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The JSON in an answer.
fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let begin = body.find('{').unwrap();
    let end = body.rfind('}').unwrap();
    serde_json::from_str(&body[begin..=end]).unwrap()
}

fn list(objects: &BTreeMap<String, Value>) -> String {
    let items: Vec<&Value> = objects.values().collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// A ConfigMap as it was in another cluster.
fn live(name: &str, uid: &str, rv: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"from": uid},
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "resourceVersion": rv.to_string(),
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
    })
}

fn map_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

#[test]
fn what_is_exported_is_imported_into_a_running_server_as_it_was() {
    let (child, _, kubeconfig) = incident("import-from", &[]);
    let before = exported(&kubeconfig);
    let state = output(&["export", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    terminate(child);
    for (form, text) in [("list", list(&before)), ("state", stdout(&state))] {
        let path = file(&format!("importing/as-it-was/{form}"), &text);
        let (child, url, kubeconfig) = start(&format!("import-{form}"), &["--controllers", "none"]);
        let own = exported(&kubeconfig);
        let ran = import(&url, &path, &[]);
        assert!(ran.status.success(), "{}", stderr(&ran));
        let after = exported(&kubeconfig);
        for (key, object) in &before {
            // A server makes an APIService of each group itself.
            if key.starts_with("APIService/") {
                continue;
            }
            // Objects that every server has stay those of this server.
            let expected = own.get(key).unwrap_or(object);
            let found = after.get(key).map(without_rv);
            assert_eq!(found, Some(without_rv(expected)), "{key}");
        }
        // A server with nodes also has those of the metrics APIs.
        let makes = |key: &str| key.starts_with("APIService/") && !key.contains("metrics.k8s.io");
        let is_own = |key: &String| own.contains_key(key) || makes(key);
        let stored = before.keys().filter(|key| !is_own(key)).count();
        let numbers = format!(
            "{stored} objects stored, {} were there already\n",
            before.len() - stored
        );
        assert_eq!(stdout(&ran), numbers);
        // A second time there is nothing to do.
        let ran = import(&url, &path, &[]);
        let numbers = format!("0 objects stored, {} were there already\n", before.len());
        assert_eq!(stdout(&ran), numbers, "{}", stderr(&ran));
        assert_eq!(exported(&kubeconfig), after);
        terminate(child);
    }
}

#[test]
fn conflicts_are_named_and_nothing_is_imported() {
    let (child, url, _) = start("import-conflicts", &["--controllers", "none"]);
    for name in ["a", "b"] {
        let own = json!({"metadata": {"name": name}}).to_string();
        post(&url, "/api/v1/namespaces/default/configmaps", &own);
    }
    let [a, b, c] = ["a", "b", "c"].map(|name| live(name, &format!("uid-{name}"), 5000));
    let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    let all = json!({"apiVersion": "v1", "kind": "List", "items": [c, a, new, b]});
    let path = file("importing/conflicts.json", &all.to_string());
    let ran = import(&url, &path, &[]);
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(
        stderr(&ran),
        "error: nothing is imported; --replace would replace what exists:\n  configmaps \"a\" already exists\n  \
         configmaps \"b\" already exists\n"
    );
    for name in ["c", "new"] {
        assert!(get(&url, &map_path(name), "").starts_with("HTTP/1.1 404"));
    }
    let ran = import(&url, &path, &["--replace"]);
    assert_eq!(stdout(&ran), "4 objects stored\n", "{}", stderr(&ran));
    for name in ["a", "b", "c"] {
        let metadata = &body(&get(&url, &map_path(name), ""))["metadata"];
        assert_eq!(metadata["uid"], format!("uid-{name}"));
        assert_eq!(metadata["creationTimestamp"], "2026-01-02T03:04:05Z");
    }
    // An object that is not live has no uid to keep: it is updated.
    let uid = |answer: &str| body(answer)["metadata"]["uid"].clone();
    let before = uid(&get(&url, &map_path("new"), ""));
    let update = "{apiVersion: v1, kind: ConfigMap, metadata: {name: new}, data: {k: v}}";
    let update = file("importing/update.yaml", update);
    let ran = import(&url, &update, &[]);
    let message = "error: nothing is imported; --replace would replace what exists:\n  configmaps \"new\" already exists\n";
    assert_eq!(stderr(&ran), message);
    let ran = import(&url, &update, &["--replace"]);
    assert_eq!(stdout(&ran), "1 object stored\n", "{}", stderr(&ran));
    let stored = get(&url, &map_path("new"), "");
    assert_eq!(
        (uid(&stored), &body(&stored)["data"]["k"]),
        (before, &json!("v"))
    );
    terminate(child);
}

#[test]
fn a_broken_export_and_what_only_begins_as_one_are_refused() {
    let (child, url, kubeconfig) = start("import-broken", &["--controllers", "none"]);
    let state = output(&["export", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let whole = stdout(&state);
    let truncated = &whole[..whole.trim_end().len() - 1];
    let recording = format!("{whole}{{\"seen\":1}}\n");
    let last_line = format!("line {}: ", whole.trim_end().lines().count());
    for (name, text, wanted) in [
        ("truncated", truncated, last_line.as_str()),
        ("recording", &recording, "this is more than an export"),
    ] {
        let path = file(&format!("importing/broken/{name}.jsonl"), text);
        let ran = import(&url, &path, &["--replace"]);
        assert_eq!((ran.status.code(), &*stdout(&ran)), (Some(2), ""), "{name}");
        assert!(stderr(&ran).contains(wanted), "{}", stderr(&ran));
    }
    let path = file("importing/broken/whole.jsonl", &whole);
    let ran = import(&url, &path, &["--until", "2026-01-01T00:00:00Z"]);
    let wanted = "error: --until is for audit logs, and no file is one\n";
    assert_eq!((ran.status.code(), &*stderr(&ran)), (Some(2), wanted));
    terminate(child);
}

#[test]
fn one_refused_object_keeps_all_others_out() {
    let (child, url, _) = start("import-refused", &["--controllers", "none"]);
    let text = "
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 0, targetPort: 80}]}
";
    let path = file("importing/refused.yaml", text);
    let ran = import(&url, &path, &[]);
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(
        stderr(&ran),
        "error: nothing is imported: 422 cannot create Service.v1 web: Service \"web\" is invalid: spec.ports[0].port: \
         Invalid value: 0: must be between 1 and 65535, inclusive\n"
    );
    assert!(get(&url, &map_path("first"), "").starts_with("HTTP/1.1 404"));
    // Unknown fields are dropped, and duplicate keys.
    let typo = "{apiVersion: v1, kind: ConfigMap, metadata: {name: typo}, datas: {a: b}, immutable: true, immutable: true}";
    let path = file("importing/typo.yaml", typo);
    let ran = import(&url, &path, &["--strict"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        stderr(&ran).contains("strict decoding error: "),
        "{}",
        stderr(&ran)
    );
    let ran = import(&url, &path, &[]);
    assert_eq!(stdout(&ran), "1 object stored\n", "{}", stderr(&ran));
    let warned = stderr(&ran);
    assert!(
        warned.contains("warning: ConfigMap.v1 typo: unknown field \"datas\"\n"),
        "{warned}"
    );
    assert!(
        warned.contains("key \"immutable\" already set in map\n"),
        "{warned}"
    );
    let mut newer = live("newer", "uid-newer", 9000);
    newer["sealed"] = true.into();
    let mut gone = live("gone", "uid-gone", 9001);
    gone["apiVersion"] = "gone.example.com/v1".into();
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [newer, gone]});
    let path = file("importing/newer.json", &both.to_string());
    let ran = import(&url, &path, &["--strict"]);
    assert_eq!(stdout(&ran), "1 object stored\n", "{}", stderr(&ran));
    assert_eq!(
        stderr(&ran),
        "warning: ConfigMap.v1.gone.example.com gone is left out: nothing serves this kind, as its definition is not there\n\
         warning: ConfigMap.v1 newer: unknown field \"sealed\"\n"
    );
    terminate(child);
}

#[test]
fn running_controllers_go_on_with_what_is_imported() {
    let (child, _, kubeconfig) = incident("import-going", &[]);
    let objects = exported(&kubeconfig);
    terminate(child);
    let kinds = ["Deployment", "ReplicaSet", "Pod"];
    let workload: BTreeMap<String, Value> = objects
        .into_iter()
        .filter(|(key, _)| {
            kinds
                .iter()
                .any(|kind| key.starts_with(&format!("{kind}/default/")))
        })
        .collect();
    assert_eq!(workload.len(), 4);
    let path = file("importing/workload.json", &list(&workload));
    let (child, url, kubeconfig) = start("import-onto", &["--nodes", "1"]);
    let ran = import(&url, &path, &[]);
    assert_eq!(stdout(&ran), "4 objects stored\n", "{}", stderr(&ran));
    // The controllers scale what they found.
    let scale = file(
        "importing/scale.yaml",
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {app: \
         web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: 'nginx:1.25'}]}}}}",
    );
    let ran = import(&url, &scale, &["--replace"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let began = Instant::now();
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    while !get(&url, path, "").contains(r#""readyReplicas":3"#) {
        assert!(began.elapsed() < Duration::from_secs(60), "a pod is added");
    }
    let after = exported(&kubeconfig);
    for (key, object) in &workload {
        let found = after.get(key).map(|found| &found["metadata"]["uid"]);
        assert_eq!(found, Some(&object["metadata"]["uid"]), "{key}");
    }
    let pods = after.keys().filter(|key| key.starts_with("Pod/default/"));
    assert_eq!(pods.count(), 3);
    terminate(child);
}

#[test]
fn bad_requests_are_refused_and_standard_input_is_read() {
    let (child, url, kubeconfig) = start("import-asked", &["--controllers", "none"]);
    let answer = get(&url, "/kubeproof/v1/import", "");
    assert_eq!(body(&answer)["reason"], "MethodNotAllowed");
    let asked = |path: &str, text: &str| body(&post(&url, path, text))["message"].clone();
    assert_eq!(
        asked("/kubeproof/v1/import?replace=maybe", "{}"),
        "replace: \"maybe\" is neither true nor false"
    );
    assert_eq!(
        asked("/kubeproof/v1/import?fieldValidation=Loose", "{}"),
        "fieldValidation: Unsupported value: \"Loose\": supported values: \"Ignore\", \"Strict\", \"Warn\""
    );
    assert_eq!(
        asked("/kubeproof/v1/import", "{}"),
        "the objects cannot be read: the value is not an object: apiVersion not set, kind not set"
    );
    // What another server has exported comes in through a pipe.
    let exported = output(&["export", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let mut piped = kubeproof(&["import", "-", "--kubeconfig", kubeconfig.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut piped.stdin.take().unwrap(), &exported.stdout).unwrap();
    let ran = piped.wait_with_output().unwrap();
    let said = stdout(&ran);
    assert!(said.starts_with("0 objects stored, "), "{said}");
    terminate(child);
    let empty = file("importing/empty.yaml", "");
    let said = stderr(&import(&url, &empty, &[]));
    assert!(said.ends_with("there is no object in it\n"), "{said}");
}
