//! Definitions and custom resources at the wire.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod schemas;
mod status;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// An answer of the server.
struct Answer {
    code: u16,
    body: Value,
    warnings: Vec<String>,
}

impl Answer {
    /// The causes of a refusal, as `field: message`.
    fn causes(&self) -> Vec<String> {
        let causes = self.body["details"]["causes"].as_array();
        let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or("").to_owned();
        let causes = causes.into_iter().flatten();
        causes
            .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
            .collect()
    }
}

/// Sends `METHOD PATH`, a PATCH as a merge patch.
async fn send(server: &ApiServer, request: &str, body: Value) -> Answer {
    let content_type = match request.split_once(' ').unwrap().0 {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    send_as(server, request, content_type, "application/json", &body).await
}

async fn send_as(
    server: &ApiServer,
    request: &str,
    content_type: &str,
    accept: &str,
    body: &str,
) -> Answer {
    let (method, path) = request.split_once(' ').unwrap();
    let body = if method == "GET" { "" } else { body };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", accept)
        .body(Full::<Bytes>::from(body.to_owned()))
        .unwrap();
    let response = server.handle(request).await;
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings
        .map(|value| value.to_str().unwrap().to_owned())
        .collect();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Answer {
        code,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        warnings,
    }
}

async fn get(server: &ApiServer, path: &str) -> Value {
    send(server, &format!("GET {path}"), Value::Null).await.body
}

async fn table(server: &ApiServer, path: &str) -> Value {
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let request = format!("GET {path}");
    send_as(server, &request, "application/json", accept, "")
        .await
        .body
}

/// A definition of widgets with these fields of the spec, in one version with more fields.
fn definition(spec: &Value, version: &Value) -> Value {
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": {
                        "a": { "type": "string", "default": "x", "maxLength": 3 },
                        "replicas": { "type": "integer" },
                        "ports": { "type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["port"], "items": {
                                "type": "object", "required": ["port"], "properties": {
                                    "port": { "type": "integer" }, "name": { "type": "string" } } } },
                    } },
                    "status": { "type": "object", "properties": {
                        "replicas": { "type": "integer" }, "selector": { "type": "string" } } },
                } } },
            }],
        },
    });
    let merge = |into: &mut Value, from: &Value| {
        for (name, value) in from.as_object().into_iter().flatten() {
            into[name.as_str()] = value.clone();
        }
    };
    merge(&mut definition["spec"], spec);
    merge(&mut definition["spec"]["versions"][0], version);
    definition
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": name }, "spec": spec })
}

/// A server with a definition of widgets.
async fn server(version: &Value) -> ApiServer {
    let server = ApiServer::builder().build();
    let definition = definition(&json!({}), version);
    let answer = send(&server, &format!("POST {DEFINITIONS}"), definition).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    server
}

