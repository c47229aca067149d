//! Manifests that a server is given before its first request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, FieldValidation, LoadError, ManifestError, Manifests};

use crate::support::requests::send;

/// An object of a kind that is defined in another file, in a namespace that is made there too.
const WIDGETS: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: one, namespace: apps}
spec: {size: 2, enabled: on}
---
# Nothing but a comment.
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: apps}}
";

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, maximum: 5}
              enabled: {type: boolean}
              colour: {type: string, default: blue}
";

const NAMESPACE: &str =
    r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}}"#;

/// A directory of this test alone with these files.
fn directory(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("loading")
        .join(name);
    for (file, content) in files {
        let path = directory.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    directory
}

#[tokio::test(start_paused = true)]
async fn a_directory_holds_definitions_and_their_objects_in_any_order() {
    let directory = directory(
        "together",
        &[
            ("a/widgets.yaml", WIDGETS),
            ("b/definition.yml", DEFINITION),
            ("c/namespace.json", NAMESPACE),
            ("notes.txt", "not: [a manifest"),
        ],
    );
    let manifests = Manifests::new().read(&directory).unwrap();
    let server = ApiServer::builder().build_with(manifests).await.unwrap();
    let widget = "GET /apis/example.com/v1/namespaces/apps/widgets/one";
    let widget = send(&server, widget, Value::Null).await;
    assert_eq!(
        widget.body["spec"],
        json!({ "size": 2, "enabled": true, "colour": "blue" })
    );
    for path in ["default/configmaps/a", "apps/configmaps/b"] {
        let request = format!("GET /api/v1/namespaces/{path}");
        assert_eq!(
            send(&server, &request, Value::Null).await.code,
            200,
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_token_is_loaded_all_the_same() {
    let directory = directory("token", &[("definition.yaml", DEFINITION)]);
    let server = ApiServer::builder()
        .token(Some("secret".to_owned()))
        .build();
    let manifests = Manifests::new()
        .read(directory.join("definition.yaml"))
        .unwrap();
    server.load(manifests).await.unwrap();
    let path = "GET /apis/example.com/v1/widgets";
    assert_eq!(send(&server, path, Value::Null).await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_created_is_reported() {
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" },
        "spec": { "size": 6 },
    });
    let lonely = Manifests::new().object(&widget).unwrap();
    let unknown = ApiServer::builder().build_with(lonely.clone()).await;
    let message = unknown.unwrap_err().to_string();
    assert_eq!(
        message,
        "cannot create Widget.v1.example.com w: nothing serves this kind; \
         is its definition among the manifests?"
    );

    let directory = directory("refused", &[("definition.yaml", DEFINITION)]);
    let defined = lonely.read(&directory).unwrap();
    let Err(LoadError::Refused {
        object,
        code,
        message,
        ..
    }) = ApiServer::builder().build_with(defined).await
    else {
        panic!("the widget is too large");
    };
    assert_eq!((object.as_str(), code), ("Widget.v1.example.com w", 422));
    let cause = "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5";
    assert!(message.ends_with(cause), "{message}");

    let homeless = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "away" },
    });
    let homeless = Manifests::new().object(&homeless).unwrap();
    let refused = ApiServer::builder().build_with(homeless).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        r#"cannot create ConfigMap.v1 c: namespaces "away" not found"#
    );
}

#[test]
fn a_file_that_is_no_manifest_is_named() {
    let directory = directory("broken", &[("broken.yaml", "a: 1\n---\nb: [1\n")]);
    let Err(ManifestError::Syntax { file, why }) = Manifests::new().read(&directory) else {
        panic!("the list does not end");
    };
    let file = file.unwrap();
    assert!(file.ends_with("broken/broken.yaml"), "{}", file.display());
    assert!(why.starts_with("yaml: line "), "{why}");
    let absent = Manifests::new().read(directory.join("absent")).unwrap_err();
    assert!(matches!(absent, ManifestError::Read { .. }), "{absent}");
}

