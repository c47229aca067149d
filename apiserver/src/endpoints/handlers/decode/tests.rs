use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};

use crate::ApiServer;
use crate::json::{Value, json};

/// Sends `body` as protobuf and answers with the code and the object.
async fn send(server: &ApiServer, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .body(Full::new(Bytes::copy_from_slice(body)))
        .unwrap();
    let response = server.handle(request).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap();
    (code, serde_json::from_slice(&body.to_bytes()).unwrap())
}

#[tokio::test]
async fn protobuf_bodies_are_objects_like_any_other() {
    let server = ApiServer::builder().build();
    let namespace = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x05\x0a\x03\x0a\x01a";
    let (code, created) = send(&server, "POST", "/api/v1/namespaces", namespace).await;
    assert_eq!((code, &created["metadata"]["name"]), (201, &json!("a")));
    assert_eq!(created["kind"], "Namespace");
    // DeleteOptions with preconditions.uid "u".
    let options = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x05\x12\x03\x0a\x01u";
    let (code, _) = send(&server, "DELETE", "/api/v1/namespaces/a", options).await;
    assert_eq!(code, 409);
}

#[tokio::test]
async fn protobuf_bodies_of_another_kind_or_none_are_bad_requests() {
    let server = ApiServer::builder().build();
    for (body, message) in [
        (
            &b"{}"[..],
            "the object provided is unrecognized (must be of type Namespace): provided data does \
             not appear to be a protobuf message, expected prefix [107 56 115 0] ({})",
        ),
        (
            b"k8s\0\x12\x02\x0a\x7f",
            "Namespace in version \"v1\" cannot be handled as a Namespace: unexpected EOF",
        ),
        (
            b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod",
            "Pod in version \"v1\" cannot be handled as a Namespace: converting (v1.Pod) to \
             (core.Namespace): unknown conversion",
        ),
    ] {
        let (code, status) = send(&server, "POST", "/api/v1/namespaces", body).await;
        assert_eq!((code, status["message"].as_str()), (400, Some(message)));
    }
}