#[tokio::test]
async fn a_definition_is_served_and_discovered_at_once() {
    let server = server(&json!({})).await;
    let held = get(&server, &format!("{DEFINITIONS}/widgets.example.com")).await;
    let conditions = held["status"]["conditions"].as_array().unwrap();
    let conditions: Vec<_> = conditions
        .iter()
        .map(|held| {
            (
                held["type"].as_str().unwrap(),
                held["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        conditions,
        [("NamesAccepted", "True"), ("Established", "True")]
    );
    assert_eq!(held["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(held["status"]["storedVersions"], json!(["v1"]));
    let resources = get(&server, "/apis/example.com/v1").await;
    assert_eq!(resources["resources"][0]["name"], "widgets");
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    let groups = get(&server, "/apis").await;
    let groups = groups["groups"].as_array().unwrap();
    assert_eq!(groups.last().unwrap()["name"], "example.com");
    let service = get(
        &server,
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com",
    )
    .await;
    assert_eq!(service["status"]["conditions"][0]["reason"], "Local");
    let documents = get(&server, "/openapi/v3").await;
    assert!(documents["paths"]["apis/example.com/v1"].is_object());
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_counted() {
    let server = server(&json!({})).await;
    let created = widget("w", json!({ "replicas": 2.0, "unknown": 1 }));
    let answer = send(&server, &format!("POST {WIDGETS}"), created).await;
    assert_eq!(answer.code, 201);
    assert_eq!(answer.body["spec"], json!({ "a": "x", "replicas": 2 }));
    assert_eq!(answer.body["metadata"]["generation"], 1);
    assert_eq!(
        answer.warnings,
        [r#"299 - "unknown field \"spec.unknown\"""#]
    );
    let patch = json!({ "spec": { "replicas": 3 } });
    let answer = send(&server, &format!("PATCH {WIDGETS}/w"), patch).await;
    assert_eq!(answer.body["metadata"]["generation"], 2);
    let list = get(&server, WIDGETS).await;
    assert_eq!(list["kind"], "WidgetList");
    assert_eq!(list["metadata"]["continue"], "");
    assert_eq!(list["items"][0]["kind"], "Widget");
    let strict = format!("POST {WIDGETS}?fieldValidation=Strict");
    let answer = send(&server, &strict, widget("s", json!({ "unknown": 1 }))).await;
    assert_eq!(answer.code, 400);
    let (path, json) = (format!("PATCH {WIDGETS}/w"), "application/json");
    let strategic = "application/strategic-merge-patch+json";
    let answer = send_as(&server, &path, strategic, json, "{}").await;
    assert_eq!(answer.code, 415);
}

#[tokio::test]
async fn objects_fulfil_the_schema_or_are_refused_with_its_causes() {
    let server = server(&json!({})).await;
    for (spec, want) in [
        (
            json!({ "a": "long" }),
            "spec.a: Too long: may not be more than 3 bytes",
        ),
        (
            json!({ "replicas": "1" }),
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
        ),
        (
            json!({ "ports": [{}] }),
            "spec.ports[0].port: Required value",
        ),
        (
            json!({ "ports": [{ "port": 1 }, { "port": 1 }] }),
            r#"spec.ports[1]: Duplicate value: {"port":1}"#,
        ),
    ] {
        let answer = send(&server, &format!("POST {WIDGETS}"), widget("w", spec)).await;
        assert_eq!((answer.code, answer.causes()), (422, vec![want.to_owned()]));
    }
}

#[tokio::test]
async fn older_objects_are_defaulted_when_they_are_read() {
    let server = server(&json!({})).await;
    send(
        &server,
        &format!("POST {WIDGETS}"),
        widget("w", json!({ "replicas": 1 })),
    )
    .await;
    let mut changed = definition(&json!({}), &json!({}));
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let properties = changed.pointer_mut(properties).unwrap();
    properties["b"] = json!({ "type": "string", "default": "new" });
    properties.as_object_mut().unwrap().remove("replicas");
    let patch = json!({ "spec": { "versions": changed["spec"]["versions"] } });
    let path = format!("PATCH {DEFINITIONS}/widgets.example.com");
    assert_eq!(send(&server, &path, patch).await.code, 200);
    let read = get(&server, &format!("{WIDGETS}/w")).await;
    assert_eq!(read["spec"], json!({ "a": "x", "b": "new" }));
}

#[tokio::test]
async fn status_and_scale_are_written_apart_from_the_rest() {
    let subresources = json!({ "subresources": { "status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector" } } });
    let server = server(&subresources).await;
    let mut created = widget("w", json!({ "replicas": 2 }));
    created["status"] = json!({ "replicas": 9 });
    let answer = send(&server, &format!("POST {WIDGETS}"), created).await;
    assert_eq!(answer.body.get("status"), None);
    let patch =
        json!({ "spec": { "replicas": 7 }, "status": { "replicas": 1, "selector": "a=b" } });
    let answer = send(&server, &format!("PATCH {WIDGETS}/w/status"), patch).await;
    assert_eq!(answer.body["spec"]["replicas"], 2);
    assert_eq!(answer.body["metadata"]["generation"], 1);
    let scale = get(&server, &format!("{WIDGETS}/w/scale")).await;
    assert_eq!(scale["spec"], json!({ "replicas": 2 }));
    assert_eq!(scale["status"], json!({ "replicas": 1, "selector": "a=b" }));
    let patch = json!({ "spec": { "replicas": 5 } });
    assert_eq!(
        send(&server, &format!("PATCH {WIDGETS}/w/scale"), patch)
            .await
            .code,
        200
    );
    let read = get(&server, &format!("{WIDGETS}/w")).await;
    assert_eq!(read["spec"]["replicas"], 5);
    assert_eq!(read["metadata"]["generation"], 2);
    send(
        &server,
        &format!("POST {WIDGETS}"),
        widget("none", json!({})),
    )
    .await;
    let answer = send(&server, &format!("GET {WIDGETS}/none/scale"), Value::Null).await;
    assert_eq!(answer.code, 500);
    let answer = send(&server, &format!("GET {WIDGETS}/w/nope"), Value::Null).await;
    assert_eq!(answer.code, 404);
}

#[tokio::test]
async fn columns_are_described_by_the_documentation_of_their_fields() {
    let server = server(&json!({})).await;
    let name = "Name must be unique within a namespace. Is required when creating resources,";
    let age = "CreationTimestamp is a timestamp representing the server time when";
    let data = "Data contains the configuration data. Each key must consist of";
    for (path, starts) in [
        (WIDGETS, vec![name, age]),
        ("/api/v1/configmaps", vec![name, data, age]),
    ] {
        let table = table(&server, path).await;
        let columns = table["columnDefinitions"].as_array().unwrap();
        let text = |column: &Value| column["description"].as_str().unwrap().to_owned();
        let texts: Vec<String> = columns.iter().map(text).collect();
        let pairs = texts.iter().zip(&starts);
        assert!(
            pairs.clone().all(|(text, start)| text.starts_with(start)),
            "{texts:?}"
        );
        assert_eq!(texts.len(), starts.len());
    }
}

#[tokio::test]
async fn columns_and_selectable_fields_are_those_of_the_version() {
    let version = json!({
        "additionalPrinterColumns": [
            { "name": "A", "type": "string", "jsonPath": ".spec.a" },
            { "name": "First", "type": "integer", "jsonPath": ".spec.ports[0].port" },
            { "name": "Created At", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        ],
        "selectableFields": [{ "jsonPath": ".spec.a" }],
    });
    let server = server(&version).await;
    assert_eq!(table(&server, WIDGETS).await["rows"], json!([]));
    let ports = json!([{ "port": 80 }]);
    let post = format!("POST {WIDGETS}");
    send(
        &server,
        &post,
        widget("w", json!({ "a": "y", "ports": ports })),
    )
    .await;
    send(&server, &post, widget("z", json!({}))).await;
    let shown = table(&server, WIDGETS).await;
    assert_eq!(shown["columnDefinitions"][2]["name"], "First");
    let cells = |row: usize| shown["rows"][row]["cells"].as_array().unwrap()[..3].to_vec();
    assert_eq!(cells(0), [json!("w"), json!("y"), json!(80)]);
    assert_eq!(cells(1), [json!("z"), json!("x"), Value::Null]);
    let selected = get(&server, &format!("{WIDGETS}?fieldSelector=spec.a%3Dy")).await;
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    let path = format!("GET {WIDGETS}?fieldSelector=spec.b%3Dy");
    assert_eq!(send(&server, &path, Value::Null).await.code, 400);
}

#[tokio::test]
async fn versions_show_one_object_each_in_its_own_schema() {
    let mut two = definition(&json!({}), &json!({}));
    let mut second = two["spec"]["versions"][0].clone();
    second["name"] = json!("v2alpha1");
    second["storage"] = json!(false);
    second["deprecated"] = json!(true);
    second["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object", "properties": { "replicas": { "type": "integer" } } });
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    let server = ApiServer::builder().build();
    send(&server, &format!("POST {DEFINITIONS}"), two).await;
    let v2 = WIDGETS.replace("/v1/", "/v2alpha1/");
    let mut created = widget("w", json!({ "replicas": 1 }));
    created["apiVersion"] = json!("example.com/v2alpha1");
    let answer = send(&server, &format!("POST {v2}"), created).await;
    assert_eq!(answer.body["apiVersion"], "example.com/v2alpha1");
    assert_eq!(answer.body["spec"], json!({ "replicas": 1 }));
    let warning = "example.com/v2alpha1 Widget is deprecated; use example.com/v1 Widget";
    assert_eq!(answer.warnings, [format!("299 - \"{warning}\"")]);
    let read = get(&server, &format!("{WIDGETS}/w")).await;
    assert_eq!(read["apiVersion"], "example.com/v1");
    assert_eq!(read["spec"], json!({ "a": "x", "replicas": 1 }));
    let group = get(&server, "/apis/example.com").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

#[tokio::test]
async fn a_configuration_is_merged_by_the_keys_of_lists() {
    let server = server(&json!({})).await;
    let apply = async |manager: &str, ports: Value| {
        let path = format!("PATCH {WIDGETS}/w?fieldManager={manager}");
        let body = widget("w", json!({ "ports": ports })).to_string();
        let yaml = "application/apply-patch+yaml";
        send_as(&server, &path, yaml, "application/json", &body).await
    };
    assert_eq!(
        apply("one", json!([{ "port": 1, "name": "a" }])).await.code,
        201
    );
    let answer = apply("two", json!([{ "port": 2 }])).await;
    let ports = json!([{ "port": 1, "name": "a" }, { "port": 2 }]);
    assert_eq!(answer.body["spec"]["ports"], ports);
    let answer = apply("two", json!([{ "port": 1, "name": "b" }])).await;
    assert_eq!(answer.code, 409);
    let answer = apply("two", json!([{ "port": 1, "zz": 1 }])).await;
    let message = answer.body["message"].as_str().unwrap();
    assert!(
        message.ends_with(".spec.ports[port=1].zz: field not declared in schema"),
        "{message}"
    );
}

#[tokio::test]
async fn names_are_given_once_and_free_again_when_their_definition_goes() {
    let server = server(&json!({})).await;
    let mut second = definition(&json!({}), &json!({}));
    second["metadata"]["name"] = json!("gadgets.example.com");
    second["spec"]["names"]["plural"] = json!("gadgets");
    second["spec"]["names"]["shortNames"] = json!(["gd"]);
    send(&server, &format!("POST {DEFINITIONS}"), second).await;
    let gadgets = format!("{DEFINITIONS}/gadgets.example.com");
    let held = get(&server, &gadgets).await;
    assert_eq!(
        held["status"]["conditions"][0]["reason"],
        "ListKindConflict"
    );
    assert_eq!(held["status"]["conditions"][1]["reason"], "NotAccepted");
    send(
        &server,
        &format!("DELETE {DEFINITIONS}/widgets.example.com"),
        Value::Null,
    )
    .await;
    let held = get(&server, &gadgets).await;
    assert_eq!(held["status"]["conditions"][1]["status"], "True");
}

#[tokio::test]
async fn a_definition_waits_for_its_objects() {
    let server = server(&json!({})).await;
    let post = format!("POST {WIDGETS}");
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    send(&server, &post, held).await;
    send(&server, &post, widget("free", json!({}))).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let answer = send(&server, &format!("DELETE {path}"), Value::Null).await;
    let finalizer = "customresourcecleanup.apiextensions.k8s.io";
    assert_eq!(answer.body["metadata"]["finalizers"], json!([finalizer]));
    assert_eq!(get(&server, &format!("{WIDGETS}/free")).await["code"], 404);
    let conditions = get(&server, &path).await["status"]["conditions"].clone();
    assert_eq!(conditions[2]["reason"], "InstanceDeletionInProgress");
    assert_eq!(
        send(&server, &post, widget("late", json!({}))).await.code,
        403
    );
    let patch = json!({ "metadata": { "finalizers": null } });
    assert_eq!(
        send(&server, &format!("PATCH {WIDGETS}/held"), patch)
            .await
            .code,
        200
    );
    assert_eq!(get(&server, &path).await["code"], 404);
    assert_eq!(get(&server, "/apis/example.com/v1").await, Value::Null);
    let service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com";
    assert_eq!(get(&server, service).await["code"], 404);
}

#[tokio::test]
async fn a_definition_is_refused_with_all_its_faults() {
    let server = ApiServer::builder().build();
    let schema = |properties: Value| json!({ "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } } });
    for (spec, version, want) in [
        (
            json!({ "scope": "Nowhere" }),
            json!({}),
            vec![
                r#"spec.scope: Unsupported value: "Nowhere": supported values: "Cluster", "Namespaced""#,
            ],
        ),
        (
            json!({}),
            schema(json!({ "spec": { "type": "object", "properties": { "a": {} } } })),
            vec![
                "spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields",
            ],
        ),
        (
            json!({}),
            schema(json!({ "spec": { "type": "object", "default": { "zz": 1 } } })),
            vec![
                r#"spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: {"zz":1}: must not have unknown fields"#,
            ],
        ),
        (
            json!({}),
            json!({ "subresources": { "scale": { "specReplicasPath": ".spec.n" } } }),
            vec!["spec.subresources.scale.statusReplicasPath: Required value"],
        ),
        (
            json!({}),
            json!({ "name": "V1", "deprecationWarning": "old" }),
            vec![
                "spec.versions[0].name",
                r#"spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions"#,
                "spec.version",
            ],
        ),
    ] {
        let definition = definition(&spec, &version);
        let answer = send(&server, &format!("POST {DEFINITIONS}"), definition).await;
        let causes = answer.causes();
        assert_eq!(causes.len(), want.len(), "{causes:?}");
        for (cause, want) in causes.iter().zip(want) {
            assert!(cause.starts_with(want), "{cause}");
        }
    }
}

#[tokio::test]
async fn formats_that_mean_nothing_are_warned_of() {
    let server = ApiServer::builder().build();
    let version = json!({ "schema": { "openAPIV3Schema": { "type": "object", "properties": {
        "spec": { "type": "string", "format": "made-up" } } } } });
    let definition = definition(&json!({}), &version);
    let answer = send(&server, &format!("POST {DEFINITIONS}"), definition).await;
    assert_eq!(
        answer.warnings,
        [r#"299 - "unrecognized format \"made-up\"""#]
    );
}

#[tokio::test]
async fn objects_are_of_the_kind_and_version_of_their_path() {
    let server = server(&json!({})).await;
    let widget = |api_version: Value, kind: Value| {
        let mut widget = json!({ "metadata": { "name": "a" } });
        for (field, value) in [("apiVersion", api_version), ("kind", kind)] {
            if !value.is_null() {
                widget[field] = value;
            }
        }
        widget
    };
    let post = format!("POST {WIDGETS}");
    let body = widget(json!("example.com/v1"), Value::Null);
    let unknown = send(&server, &post, body.clone()).await;
    let text = body.to_string();
    let excerpt = &text[..30];
    let expected = format!(
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{text}' ({excerpt} ...)"
    );
    assert_eq!(
        (unknown.code, unknown.body["message"].as_str()),
        (400, Some(&*expected))
    );
    let ignored = format!("{post}?fieldValidation=Ignore");
    let unknown = send(&server, &ignored, body).await;
    let expected = format!(
        "Widget in version \"v1\" cannot be handled as a Widget: Object 'Kind' is missing in '{text}'"
    );
    assert_eq!(unknown.body["message"], expected);
    for (api_version, shown) in [
        (json!("example.com/v2"), "example.com/v2"),
        (Value::Null, ""),
        (json!("v1"), "v1"),
    ] {
        let refused = send(&server, &post, widget(api_version, json!("Widget"))).await;
        let expected = format!(
            "the API version in the data ({shown}) does not match the expected API version (example.com/v1)"
        );
        assert_eq!(
            (refused.code, refused.body["message"].as_str()),
            (400, Some(&*expected))
        );
    }
    let other = widget(json!("example.com/v1"), json!("Gadget"));
    let refused = send(&server, &post, other).await;
    assert_eq!(
        refused.causes(),
        ["kind: Invalid value: \"Gadget\": must be Widget"]
    );
    assert_eq!(
        refused.body["message"],
        "Gadget.example.com \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget"
    );
    let created = widget(json!("example.com/v1"), json!("Widget"));
    assert_eq!(send(&server, &post, created).await.code, 201);
    let patch = format!("PATCH {WIDGETS}/a");
    let moved = json!({ "kind": "Gadget", "apiVersion": "example.com/v2" });
    assert_eq!(
        send(&server, &patch, moved).await.causes(),
        [
            "kind: Invalid value: \"Gadget\": must be Widget",
            "apiVersion: Invalid value: \"example.com/v2\": must be example.com/v1",
        ]
    );
}
