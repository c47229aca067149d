//! Objects in protobuf: what is read of one and written back is the object.

use bytes::Bytes;
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::Value;

use crate::support::requests::{read, respond};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Sends a body in protobuf; answers with the code and the body, in protobuf too.
async fn send(server: &ApiServer, method: &str, path: &str, body: Bytes) -> (u16, Bytes) {
    let headers = [("content-type", PROTOBUF), ("accept", PROTOBUF)];
    let response = respond(server, &format!("{method} {path}"), &headers, body).await;
    assert_eq!(response.headers()["content-type"], PROTOBUF);
    read(response).await
}

/// Reads the object at `path` in protobuf and writes it back as it was read, which changes nothing.
pub(crate) async fn unchanged(server: &ApiServer, path: &str, object: &Value) -> Bytes {
    let (code, document) = send(server, "GET", path, Bytes::new()).await;
    assert_eq!(code, 200, "{object}");
    let (code, updated) = send(server, "PUT", path, document.clone()).await;
    assert_eq!(code, 200, "{object}\n{}", String::from_utf8_lossy(&updated));
    assert_eq!(updated, document, "{object}\nis another one in protobuf");
    document
}

/// Checks that the object at `path` can be read in protobuf and written back, and that the list with
/// the object as an item has the same bytes.
pub(crate) async fn check(server: &ApiServer, collection: &str, path: &str, object: &Value) {
    let document = unchanged(server, path, object).await;
    let name = object["metadata"]["name"].as_str().unwrap();
    let list = format!("{collection}?fieldSelector=metadata.name%3D{name}");
    let (code, list) = send(server, "GET", &list, Bytes::new()).await;
    assert_eq!(code, 200, "{object}");
    let message = message(&document);
    let item = list.windows(message.len()).any(|bytes| bytes == message);
    assert!(item, "{object}\nis another one in a list");
}

/// The message in an envelope: the bytes between the type and the empty fields at the end.
fn message(document: &[u8]) -> &[u8] {
    let type_length = usize::from(document[5]);
    let rest = &document[6 + type_length..document.len() - 4];
    assert_eq!(rest[0], 0x12);
    let length_bytes = rest[1..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
    &rest[1 + length_bytes..]
}
