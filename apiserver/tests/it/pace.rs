//! A server with the pace of etcd: responses after their events, and a moment before a deletion. Time is simulated.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Pace, ResponseBody};
use tokio::time::Instant;

use crate::support::requests::{read, respond};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn paced() -> ApiServer {
    ApiServer::builder().pace(Pace::ETCD).build()
}

/// Sends a request; returns how long the response took.
async fn send(server: &ApiServer, request: &str, body: Value) -> Duration {
    let began = Instant::now();
    let headers = [("content-type", "application/json")];
    let (code, body) = read(respond(server, request, &headers, body.to_string()).await).await;
    assert!(code < 300, "{request}: {body:?}");
    began.elapsed()
}

async fn watch(server: &ApiServer, path: &str) -> ResponseBody {
    let request = Request::get(format!("{path}?watch=true&resourceVersion=0"));
    let request = request.body(Full::<Bytes>::default()).unwrap();
    server.handle(request).await.into_body()
}

async fn event(watch: &mut ResponseBody) -> (String, Instant) {
    let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&frame).unwrap();
    (event["type"].as_str().unwrap().to_owned(), Instant::now())
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_write_and_a_read_take_their_time_and_a_review_none() {
    let server = paced();
    assert!(send(&server, &format!("POST {PODS}"), pod()).await >= Pace::ETCD.write);
    let read = send(&server, &format!("GET {PODS}/a"), json!({})).await;
    assert!(
        (Pace::ETCD.read..Pace::ETCD.write).contains(&read),
        "{read:?}"
    );
    let review = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = json!({"spec": {"namespace": "default"}});
    assert_eq!(send(&server, review, rules).await, Duration::ZERO);
    let dry = format!("POST {PODS}?dryRun=All");
    let mut other = pod();
    other["metadata"]["name"] = "b".into();
    assert_eq!(send(&server, &dry, other).await, Duration::ZERO);
    let unpaced = ApiServer::builder().build();
    assert_eq!(
        send(&unpaced, &format!("POST {PODS}"), pod()).await,
        Duration::ZERO
    );
}

#[tokio::test(start_paused = true)]
async fn a_response_waits_for_the_watches_and_not_for_slow_ones() {
    let server = paced();
    let mut reader = watch(&server, PODS).await;
    // Polled once, the watch has nothing to deliver and waits.
    assert!(is_idle(&mut reader).await);
    let writer = server.clone();
    let write = tokio::spawn(async move { send(&writer, &format!("POST {PODS}"), pod()).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!write.is_finished(), "nothing has read the event yet");
    assert_eq!(event(&mut reader).await.0, "ADDED");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!write.is_finished(), "the event may not be on the wire yet");
    assert!(is_idle(&mut reader).await);
    assert!(write.await.unwrap() < Duration::from_millis(30));
    // A client that does not read delays one write and no other.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let patch = format!("PATCH {PODS}/a");
    let first = patched(&server, &patch, labels).await;
    assert_eq!(first, Duration::from_millis(50));
    let labels = json!({"metadata": {"labels": {"a": "c"}}});
    assert!(patched(&server, &patch, labels).await < Duration::from_millis(5));
    // Nothing waits for a watch that has ended.
    drop(reader);
    let labels = json!({"metadata": {"labels": {"a": "d"}}});
    assert!(patched(&server, &patch, labels).await < Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_shown_a_moment_after_its_announcement() {
    for (server, moment) in [
        (paced(), Pace::ETCD.deletion),
        (ApiServer::builder().build(), Duration::ZERO),
    ] {
        send(&server, &format!("POST {PODS}"), pod()).await;
        let mut reader = watch(&server, PODS).await;
        assert_eq!(event(&mut reader).await.0, "ADDED");
        assert!(is_idle(&mut reader).await);
        let writer = server.clone();
        let delete =
            tokio::spawn(
                async move { send(&writer, &format!("DELETE {PODS}/a"), json!({})).await },
            );
        let (announced, at) = event(&mut reader).await;
        let (deleted, then) = event(&mut reader).await;
        assert_eq!(
            (announced.as_str(), deleted.as_str()),
            ("MODIFIED", "DELETED")
        );
        match moment.is_zero() {
            true => assert_eq!(then - at, moment),
            false => assert!(then - at >= moment, "{:?}", then - at),
        }
        assert!(is_idle(&mut reader).await);
        delete.await.unwrap();
    }
}

async fn patched(server: &ApiServer, request: &str, body: Value) -> Duration {
    let began = Instant::now();
    let headers = [("content-type", "application/merge-patch+json")];
    let (code, body) = read(respond(server, request, &headers, body.to_string()).await).await;
    assert_eq!(code, 200, "{body:?}");
    began.elapsed()
}

/// Polls a watch once; returns whether it has nothing to deliver.
async fn is_idle(watch: &mut ResponseBody) -> bool {
    let mut frame = std::pin::pin!(watch.frame());
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(frame.as_mut().poll(context).is_pending())
    })
    .await
}
