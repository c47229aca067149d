//! OpenAPI documents at the wire: the index, caching, schemas, and the protobuf that kubectl reads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock};

const V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

fn server() -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::builder().clock(Clock::simulated(epoch)).build()
}

/// Code, headers and body of a GET with one more header.
async fn get(
    server: &ApiServer,
    path: &str,
    (name, value): (&str, &str),
) -> (StatusCode, HeaderMap, Bytes) {
    let request = Request::get(path).header(name, value);
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let (head, body) = server.handle(request).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, body)
}

async fn json(server: &ApiServer, path: &str) -> Value {
    let (status, headers, body) = get(server, path, ("accept", "application/json")).await;
    assert_eq!(status, 200, "{path}");
    assert!(headers.contains_key("cache-control"), "{path}");
    serde_json::from_slice(&body).unwrap()
}

async fn location(server: &ApiServer, key: &str) -> String {
    let index = json(server, "/openapi/v3").await;
    let url = &index["paths"][key]["serverRelativeURL"];
    url.as_str()
        .unwrap_or_else(|| panic!("no {key}"))
        .to_owned()
}

#[tokio::test]
async fn the_index_names_each_document_by_a_hash_of_it() {
    let server = server();
    let index = json(&server, "/openapi/v3").await;
    let paths = index["paths"].as_object().unwrap();
    for key in ["api", "api/v1", "apis/apps", "apis/apps/v1", "version"] {
        assert!(paths.contains_key(key), "{key}");
    }
    let core = location(&server, "api/v1").await;
    let hash = core.strip_prefix("/openapi/v3/api/v1?hash=").unwrap();
    assert!(!location(&server, "apis/apps/v1").await.ends_with(hash));
    let (_, headers, _) = get(&server, &core, ("accept", "*/*")).await;
    assert_eq!(headers["etag"], format!("\"{hash}\""));
    assert_eq!(headers["vary"], "Accept");
    for unknown in ["", "api/v1/", "apis/nope.example.com/v1", "apis//v1"] {
        let path = format!("/openapi/v3/{unknown}");
        let (status, _, body) = get(&server, &path, ("accept", "*/*")).await;
        assert_eq!((status.as_u16(), body.len()), (404, 0), "{unknown}");
    }
}

