//! Documents nested up to Go's limit of 10,000 levels, and beyond it. A stack overflow would end the
//! test program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEEPS: &str = "/apis/d.io/v1/namespaces/default/deeps";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// `depth` lists inside of each other.
fn lists(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// `depth` objects inside of each other.
fn maps(depth: usize) -> String {
    "{\"a\":".repeat(depth - 1) + "{}" + &"}".repeat(depth - 1)
}

/// A custom resource whose field `x` is `value`.
fn deep(name: &str, value: &str) -> String {
    let metadata = format!(r#"{{"name":"{name}"}}"#);
    format!(r#"{{"apiVersion":"d.io/v1","kind":"Deep","metadata":{metadata},"x":{value}}}"#)
}

fn config_map(name: &str, field: &str, value: &str) -> String {
    let metadata = format!(r#"{{"name":"{name}"}}"#);
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"{field}":{value}}}"#)
}

async fn send(server: &ApiServer, request: &str, kind: &str, body: &str) -> (u16, Bytes) {
    let (method, path) = request.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", kind);
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    let response = server.handle(request.body(body).unwrap()).await;
    let code = response.status().as_u16();
    (
        code,
        response.into_body().collect().await.unwrap().to_bytes(),
    )
}

/// The code of an answer, and the message of a refusal.
async fn outcome(server: &ApiServer, request: &str, kind: &str, body: &str) -> (u16, String) {
    let (code, answer) = send(server, request, kind, body).await;
    if code < 400 {
        return (code, String::new());
    }
    let status: Value = serde_json::from_slice(&answer).unwrap();
    (
        code,
        status["message"].as_str().unwrap_or_default().to_owned(),
    )
}

/// A server with a kind that keeps whatever it is given.
async fn server() -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::builder().clock(Clock::simulated(epoch)).build();
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "deeps.d.io" },
        "spec": {
            "group": "d.io", "scope": "Namespaced", "versions": [version],
            "names": { "plural": "deeps", "singular": "deep", "kind": "Deep", "listKind": "DeepList" },
        },
    });
    let definitions = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _) = send(&server, definitions, JSON, &definition.to_string()).await;
    assert_eq!(code, 201);
    server
}

#[tokio::test(start_paused = true)]
async fn json_is_read_up_to_ten_thousand_levels() {
    let server = server().await;
    let refusal = |kind: &str, brace: char, begin: &str| {
        format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get \
             version/kind; json parse error: invalid character '{brace}' exceeded max depth \
             ({begin} ...)"
        )
    };
    let create = format!("POST {DEEPS}");
    // The object itself is one more level.
    for depth in [127, 500, 9_998, 9_999] {
        let name = format!("lists-{depth}");
        let created = outcome(&server, &create, JSON, &deep(&name, &lists(depth))).await;
        assert_eq!(created, (201, String::new()), "{depth}");
        let (code, got) = send(&server, &format!("GET {DEEPS}/{name}"), JSON, "").await;
        assert_eq!(code, 200);
        let kept = lists(depth);
        assert!(
            String::from_utf8(got.to_vec()).unwrap().contains(&kept),
            "{depth}"
        );
        // A built-in kind drops what it does not know.
        let unknown = config_map(&name, "x", &lists(depth));
        let created = outcome(&server, &format!("POST {CONFIGMAPS}"), JSON, &unknown).await;
        assert_eq!(created.0, 201, "{created:?}");
    }
    let begin = r#"{"apiVersion":"d.io/v1","kind""#;
    for depth in [10_000, 1_000_000] {
        let custom = outcome(&server, &create, JSON, &deep("a", &lists(depth))).await;
        assert_eq!(custom, (400, refusal("Deep", '[', begin)));
        for field in ["x", "data"] {
            for validation in ["Strict", "Ignore"] {
                let request = format!("POST {CONFIGMAPS}?fieldValidation={validation}");
                let body = config_map("a", field, &lists(depth));
                let begin = r#"{"apiVersion":"v1","kind":"Con"#;
                let refused = outcome(&server, &request, JSON, &body).await;
                assert_eq!(refused, (400, refusal("ConfigMap", '[', begin)));
            }
        }
    }
    let custom = outcome(&server, &create, JSON, &deep("a", &maps(10_000))).await;
    assert_eq!(custom, (400, refusal("Deep", '{', begin)));
}

