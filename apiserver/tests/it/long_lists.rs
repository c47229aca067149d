//! Lists too long to be sent in one piece.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, ResponseBody};

use crate::support::requests::respond;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

async fn send(server: &ApiServer, method: &str, path: &str, body: Bytes) -> ResponseBody {
    let (request, headers) = (
        format!("{method} {path}"),
        [("content-type", "application/json")],
    );
    let response = respond(server, &request, &headers, body).await;
    assert!(response.status().is_success());
    response.into_body()
}

#[tokio::test]
async fn a_list_in_pieces_has_its_exact_length_and_all_items_in_order() {
    let server = ApiServer::builder().build();
    let list = async |query: &str| {
        let path = format!("{PATH}{query}");
        let mut body = send(&server, "GET", &path, Bytes::new()).await;
        let promised = body.size_hint().exact().unwrap();
        let (mut pieces, mut read) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            assert!(!data.is_empty());
            read.extend_from_slice(&data);
            pieces += 1;
            let left = body.size_hint().exact().unwrap();
            assert_eq!(read.len() as u64 + left, promised);
        }
        assert_eq!(read.len() as u64, promised);
        let list: Value = serde_json::from_slice(&read).unwrap();
        let items = list["items"].as_array().unwrap();
        let names = items.iter().map(|item| item["metadata"]["name"].as_str());
        let names: Vec<String> = names.map(|name| name.unwrap().to_owned()).collect();
        (pieces, names)
    };
    let mut wanted = Vec::new();
    for index in 100..140 {
        let name = format!("map-{index}");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "text": "x".repeat(10_000) },
        });
        send(&server, "POST", PATH, object.to_string().into()).await;
        wanted.push(name);
    }
    let (pieces, names) = list("?labelSelector=nobody").await;
    assert_eq!((pieces, names.len()), (1, 0));
    let (pieces, names) = list("?fieldSelector=metadata.namespace%3Ddefault&limit=20").await;
    assert!(pieces > 1, "200 kB are more than a piece");
    assert_eq!(names, wanted[..20]);
    let (pieces, names) = list("").await;
    assert!(pieces > 3, "400 kB are more than three pieces");
    assert_eq!(
        names.iter().filter(|name| name.starts_with("map")).count(),
        40
    );
    let own: Vec<String> = names
        .into_iter()
        .filter(|name| wanted.contains(name))
        .collect();
    assert_eq!(own, wanted);
}