#[test]
fn a_document_that_is_no_object_is_reported_with_its_number() {
    let documents = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n";
    let message = |document: &str| {
        let text = format!("{documents}{document}");
        Manifests::new().yaml(&text).unwrap_err().to_string()
    };
    let words = "document 2 is not an object: it is a string";
    assert_eq!(message("hello world"), words);
    let unset = "document 2 is not an object: apiVersion not set, kind not set";
    assert_eq!(message("metadata: {name: b}"), unset);
    let item = "document 2, item 1 is not an object: it is a number";
    assert_eq!(message("{apiVersion: v1, kind: List, items: [7]}"), item);
    let directory = directory(
        "numbered",
        &[("two.yaml", "apiVersion: v1\nkind: Pod\n---\nkind: Pod\n")],
    );
    let message = Manifests::new().read(&directory).unwrap_err().to_string();
    let wanted = "numbered/two.yaml: document 2 is not an object: apiVersion not set";
    assert!(message.ends_with(wanted), "{message}");
    let value = Manifests::new().object(&json!({ "kind": "Pod" }));
    let wanted = "the value is not an object: apiVersion not set";
    assert_eq!(value.unwrap_err().to_string(), wanted);
}

#[tokio::test(start_paused = true)]
async fn unknown_and_duplicate_fields_are_refused_or_warned_of() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let unknown = format!("{map}dota: {{x: '1'}}\n");
    let duplicate = format!("{map}data: {{x: '1'}}\ndata: {{x: '2'}}\n");
    let files = [("unknown.yaml", &*unknown), ("duplicate.yaml", &*duplicate)];
    let directory = directory("strict", &files);
    for (file, fault) in [
        ("unknown.yaml", "unknown field \"dota\""),
        ("duplicate.yaml", "line 5: key \"data\" already set in map"),
    ] {
        let path = directory.join(file);
        let manifests = Manifests::new().read(&path).unwrap();
        let refused = ApiServer::builder().build_with(manifests.clone()).await;
        let message = refused.unwrap_err().to_string();
        let place = format!("{}: cannot create ConfigMap.v1 a: ", path.display());
        assert!(message.starts_with(&place), "{message}");
        let wanted = format!("strict decoding error: {fault}");
        assert!(message.ends_with(&wanted), "{message}");

        for (validation, warns) in [
            (FieldValidation::Warn, true),
            (FieldValidation::Ignore, false),
        ] {
            let server = ApiServer::builder().build();
            let mut loader = server.loader().field_validation(validation);
            for manifest in manifests.clone() {
                loader.create(manifest).await.unwrap();
            }
            let warnings = loader.finish().await.unwrap();
            let warning = format!("{}: ConfigMap.v1 a: {fault}", path.display());
            let wanted: Vec<String> = warns.then_some(warning).into_iter().collect();
            assert_eq!(warnings, wanted);
            let get = "GET /api/v1/namespaces/default/configmaps/a";
            assert_eq!(send(&server, get, Value::Null).await.code, 200);
        }
    }
}

/// What `kubectl get --all-namespaces --output json` prints of a cluster: a custom resource before its definition, versions
/// that are far apart, and what no client may write.
fn live() -> Value {
    let meta = |name: &str, rv: u64, more: Value| {
        let mut meta = json!({
            "name": name, "uid": format!("00000000-0000-4000-8000-{rv:012}"), "resourceVersion": rv.to_string(),
            "creationTimestamp": "2024-05-06T07:08:09Z", "generation": 7,
        });
        meta.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        meta
    };
    let in_apps = json!({"namespace": "apps"});
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "1", "controller": true});
    let managed = json!([{
        "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2024-05-06T07:08:10Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:phase": {}}}, "subresource": "status",
    }]);
    let pod = json!({
        "namespace": "apps", "ownerReferences": [owner], "managedFields": managed, "finalizers": ["example.com/a"],
        "deletionTimestamp": "2024-05-06T08:00:00Z", "deletionGracePeriodSeconds": 30,
    });
    let mut definition: Value = only_object(DEFINITION);
    definition["metadata"] = meta("widgets.example.com", 90_000, json!({}));
    definition["status"] = json!({
        "acceptedNames": definition["spec"]["names"], "storedVersions": ["v1"],
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
        ],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta("one", 80_000, in_apps), "spec": {"size": 9},
            "status": {"free": "text"}},
        definition,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta("apps", 70_000, json!({})),
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta("web", 85_000, pod),
            "spec": {"containers": [{"name": "web", "image": "nginx"}], "nodeName": "gone"},
            "status": {"phase": "Running", "podIP": "10.1.2.3"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta("default", 60_000, json!({})),
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
        {"apiVersion": "gone.example.com/v1", "kind": "Gone", "metadata": meta("a", 50_000, json!({}))},
    ]})
}

