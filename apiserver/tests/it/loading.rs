//! Manifests that a server is given before its first request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use kubeproof_apiserver::{ApiServer, FieldValidation, LoadError, ManifestError, Manifests};
use serde_json::{Value, json};

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