#[tokio::test]
async fn what_a_client_holds_is_not_sent_again() {
    let server = server();
    for path in ["/openapi/v3/apis/apps/v1", "/openapi/v2"] {
        let (_, headers, _) = get(&server, path, ("accept", "application/json")).await;
        let etag = headers["etag"].to_str().unwrap();
        let (status, _, body) = get(&server, path, ("if-none-match", etag)).await;
        assert_eq!((status.as_u16(), body.len()), (304, 0), "{path}");
        let (status, _, body) = get(&server, path, ("if-none-match", "\"0\"")).await;
        assert!(status == 200 && !body.is_empty(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hash_makes_the_answer_immutable_or_leads_to_that_of_today() {
    let server = server();
    let today = location(&server, "apis/apps/v1").await;
    let (status, headers, _) = get(&server, &today, ("accept", "application/json")).await;
    assert_eq!(status, 200);
    assert_eq!(headers["cache-control"], "public, immutable");
    assert_eq!(headers["expires"], "Fri, 01 Jan 2027 00:00:00 UTC");
    let old = "/openapi/v3/apis/apps/v1?hash=0";
    let (status, headers, body) = get(&server, old, ("accept", "application/json")).await;
    assert_eq!((status.as_u16(), body.len()), (301, 0));
    assert_eq!(headers["location"], today);
    let unhashed = "/openapi/v3/apis/apps/v1";
    let (_, headers, _) = get(&server, unhashed, ("accept", "application/json")).await;
    assert!(!headers.contains_key("expires"));
}

#[tokio::test]
async fn the_encoding_is_negotiated() {
    let server = server();
    let core = "/openapi/v3/api/v1";
    let deprecated = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let either = format!("application/json;q=0.5, {V3};q=0.8");
    let cases = [
        (core, "*/*", "application/json"),
        (core, V3, V3),
        (core, &either, V3),
        (
            "/openapi/v2",
            "text/html, application/json;q=0.9",
            "application/json",
        ),
        ("/openapi/v2", V2, V2),
        ("/openapi/v2", deprecated, V2),
    ];
    for (path, accept, expected) in cases {
        let (_, headers, _) = get(&server, path, ("accept", accept)).await;
        assert_eq!(headers["content-type"], expected, "{path} {accept}");
    }
    for path in [core, "/openapi/v2"] {
        let (status, _, body) = get(&server, path, ("accept", "text/html")).await;
        assert_eq!((status.as_u16(), body.len()), (406, 0), "{path}");
    }
}

#[tokio::test]
async fn a_document_has_the_schemas_of_its_kinds_and_no_others() {
    let server = server();
    let document = json(&server, "/openapi/v3/apis/apps/v1").await;
    let schemas = &document["components"]["schemas"];
    assert!(schemas["io.k8s.api.core.v1.ConfigMap"].is_null());
    assert!(schemas["io.k8s.api.core.v1.PodSpec"].is_object());
    assert_eq!(
        schemas["io.k8s.api.apps.v1.StatefulSetStatus"]["properties"]["conditions"],
        json!({
            "description": "Represents the latest available observations of a statefulset's \
                            current state.",
            "type": "array",
            "items": {"$ref": "#/components/schemas/io.k8s.api.apps.v1.StatefulSetCondition"},
            "x-kubernetes-list-map-keys": ["type"],
            "x-kubernetes-list-type": "map",
            "x-kubernetes-patch-merge-key": "type",
            "x-kubernetes-patch-strategy": "merge",
        })
    );
    assert_eq!(
        schemas["io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy"]["properties"]["partition"],
        json!({
            "description": "Partition indicates the ordinal at which the StatefulSet should be \
                            partitioned for updates. During a rolling update, all pods from \
                            ordinal Replicas-1 to Partition are updated. All pods from ordinal \
                            Partition-1 to 0 remain untouched. This is helpful in being able to \
                            do a canary based deployment. The default value is 0.",
            "type": "integer",
            "format": "int32",
        })
    );
}

/// What `kubectl explain` prints of a type that is an enum and of one that is required.
#[tokio::test]
async fn schemas_have_what_explain_prints() {
    let server = server();
    let document = json(&server, "/openapi/v3/apis/policy/v1").await;
    let schemas = &document["components"]["schemas"];
    let policy = &schemas["io.k8s.api.policy.v1.PodDisruptionBudgetSpec"]["properties"]["unhealthyPodEvictionPolicy"];
    assert_eq!(policy["enum"], json!(["AlwaysAllow", "IfHealthyBudget"]));
    let description = policy["description"].as_str().unwrap();
    assert!(description.contains("\n\nPossible enum values:\n - `\"AlwaysAllow\"` "));
    let requirement = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement";
    assert_eq!(schemas[requirement]["required"], json!(["key", "operator"]));
    let kinds = &schemas["io.k8s.api.policy.v1.PodDisruptionBudget"];
    assert_eq!(
        kinds["x-kubernetes-group-version-kind"],
        json!([{"group": "policy", "version": "v1", "kind": "PodDisruptionBudget"}])
    );
}

/// The fields of a protobuf message by number, each the bytes (or the digits) of its values.
fn fields(mut message: &[u8]) -> BTreeMap<u64, Vec<Vec<u8>>> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = message.split_first().unwrap();
            *message = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = match tag & 7 {
            0 => varint(&mut message).to_string().into_bytes(),
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                let (value, rest) = message.split_at(length);
                message = rest;
                value.to_vec()
            }
            other => panic!("wire type {other}"),
        };
        fields.entry(tag >> 3).or_default().push(value);
    }
    fields
}

/// The value of the entry called `name` among messages of `Named...` types.
fn named(entries: &[Vec<u8>], name: &str) -> Vec<u8> {
    let mut entries = entries.iter().map(|entry| fields(entry));
    let entry = entries.find(|entry| entry[&1][0] == name.as_bytes());
    entry.unwrap_or_else(|| panic!("no {name}"))[&2][0].clone()
}

fn text(message: &BTreeMap<u64, Vec<Vec<u8>>>, field: u64) -> &str {
    std::str::from_utf8(&message[&field][0]).unwrap()
}

#[tokio::test]
async fn the_protobuf_of_v2_holds_definitions_and_operations() {
    let server = server();
    let (_, _, document) = get(&server, "/openapi/v2", ("accept", V2)).await;
    let document = fields(&document);
    assert_eq!(text(&document, 1), "2.0");
    let definitions = &fields(&document[&9][0])[&1];
    let port = fields(&named(definitions, "io.k8s.api.core.v1.ContainerPort"));
    assert!(text(&port, 4).starts_with("ContainerPort represents"));
    assert_eq!(text(&port, 19), "containerPort");
    let properties = &fields(&port[&25][0])[&1];
    let number = fields(&named(properties, "containerPort"));
    assert_eq!(text(&number, 2), "int32");
    assert_eq!(text(&fields(&number[&22][0]), 1), "integer");
    let protocol = fields(&named(properties, "protocol"));
    assert_eq!(text(&fields(&protocol[&20][0]), 2), "\"SCTP\"\n");
    assert_eq!(protocol[&20].len(), 3);

    let map = fields(&named(definitions, "io.k8s.api.core.v1.ConfigMap"));
    let kinds = fields(&named(&map[&31], "x-kubernetes-group-version-kind"));
    let kinds: Value = serde_json::from_str(text(&kinds, 2)).unwrap();
    assert_eq!(kinds[0]["kind"], "ConfigMap");
    let metadata = fields(&named(&fields(&map[&25][0])[&1], "metadata"));
    assert_eq!(
        text(&metadata, 1),
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );

    let paths = &fields(&document[&8][0])[&2];
    let path = fields(&named(paths, "/api/v1/namespaces/{namespace}/pods/{name}"));
    let patch = fields(&path[&8][0]);
    assert_eq!(text(&patch, 5), "patchCoreV1NamespacedPod");
    assert_eq!(patch[&7].len(), 4, "media types of patches");
    let references = patch[&8]
        .iter()
        .filter(|item| fields(item).contains_key(&2));
    assert_eq!(references.count(), 3, "shared parameters");
    let ok = fields(&named(&fields(&patch[&9][0])[&1], "200"));
    let schema = fields(&fields(&fields(&ok[&1][0])[&2][0])[&1][0]);
    assert_eq!(text(&schema, 1), "#/definitions/io.k8s.api.core.v1.Pod");
}

#[tokio::test]
async fn the_protobuf_of_v3_holds_schemas() {
    let server = server();
    let (_, _, document) = get(&server, "/openapi/v3/apis/batch/v1", ("accept", V3)).await;
    let document = fields(&document);
    assert_eq!(text(&document, 1), "3.0.0");
    let schemas = &fields(&fields(&document[&5][0])[&1][0])[&1];
    let spec = named(schemas, "io.k8s.api.batch.v1.CronJobSpec");
    let spec = fields(&fields(&spec)[&1][0]);
    assert_eq!(text(&spec, 25), "object");
    let template = named(&fields(&spec[&31][0])[&1], "jobTemplate");
    let template = fields(&fields(&template)[&1][0]);
    let reference = fields(&fields(&template[&26][0])[&2][0]);
    assert_eq!(
        text(&reference, 1),
        "#/components/schemas/io.k8s.api.batch.v1.JobTemplateSpec"
    );
}