#[tokio::test(start_paused = true)]
async fn owners_of_deep_fields_must_fit_as_well() {
    let server = server().await;
    let create = format!("POST {DEEPS}");
    let stored = outcome(&server, &create, JSON, &deep("fits", &maps(9_995))).await;
    assert_eq!(stored, (201, String::new()));
    for depth in [9_996, 9_999] {
        let why = "invalid character '{' exceeded max depth".to_owned();
        let refused = outcome(&server, &create, JSON, &deep("higher", &maps(depth))).await;
        assert_eq!(refused, (500, why), "{depth}");
    }
    let (code, _) = send(&server, &format!("GET {DEEPS}/higher"), JSON, "").await;
    assert_eq!(code, 404, "it is not stored");
    let (code, list) = send(&server, &format!("GET {DEEPS}"), JSON, "").await;
    assert_eq!(code, 200);
    assert!(list.len() > 200_000, "the other is listed with its owners");
}

#[tokio::test(start_paused = true)]
async fn yaml_is_read_up_to_ten_thousand_levels() {
    let server = server().await;
    let head =
        |name: &str| format!("apiVersion: d.io/v1\nkind: Deep\nmetadata: {{name: {name}}}\n");
    let create = format!("POST {DEEPS}");
    for depth in [130, 9_999] {
        let flow = format!("{}x: {}\n", head(&format!("flow-{depth}")), lists(depth));
        let block = format!(
            "{}x:\n {}a\n",
            head(&format!("block-{depth}")),
            "- ".repeat(depth)
        );
        for body in [flow, block] {
            assert_eq!(
                outcome(&server, &create, YAML, &body).await,
                (201, String::new())
            );
        }
    }
    let begin = "61706956657273696f6e3a20642e696f2f76310a6b696e643a2044656570 ...";
    let refusal = |why: &str| {
        (
            400,
            format!("the object provided is unrecognized (must be of type Deep): {why} ({begin})"),
        )
    };
    let json =
        "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth";
    let flow = |depth| format!("{}x: {}\n", head("refused"), lists(depth));
    assert_eq!(
        outcome(&server, &create, YAML, &flow(10_000)).await,
        refusal(json)
    );
    let why = "yaml: line 4: exceeded max depth of 10000";
    assert_eq!(
        outcome(&server, &create, YAML, &flow(1_000_000)).await,
        refusal(why)
    );
    let block = format!("{}x:\n {}a\n", head("refused"), "- ".repeat(10_000));
    let why = "yaml: line 5: exceeded max depth of 10000";
    assert_eq!(outcome(&server, &create, YAML, &block).await, refusal(why));
    let apply = format!("PATCH {DEEPS}/applied?fieldManager=m");
    let applied = outcome(&server, &apply, APPLY, &deep("applied", &lists(9_999))).await;
    assert_eq!(applied, (201, String::new()));
    let again = outcome(&server, &apply, APPLY, &deep("applied", &lists(9_998))).await;
    assert_eq!(again, (200, String::new()));
    let why =
        "error decoding YAML: error converting YAML to JSON: yaml: exceeded max depth of 10000";
    for depth in [10_000, 1_000_000] {
        let refused = outcome(&server, &apply, APPLY, &deep("applied", &lists(depth))).await;
        assert_eq!(refused, (400, why.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn patches_are_read_up_to_ten_thousand_levels() {
    let server = server().await;
    let create = format!("POST {DEEPS}");
    assert_eq!(
        outcome(&server, &create, JSON, &deep("a", "{}")).await.0,
        201
    );
    let plain = config_map("a", "data", r#"{"a":"b"}"#);
    assert_eq!(
        outcome(&server, &format!("POST {CONFIGMAPS}"), JSON, &plain)
            .await
            .0,
        201
    );
    let (custom, config_map) = (format!("PATCH {DEEPS}/a"), format!("PATCH {CONFIGMAPS}/a"));
    let merge = |depth| format!(r#"{{"x":{}}}"#, lists(depth));
    let add = |depth| format!(r#"[{{"op":"add","path":"/x","value":{}}}]"#, lists(depth));
    for depth in [130, 9_998] {
        assert_eq!(
            outcome(&server, &custom, MERGE, &merge(depth)).await,
            (200, String::new())
        );
        assert_eq!(
            outcome(&server, &custom, JSON_PATCH, &add(depth)).await,
            (200, String::new())
        );
        let dropped = outcome(&server, &config_map, STRATEGIC, &merge(depth)).await;
        assert_eq!(dropped, (200, String::new()));
    }
    let why = "invalid character '[' exceeded max depth";
    let decoding = (400, format!("error decoding patch: {why}"));
    for depth in [9_999, 10_000, 1_000_000] {
        for request in [&custom, &config_map] {
            assert_eq!(
                outcome(&server, request, JSON_PATCH, &add(depth)).await,
                decoding
            );
            let request = format!("{request}?fieldValidation=Ignore");
            let refused = outcome(&server, &request, JSON_PATCH, &add(depth)).await;
            assert_eq!(refused, (400, why.to_owned()));
        }
    }
    for depth in [10_000, 1_000_000] {
        for request in [&custom, &config_map] {
            assert_eq!(
                outcome(&server, request, MERGE, &merge(depth)).await,
                decoding
            );
            let request = format!("{request}?fieldValidation=Ignore");
            let refused = outcome(&server, &request, MERGE, &merge(depth)).await;
            assert_eq!(refused, (400, "Invalid JSON Patch".to_owned()));
        }
        let refused = outcome(&server, &config_map, STRATEGIC, &merge(depth)).await;
        assert_eq!(refused, (400, why.to_owned()));
    }
    // The patch can be read, and what it leaves is one level too deep.
    let operations = format!(
        r#"[{{"op":"add","path":"/x","value":{}}},{{"op":"add","path":"/y","value":{{"a":{{}}}}}},{{"op":"move","from":"/x","path":"/y/a/b"}}]"#,
        lists(9_998)
    );
    let (code, message) = outcome(&server, &custom, JSON_PATCH, &operations).await;
    assert_eq!(code, 422);
    let end = format!("couldn't get version/kind; json parse error: {why}");
    assert!(
        message.ends_with(&end),
        "{}",
        &message[message.len() - 200..]
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_doubles_its_depth_stays_within_bounds() {
    let server = server().await;
    let create = format!("POST {DEEPS}");
    assert_eq!(
        outcome(&server, &create, JSON, &deep("a", &maps(60)))
            .await
            .0,
        201
    );
    // Each copy puts the whole field inside of itself.
    let way = "/a".repeat(59);
    let mut operations = Vec::new();
    let mut inner = format!("/x{way}");
    for _ in 0..2 {
        operations.push(json!({ "op": "copy", "from": "/x", "path": format!("{inner}/a") }));
        inner = inner.replacen("/x", &format!("{inner}/a"), 1);
    }
    let patch = json!(operations).to_string();
    let doubled = outcome(&server, &format!("PATCH {DEEPS}/a"), JSON_PATCH, &patch).await;
    assert_eq!(doubled, (200, String::new()));
    let (_, got) = send(&server, &format!("GET {DEEPS}/a"), JSON, "").await;
    let got = String::from_utf8(got.to_vec()).unwrap();
    assert!(got.contains(&maps(240)), "{got}");
    let why = "exceeded max depth";
    let mut way = "/a".repeat(239);
    let mut operations = Vec::new();
    for _ in 0..6 {
        operations.push(json!({ "op": "copy", "from": "/x", "path": format!("/x{way}/a") }));
        way = format!("{way}/a{way}");
    }
    let patch = json!(operations).to_string();
    let (code, message) = outcome(&server, &format!("PATCH {DEEPS}/a"), JSON_PATCH, &patch).await;
    assert_eq!(code, 422);
    assert!(
        message.ends_with(why),
        "{}",
        &message[message.len() - 200..]
    );
}

#[tokio::test(start_paused = true)]
async fn deep_objects_are_listed_watched_changed_and_deleted() {
    let server = server().await;
    let create = format!("POST {DEEPS}");
    let (_, empty) = send(&server, &format!("GET {DEEPS}"), JSON, "").await;
    let empty: Value = serde_json::from_slice(&empty).unwrap();
    let before = empty["metadata"]["resourceVersion"].as_str().unwrap();
    for name in ["a", "b"] {
        let created = outcome(&server, &create, JSON, &deep(name, &maps(9_990))).await;
        assert_eq!(created.0, 201);
    }
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    for (path, accept) in [
        (DEEPS.to_owned(), JSON),
        (DEEPS.to_owned(), table),
        (format!("{DEEPS}?limit=1"), JSON),
        (format!("{DEEPS}?fieldSelector=metadata.name%3Da"), JSON),
        (format!("{DEEPS}?labelSelector=a"), JSON),
    ] {
        let request = Request::get(&path).header("accept", accept);
        let response = server
            .handle(request.body(Full::new(Bytes::new())).unwrap())
            .await;
        assert_eq!(response.status(), 200, "{path} {accept}");
        response.into_body().collect().await.unwrap();
    }
    // A megabyte of indentation is sent, two hundred are not.
    let created = outcome(&server, &create, JSON, &deep("wide", &lists(1_000))).await;
    assert_eq!(created.0, 201);
    for (name, code) in [("wide", 200), ("a", 504)] {
        for accept in [YAML, "application/json;pretty=1"] {
            let request = Request::get(format!("{DEEPS}/{name}")).header("accept", accept);
            let response = server
                .handle(request.body(Full::new(Bytes::new())).unwrap())
                .await;
            assert_eq!(response.status(), code, "{name} {accept}");
        }
    }
    assert_eq!(
        outcome(&server, &format!("DELETE {DEEPS}/wide"), JSON, "")
            .await
            .0,
        200
    );
    let request = Request::get(format!(
        "{DEEPS}?watch=1&resourceVersion={before}&timeoutSeconds=5"
    ));
    let watch = server
        .handle(request.body(Full::new(Bytes::new())).unwrap())
        .await;
    let shallow = outcome(&server, &format!("PATCH {DEEPS}/a"), MERGE, r#"{"y":1}"#).await;
    assert_eq!(shallow, (200, String::new()));
    let less = r#"{"x":null}"#;
    assert_eq!(
        outcome(&server, &format!("PATCH {DEEPS}/b"), MERGE, less)
            .await
            .0,
        200
    );
    assert_eq!(
        outcome(&server, &format!("DELETE {DEEPS}/a"), JSON, "")
            .await
            .0,
        200
    );
    assert_eq!(
        outcome(&server, &format!("DELETE {DEEPS}"), JSON, "")
            .await
            .0,
        200
    );
    let events = watch.into_body().collect().await.unwrap().to_bytes();
    let events = String::from_utf8(events.to_vec()).unwrap();
    let kinds: Vec<&str> = events.lines().map(|line| &line[..13]).collect();
    assert_eq!(
        kinds.len(),
        8,
        "of a and b an event of each kind, two of the other"
    );
    let fork = server.fork();
    assert_eq!(
        outcome(&fork, &format!("GET {DEEPS}"), JSON, "").await.0,
        200
    );
    drop(server);
    assert_eq!(
        outcome(&fork, &create, JSON, &deep("c", &lists(9_999)))
            .await
            .0,
        201
    );
}

#[tokio::test(start_paused = true)]
async fn revisions_and_owners_may_nest_as_deeply() {
    let server = server().await;
    let revision = |depth| {
        let metadata = r#"{"name":"r"}"#;
        let data = maps(depth);
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{metadata},"revision":1,"data":{data}}}"#
        )
    };
    let create = format!("POST {REVISIONS}?dryRun=All");
    assert_eq!(
        outcome(&server, &create, JSON, &revision(9_999)).await,
        (201, String::new())
    );
    assert_eq!(
        outcome(&server, &create, JSON, &revision(10_000)).await.0,
        400
    );
    let created = outcome(
        &server,
        &format!("POST {REVISIONS}"),
        JSON,
        &revision(9_999),
    )
    .await;
    assert_eq!(created, (201, String::new()), "its data has one owner");
    let protobuf = Request::get(format!("{REVISIONS}/r"))
        .header("accept", "application/vnd.kubernetes.protobuf");
    let answer = server
        .handle(protobuf.body(Full::new(Bytes::new())).unwrap())
        .await;
    assert_eq!(answer.status(), 200);
    let binary = answer.into_body().collect().await.unwrap().to_bytes();
    let put = Request::put(format!("{REVISIONS}/r"))
        .header("content-type", "application/vnd.kubernetes.protobuf");
    let answer = server.handle(put.body(Full::new(binary)).unwrap()).await;
    assert_eq!(answer.status(), 200);
    let fields = "{\"f:a\":".repeat(9_990) + "{}" + &"}".repeat(9_990);
    let entry = format!(
        r#"{{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
    );
    let owned = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"o","managedFields":[{entry}]}}}}"#
    );
    let created = outcome(&server, &format!("POST {CONFIGMAPS}"), JSON, &owned).await;
    assert_eq!(created, (201, String::new()));
    let labels = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    assert_eq!(
        outcome(&server, &format!("PATCH {CONFIGMAPS}/o"), MERGE, labels)
            .await
            .0,
        200
    );
    let apply = format!("PATCH {CONFIGMAPS}/o?fieldManager=n");
    let applied = outcome(
        &server,
        &apply,
        APPLY,
        &config_map("o", "data", r#"{"a":"b"}"#),
    )
    .await;
    assert_eq!(applied, (200, String::new()));
    assert_eq!(
        outcome(&server, &format!("GET {CONFIGMAPS}"), JSON, "")
            .await
            .0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn options_of_a_deletion_may_nest_as_deeply() {
    let server = server().await;
    let options = |depth| {
        let unknown = lists(depth);
        format!(r#"{{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"],"x":{unknown}}}"#)
    };
    let create = format!("POST {CONFIGMAPS}");
    assert_eq!(
        outcome(&server, &create, JSON, &config_map("a", "data", "{}"))
            .await
            .0,
        201
    );
    let delete = format!("DELETE {CONFIGMAPS}/a");
    for kind in [JSON, YAML] {
        assert_eq!(
            outcome(&server, &delete, kind, &options(9_999)).await,
            (200, String::new())
        );
    }
    let why =
        "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth";
    for depth in [10_000, 1_000_000] {
        let refused = outcome(&server, &delete, JSON, &options(depth)).await;
        assert_eq!(refused, (400, why.to_owned()));
    }
    let yaml = |depth| format!("kind: DeleteOptions\napiVersion: v1\nx: {}", lists(depth));
    assert_eq!(
        outcome(&server, &delete, YAML, &yaml(10_000)).await,
        (400, why.to_owned())
    );
    let why = "yaml: line 3: exceeded max depth of 10000".to_owned();
    assert_eq!(
        outcome(&server, &delete, YAML, &yaml(1_000_000)).await,
        (400, why)
    );
}

/// The schemas of a definition nest as well; a real server takes minutes for a thousand of them.
#[tokio::test(start_paused = true)]
async fn a_deep_definition_does_not_end_the_server() {
    let server = server().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for depth in [60, 300] {
        let items = r#"{"type":"array","items":"#.repeat(depth);
        let schema = format!(
            r#"{{"type":"object","properties":{{"x":{items}{{"type":"string"}}{}}}}}"#,
            "}".repeat(depth)
        );
        let group = format!("g{depth}.io");
        let definition = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"es.{group}"}},"spec":{{"group":"{group}","scope":"Namespaced","names":{{"plural":"es","singular":"e","kind":"E","listKind":"EList"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
        );
        let created = outcome(&server, &format!("POST {definitions}"), JSON, &definition).await;
        assert_eq!(created, (201, String::new()));
        let object = format!(
            r#"{{"apiVersion":"{group}/v1","kind":"E","metadata":{{"name":"e"}},"x":{}}}"#,
            lists(depth)
        );
        let create = format!("POST /apis/{group}/v1/namespaces/default/es");
        assert_eq!(
            outcome(&server, &create, JSON, &object).await,
            (201, String::new())
        );
        let openapi = format!("GET /openapi/v3/apis/{group}/v1");
        assert_eq!(send(&server, &openapi, JSON, "").await.0, 200);
    }
    assert_eq!(send(&server, "GET /openapi/v2", JSON, "").await.0, 200);
}

/// Requests in real time run on threads of their own when they are large.
#[test]
fn threads_with_small_stacks_serve_deep_documents() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .thread_stack_size(512 << 10)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = ApiServer::builder().build();
        let revision = |depth| {
            let data = maps(depth);
            format!(
                r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"r{depth}"}},"revision":1,"data":{data}}}"#
            )
        };
        let create = format!("POST {REVISIONS}");
        for depth in [9_999, 200] {
            let created = outcome(&server, &create, JSON, &revision(depth)).await;
            assert_eq!(created, (201, String::new()), "{depth}");
        }
        let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        for kind in [MERGE, STRATEGIC] {
            let patch = format!("PATCH {REVISIONS}/r9999?dryRun=All");
            assert_eq!(outcome(&server, &patch, kind, label).await, (200, String::new()));
        }
        assert_eq!(outcome(&server, &format!("DELETE {REVISIONS}"), JSON, "").await.0, 200);
    });
}