async fn get(server: &ApiServer, path: &str) -> Value {
    send(server, &format!("GET {path}"), Value::Null).await.body
}

fn only_object(yaml: &str) -> Value {
    let manifests = Manifests::new().yaml(yaml).unwrap();
    manifests.into_iter().next().unwrap().object
}

#[tokio::test]
async fn fields_of_a_newer_cluster_are_left_out_and_named() {
    let server = ApiServer::builder().build();
    let newer = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "sealed": true,
        "metadata": {"name": "newer", "namespace": "default", "uid": "1", "resourceVersion": "70", "realm": "x"},
    });
    let manifests = Manifests::new().object(&newer).unwrap().into_iter();
    let unstored = server.load_live(manifests.collect()).await.unwrap();
    let unknown = |field: &str| format!("ConfigMap.v1 newer: unknown field \"{field}\"");
    assert_eq!(
        unstored.fields,
        [unknown("metadata.realm"), unknown("sealed")]
    );
    let stored = get(&server, "/api/v1/namespaces/default/configmaps/newer").await;
    assert_eq!(
        (&stored["data"], &stored["sealed"]),
        (&newer["data"], &Value::Null)
    );
}

#[tokio::test]
async fn live_objects_are_stored_as_they_were() {
    let server = ApiServer::builder().build();
    let live = live();
    let manifests = Manifests::new().object(&live).unwrap().into_iter();
    let manifests: Vec<_> = manifests.collect();
    assert!(manifests.iter().all(kubeproof_apiserver::Manifest::is_live));
    let unstored = server.load_live(manifests).await.unwrap();
    assert_eq!(unstored.objects, ["Gone.v1.gone.example.com a"]);
    assert_eq!(unstored.fields, [""; 0]);
    let paths = [
        (0, "/apis/example.com/v1/namespaces/apps/widgets/one"),
        (
            1,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
        ),
        (2, "/api/v1/namespaces/apps"),
        (3, "/api/v1/namespaces/apps/pods/web"),
        (4, "/api/v1/namespaces/default"),
    ];
    for (index, path) in paths {
        let (item, stored) = (&live["items"][index], get(&server, path).await);
        assert_eq!(stored["metadata"], item["metadata"], "{path}");
        assert_eq!(stored["status"]["phase"], item["status"]["phase"], "{path}");
    }
    let widget = get(&server, paths[0].1).await;
    assert_eq!(widget["spec"]["size"], 9);
    let pod = get(&server, paths[3].1).await;
    assert_eq!(pod["status"]["podIP"], "10.1.2.3");
    // Versions go on from there.
    let next = json!({"metadata": {"name": "next"}});
    let created = send(&server, "POST /api/v1/namespaces/apps/configmaps", next).await;
    assert_eq!(created.meta("resourceVersion"), "90001");
}

#[test]
fn the_items_of_a_list_of_one_kind_need_not_name_it() {
    let list = json!({"apiVersion": "apps/v1", "kind": "DeploymentList", "metadata": {}, "items": [{"metadata": {"name": "a"}}]});
    let objects = |value: &Value| -> Vec<Value> {
        let manifests = Manifests::new().object(value).unwrap().into_iter();
        manifests.map(|manifest| manifest.object).collect()
    };
    let wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    assert_eq!(objects(&list), [wanted]);
    let named = json!({"apiVersion": "example.com/v1", "kind": "WaitList", "metadata": {"name": "a"}, "items": []});
    assert_eq!(objects(&named), [named]);
}
