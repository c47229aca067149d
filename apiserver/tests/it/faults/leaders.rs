//! Leaders that a fault deposes.

use std::time::Duration;

use kubeproof_apiserver::json::{Value, json};

use super::{create, inject, send};
use crate::support::requests::{answer, respond, server};

#[tokio::test(start_paused = true)]
async fn a_leader_does_not_learn_that_another_leads() {
    let server = server();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |name: &str, holder: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder}});
    for (name, holder) in [("shop", "a"), ("other", "")] {
        let (code, _) = send(&server, &format!("POST {leases}"), lease(name, holder)).await;
        assert_eq!(code, 201);
    }
    let stored = async || {
        let (_, lease) = send(&server, &format!("GET {leases}/shop"), Value::Null).await;
        lease
    };
    let renew = async |lease: &Value, holder: &str| {
        let mut lease = lease.clone();
        lease["spec"]["holderIdentity"] = holder.into();
        let (code, answer) = send(&server, &format!("PUT {leases}/shop"), lease).await;
        (code, answer["spec"]["holderIdentity"].clone())
    };
    let before = stored().await;
    let on = json!({"verb": "create", "resource": "configmaps"});
    inject(
        &server,
        json!({"name": "s", "on": on, "times": 1, "secondLeader": "15s"}),
    );
    create(&server, "by-the-first").await;
    // Whoever waits gets it, and the first goes on renewing it with what it has read long ago.
    let free = stored().await;
    assert_eq!(free["spec"]["holderIdentity"], "");
    assert_eq!(free["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(renew(&free, "b").await, (200, json!("b")));
    assert_eq!(renew(&before, "a").await, (200, json!("a")));
    let held = stored().await;
    assert_eq!(held["spec"]["holderIdentity"], "b");
    assert!(server.withheld_until().is_some());
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert_eq!(renew(&before, "a").await, (200, json!("a")));
    assert_eq!(renew(&held, "b").await, (200, json!("b")));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (code, _) = renew(&before, "a").await;
    assert_eq!((code, server.withheld_until()), (409, None));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_patches_does_not_learn_that_another_leads() {
    let server = server();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "shop"}, "spec": {"holderIdentity": "a"}});
    let (code, _) = send(&server, &format!("POST {leases}"), lease).await;
    assert_eq!(code, 201);
    let patch = async |content_type: &str, patch: Value| {
        let (path, content_type) = match content_type {
            "apply" => ("?fieldManager=a&force=true", "apply-patch+yaml".to_owned()),
            other => ("", format!("{other}-patch+json")),
        };
        let headers = [("content-type", format!("application/{content_type}"))];
        let path = format!("PATCH {leases}/shop{path}");
        let response = respond(&server, &path, &headers, patch.to_string()).await;
        let renewed = answer(response).await;
        (renewed.code, renewed.body["spec"].clone())
    };
    let on = json!({"verb": "create", "resource": "configmaps"});
    inject(
        &server,
        json!({"name": "s", "on": on, "times": 1, "secondLeader": "15s"}),
    );
    create(&server, "by-the-first").await;
    let renewal = |holder: &str, second: u32| {
        let time = format!("2026-01-01T00:00:{second:02}.000000Z");
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "spec": {"holderIdentity": holder, "renewTime": time},
        })
    };
    for content_type in ["merge", "strategic-merge", "apply"] {
        let (code, spec) = patch(content_type, renewal("b", 1)).await;
        assert_eq!(
            (code, &spec["holderIdentity"]),
            (200, &json!("b")),
            "{content_type}"
        );
    }
    for (second, content_type) in (10..).zip(["merge", "strategic-merge", "apply"]) {
        let (code, spec) = patch(content_type, renewal("a", second)).await;
        assert_eq!(
            (code, &spec),
            (200, &renewal("a", second)["spec"]),
            "{content_type}"
        );
    }
    let operations = json!([
        {"op": "test", "path": "/spec/holderIdentity", "value": "a"},
        {"op": "replace", "path": "/spec/renewTime", "value": "2026-01-01T00:00:20.000000Z"},
    ]);
    let (code, spec) = patch("json", operations).await;
    assert_eq!((code, &spec), (200, &renewal("a", 20)["spec"]));
    // One that lets go has let go.
    let (code, spec) = patch("merge", json!({"spec": {"holderIdentity": null}})).await;
    assert_eq!((code, &spec["holderIdentity"]), (200, &Value::Null));
    let (code, spec) = patch("merge", renewal("b", 30)).await;
    assert_eq!((code, &spec), (200, &renewal("b", 30)["spec"]));
    tokio::time::sleep(Duration::from_secs(15)).await;
    let (_, spec) = patch("merge", renewal("a", 40)).await;
    let (_, stored) = send(&server, &format!("GET {leases}/shop"), Value::Null).await;
    assert_eq!(stored["spec"], spec);
}
