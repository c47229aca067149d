//! Answers in protobuf: when they are chosen, and what lists, watches and failures look like.

use bytes::Bytes;
use http_body_util::BodyExt;
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::{CONFIGMAPS, create, read, respond, server};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const TABLE: &str = ";as=Table;g=meta.k8s.io;v=v1";

/// The content type and the body of the answer to `METHOD PATH`, after its code.
async fn ask(server: &ApiServer, request: &str, accept: &str) -> (u16, String, Bytes) {
    let headers = [("accept", accept)];
    let (code, headers, body) = read(respond(server, request, &headers, b"").await).await;
    let content_type = headers["content-type"].to_str().unwrap().to_owned();
    (code, content_type, body)
}

async fn post(server: &ApiServer, path: &str, object: Value) {
    let headers = [("content-type", "application/json")];
    let request = format!("POST {path}");
    let object = object.to_string();
    let response = respond(server, &request, &headers, object.as_bytes()).await;
    assert_eq!(response.status(), 201, "{object}");
}

/// A server with a custom resource, a ship.
async fn with_ship() -> ApiServer {
    let server = server();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "ships", "kind": "Ship"}, "versions": [version],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, definitions, definition).await;
    let ship = json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "s"}});
    post(&server, SHIPS, ship).await;
    server
}

const SHIPS: &str = "/apis/example.com/v1/namespaces/default/ships";

/// The version and kind in the envelope of a document, such as `v1 ConfigMap`.
fn type_of(document: &[u8]) -> String {
    let fields = fields(document.strip_prefix(b"k8s\0").unwrap());
    let type_meta = self::fields(&fields[0].1);
    let text = |at: usize| String::from_utf8(type_meta[at].1.to_vec()).unwrap();
    format!("{} {}", text(0), text(1)).trim().to_owned()
}

/// The message in the envelope of a document.
fn message(document: &[u8]) -> Bytes {
    fields(document.strip_prefix(b"k8s\0").unwrap())[1]
        .1
        .clone()
}

/// The fields of a message by their numbers; a number is the bytes that it is written in.
fn fields(message: &[u8]) -> Vec<(u8, Bytes)> {
    let mut rest = message;
    let mut fields = Vec::new();
    while let [tag, after @ ..] = rest {
        let bytes = after.iter().position(|byte| *byte < 0x80).unwrap() + 1;
        let (varint, after) = after.split_at(bytes);
        let number = varint.iter().rev();
        let number = number.fold(0, |number, byte| number << 7 | usize::from(byte & 0x7f));
        let (content, behind) = match tag & 7 {
            0 => (varint, after),
            2 => after.split_at(number),
            _ => panic!("{message:?}"),
        };
        fields.push((tag >> 3, Bytes::copy_from_slice(content)));
        rest = behind;
    }
    fields
}

#[tokio::test(start_paused = true)]
async fn the_representation_is_that_of_the_clause_that_weighs_most() {
    let server = with_ship().await;
    create(&server, "a", "1").await;
    let object = format!("GET {CONFIGMAPS}/a");
    let list = format!("GET {CONFIGMAPS}");
    let ship = format!("GET {SHIPS}/s");
    let metadata = format!("{PROTOBUF}{METADATA}");
    let with_fallback = |accept: &str| format!("{accept}, application/json");
    for (request, accept, media, kind) in [
        (&object, PROTOBUF.to_owned(), PROTOBUF, "v1 ConfigMap"),
        (&list, PROTOBUF.to_owned(), PROTOBUF, "v1 ConfigMapList"),
        (&object, with_fallback(PROTOBUF), PROTOBUF, "v1 ConfigMap"),
        (
            &object,
            format!("application/json, {PROTOBUF}"),
            "application/json",
            "",
        ),
        (
            &object,
            format!("application/json;q=0.5, {PROTOBUF}"),
            PROTOBUF,
            "v1 ConfigMap",
        ),
        (
            &object,
            format!("*/*, {PROTOBUF};q=0.1"),
            PROTOBUF,
            "v1 ConfigMap",
        ),
        (
            &object,
            format!("{PROTOBUF};stream=watch"),
            PROTOBUF,
            "v1 ConfigMap",
        ),
        (
            &object,
            metadata.clone(),
            PROTOBUF,
            "meta.k8s.io/v1 PartialObjectMetadata",
        ),
        (
            &object,
            metadata.replace("v=v1", "v=v1beta1"),
            PROTOBUF,
            "meta.k8s.io/v1beta1 PartialObjectMetadata",
        ),
        (
            &list,
            format!("{PROTOBUF}{METADATA_LIST}"),
            PROTOBUF,
            "meta.k8s.io/v1 PartialObjectMetadataList",
        ),
        // There is no Table in protobuf.
        (
            &object,
            with_fallback(&format!("{PROTOBUF}{TABLE}")),
            "application/json",
            "",
        ),
        // Of a custom resource, only the metadata is available in protobuf.
        (&ship, with_fallback(PROTOBUF), "application/json", ""),
        (
            &ship,
            metadata.clone(),
            PROTOBUF,
            "meta.k8s.io/v1 PartialObjectMetadata",
        ),
    ] {
        let (code, content_type, body) = ask(&server, request, &accept).await;
        assert_eq!((code, &*content_type), (200, media), "{accept}");
        match media == PROTOBUF {
            true => assert_eq!(type_of(&body), kind, "{accept}"),
            false => assert!(body.starts_with(b"{\""), "{accept}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_no_message_is_not_acceptable() {
    let server = with_ship().await;
    create(&server, "a", "1").await;
    let only = "only the following media types are accepted: application/json, application/yaml, \
                application/vnd.kubernetes.protobuf";
    // The refusal itself has a message, and is JSON only where a clause speaks of nothing else.
    let table = format!("{PROTOBUF}{TABLE}");
    for (request, accept, media) in [
        (format!("GET {SHIPS}/s"), PROTOBUF, PROTOBUF),
        (format!("GET {SHIPS}"), PROTOBUF, PROTOBUF),
        (format!("GET {SHIPS}?watch=1"), PROTOBUF, PROTOBUF),
        (format!("GET {CONFIGMAPS}/a"), &table, "application/json"),
        (format!("GET {SHIPS}/s"), &table, "application/json"),
    ] {
        let (code, content_type, body) = ask(&server, &request, accept).await;
        assert_eq!((code, &*content_type), (406, media), "{request}");
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains(only), "{request}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_in_the_encoding_of_objects() {
    let server = server();
    let missing = format!("GET {CONFIGMAPS}/nope");
    let metadata = format!("{PROTOBUF}{METADATA},application/json{METADATA}");
    for (request, accept, media, code) in [
        (&*missing, PROTOBUF, PROTOBUF, 404),
        ("GET /api/v1/nopes", PROTOBUF, PROTOBUF, 404),
        ("GET /api/v1/pods?limit=x", PROTOBUF, PROTOBUF, 400),
        ("POST /version", PROTOBUF, PROTOBUF, 405),
        // What transforms objects says nothing of a failure.
        (&missing, &metadata, "application/json", 404),
        (
            &missing,
            &format!("{PROTOBUF}{METADATA},{PROTOBUF}"),
            PROTOBUF,
            404,
        ),
    ] {
        let (got, content_type, body) = ask(&server, request, accept).await;
        assert_eq!((got, &*content_type), (code, media), "{request}");
        match media == PROTOBUF {
            true => assert_eq!(type_of(&body), "v1 Status", "{request}"),
            false => assert!(body.starts_with(b"{\n  \""), "{request}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_about_an_object_has_a_message() {
    let server = server();
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let deployment = json!({
        "metadata": {"name": "d"}, "spec": {"selector": selector, "template": template},
    });
    let apps = "/apis/apps/v1/namespaces/default/deployments";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    let pods = "/api/v1/namespaces/default/pods";
    let eviction = json!({"metadata": {"name": "p"}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let tokens = "/api/v1/namespaces/default/serviceaccounts/x/token";
    let account = json!({"metadata": {"name": "x"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let label = json!({"metadata": {"labels": {"l": "m"}}});
    for (request, body, kind) in [
        (format!("POST {apps}"), deployment, "apps/v1 Deployment"),
        (format!("PATCH {apps}/d"), label, "apps/v1 Deployment"),
        (
            format!("GET {apps}/d/status"),
            Value::Null,
            "apps/v1 Deployment",
        ),
        (
            format!("GET {apps}/d/scale"),
            Value::Null,
            "autoscaling/v1 Scale",
        ),
        (format!("DELETE {apps}/d"), Value::Null, "v1 Status"),
        (format!("POST {pods}?dryRun=All"), pod.clone(), "v1 Pod"),
        (format!("POST {pods}"), pod.clone(), "v1 Pod"),
        (format!("POST {pods}/p/eviction"), eviction, "v1 Status"),
        (format!("GET {pods}/p/log"), Value::Null, "v1 Status"),
        (format!("POST {pods}"), pod, "v1 Pod"),
        (format!("DELETE {pods}/p"), Value::Null, "v1 Pod"),
        (format!("DELETE {pods}"), Value::Null, "v1 PodList"),
        (format!("POST {accounts}"), account, "v1 ServiceAccount"),
        (
            format!("POST {tokens}"),
            json!({"spec": {"audiences": []}}),
            "authentication.k8s.io/v1 TokenRequest",
        ),
        (
            format!("POST {reviews}"),
            review,
            "authorization.k8s.io/v1 SelfSubjectAccessReview",
        ),
    ] {
        let content_type = match request.starts_with("PATCH") {
            true => "application/merge-patch+json",
            false => "application/json",
        };
        let headers = [("accept", PROTOBUF), ("content-type", content_type)];
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let answer = respond(&server, &request, &headers, body.as_bytes()).await;
        let (_, headers, body) = read(answer).await;
        assert_eq!(headers["content-type"], PROTOBUF, "{request}");
        assert_eq!(type_of(&body), kind, "{request}: {body:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_messages_of_its_objects() {
    let server = server();
    for name in ["a", "b"] {
        create(&server, name, &"x".repeat(200)).await;
    }
    let (_, _, list) = ask(&server, &format!("GET {CONFIGMAPS}?limit=1"), PROTOBUF).await;
    let list = fields(&message(&list));
    let (_, _, object) = ask(&server, &format!("GET {CONFIGMAPS}/a"), PROTOBUF).await;
    assert_eq!(list[1], (2, message(&object)));
    // Where there is more: a token and how much remains.
    assert_eq!((list.len(), list[0].0), (2, 1));
    let remaining = (4, Bytes::from_static(b"\x01"));
    assert_eq!(fields(&list[0].1).last(), Some(&remaining));
    let accept = format!("{PROTOBUF}{METADATA_LIST}");
    let (_, _, list) = ask(&server, &format!("GET {CONFIGMAPS}"), &accept).await;
    let list = fields(&message(&list));
    assert_eq!((list.len(), list[0].0), (3, 1));
    // The metadata is the first field of both.
    let metadata = &fields(&message(&object))[0];
    assert_eq!((list[1].0, &fields(&list[1].1)[0]), (2, metadata));
    // Version 1beta1 has the items first.
    let accept = accept.replace("v=v1", "v=v1beta1");
    let (_, _, list) = ask(&server, &format!("GET {CONFIGMAPS}"), &accept).await;
    let numbers: Vec<u8> = fields(&message(&list))
        .iter()
        .map(|field| field.0)
        .collect();
    assert_eq!(numbers, [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_the_same_in_pieces_and_compressed() {
    let server = server();
    for at in 0..40 {
        create(&server, &format!("c{at}"), &"x".repeat(10_000)).await;
    }
    let request = format!("GET {CONFIGMAPS}");
    let (_, _, plain) = ask(&server, &request, PROTOBUF).await;
    assert_eq!(fields(&message(&plain)).len(), 41);
    let headers = [("accept", PROTOBUF), ("accept-encoding", "gzip")];
    let (_, headers, body) = read(respond(&server, &request, &headers, b"").await).await;
    assert_eq!(headers["content-encoding"], "gzip");
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&*body);
    std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
}

/// The frames that a watch sends within `timeoutSeconds`: the type of the event, and the document.
async fn frames(server: &ApiServer, query: &str, accept: &str) -> Vec<(String, Bytes)> {
    let headers = [("accept", accept)];
    let request = format!("GET {CONFIGMAPS}?watch=1&timeoutSeconds=1&{query}");
    let response = respond(server, &request, &headers, b"").await;
    let media = format!("{PROTOBUF};stream=watch");
    assert_eq!(response.headers()["content-type"], media);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let mut rest = &body[..];
    let mut frames = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (event, behind) = after.split_at(u32::from_be_bytes(*length) as usize);
        let [(1, kind), (2, extension)] = &fields(event)[..] else {
            panic!("{event:?}");
        };
        let [(1, document)] = &fields(extension)[..] else {
            panic!("{event:?}");
        };
        let kind = String::from_utf8(kind.to_vec()).unwrap();
        frames.push((kind, document.clone()));
        rest = behind;
    }
    frames
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_the_documents_of_its_objects_in_frames() {
    let server = server();
    let start = format!("resourceVersion={}", server.resource_version());
    create(&server, "a", "1").await;
    let (_, _, before) = ask(&server, &format!("GET {CONFIGMAPS}/a"), PROTOBUF).await;
    let change = json!({"metadata": {"labels": {"l": "1"}}}).to_string();
    let patch = [("content-type", "application/merge-patch+json")];
    let request = format!("PATCH {CONFIGMAPS}/a");
    respond(&server, &request, &patch, change.as_bytes()).await;
    let (_, _, after) = ask(&server, &format!("GET {CONFIGMAPS}/a"), PROTOBUF).await;
    let shown = |frames: Vec<(String, Bytes)>| {
        let frames = frames.into_iter();
        let frames = frames.map(|(kind, document)| format!("{kind} {}", type_of(&document)));
        frames.collect::<Vec<_>>()
    };
    let events = frames(&server, &start, PROTOBUF).await;
    let [added, modified] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(*added, ("ADDED".to_owned(), before.clone()));
    assert_eq!(*modified, ("MODIFIED".to_owned(), after.clone()));
    // An object that leaves a selection, and one that enters it.
    let left = frames(&server, &format!("{start}&labelSelector=!l"), PROTOBUF).await;
    assert_eq!(shown(left), ["ADDED v1 ConfigMap", "DELETED v1 ConfigMap"]);
    let entered = frames(&server, &format!("{start}&labelSelector=l"), PROTOBUF).await;
    assert_eq!(entered, [("ADDED".to_owned(), after)]);
    server.compact();
    let expired = frames(&server, &start, PROTOBUF).await;
    assert_eq!(shown(expired), ["ERROR v1 Status"]);
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark_in_the_representation_asked_for() {
    let server = server();
    create(&server, "a", "1").await;
    let query = "allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for (accept, kind) in [
        (PROTOBUF.to_owned(), "v1 ConfigMap"),
        (
            format!("{PROTOBUF}{METADATA}"),
            "meta.k8s.io/v1 PartialObjectMetadata",
        ),
    ] {
        let events = frames(&server, query, &accept).await;
        let kinds: Vec<_> = events.iter().map(|(event, _)| event.as_str()).collect();
        assert_eq!(kinds, ["ADDED", "BOOKMARK"], "{accept}");
        let (_, _, object) = ask(&server, &format!("GET {CONFIGMAPS}/a"), &accept).await;
        assert_eq!(events[0].1, object);
        for (_, document) in &events {
            assert_eq!(type_of(document), kind);
        }
        let metadata = &fields(&message(&events[1].1))[0].1;
        let end = b"k8s.io/initial-events-end\x12\x04true";
        assert!(metadata.windows(end.len()).any(|bytes| bytes == end));
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_is_served_in_protobuf_too() {
    let server = server();
    let aggregated = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, parameters, kind) in [
        ("/api", "", "APIVersions"),
        ("/apis", "", "v1 APIGroupList"),
        ("/api/v1", "", "APIResourceList"),
        ("/apis/apps", "", "v1 APIGroup"),
        ("/apis/apps/v1", "", "v1 APIResourceList"),
        (
            "/apis",
            aggregated,
            "apidiscovery.k8s.io/v2 APIGroupDiscoveryList",
        ),
    ] {
        let accept = format!("{PROTOBUF}{parameters}");
        let (code, content_type, body) = ask(&server, &format!("GET {path}"), &accept).await;
        assert_eq!((code, &content_type), (200, &accept), "{path}");
        assert_eq!(type_of(&body), kind, "{path}");
    }
    let (_, _, versions) = ask(&server, "GET /api", PROTOBUF).await;
    let versions = fields(&message(&versions));
    assert_eq!(versions[0], (1, Bytes::from_static(b"v1")));
    // `verbs` is a message of its own around the verbs.
    let (_, _, list) = ask(&server, "GET /apis/apps/v1", PROTOBUF).await;
    let resources = &fields(&message(&list))[1..];
    let verbs = fields(&resources[0].1)
        .into_iter()
        .find(|field| field.0 == 4);
    let verbs = fields(&verbs.unwrap().1);
    assert_eq!(verbs[0], (1, Bytes::from_static(b"create")));
    assert_eq!(verbs.len(), 8);
}
