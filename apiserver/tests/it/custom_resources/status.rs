//! The status of custom resources, and what their strategy drops.

use kubeproof_apiserver::json::{Value, json};

use super::{WIDGETS, get, send, server, widget};

/// A version with a status of these fields, and both subresources.
fn version(status: Value) -> Value {
    json!({
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "nullable": true, "properties": {
                "a": { "type": "string" },
                "g": { "type": "object", "nullable": true, "properties": {
                    "r": { "type": "integer" } } } } },
            "status": status,
        } } },
        "subresources": { "status": {}, "scale": {
            "specReplicasPath": ".spec.g.r", "statusReplicasPath": ".status.n" } },
    })
}

fn with_status(name: &str, spec: Value, status: Value) -> Value {
    let mut widget = widget(name, spec);
    widget["status"] = status;
    widget
}

#[tokio::test]
async fn types_that_do_not_fit_what_is_dropped_end_the_ownership_of_fields() {
    let status = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let server = server(&version(status)).await;
    let (post, put) = (format!("POST {WIDGETS}"), |name: &str| {
        format!("PUT {WIDGETS}/{name}")
    });
    let bad = || json!({ "n": "x" });
    let created = send(&server, &post, with_status("a", json!({ "a": "x" }), bad())).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.body["metadata"].get("managedFields"), None);
    let updated = send(
        &server,
        "PATCH /apis/example.com/v1/namespaces/default/widgets/a",
        json!({ "spec": { "a": "y" } }),
    )
    .await;
    assert_eq!(updated.code, 200, "{}", updated.body);
    assert_eq!(
        updated.body["metadata"].get("managedFields"),
        None,
        "nobody comes back"
    );

    for (name, request, body) in [
        ("b", put("b"), with_status("b", json!({ "a": "y" }), bad())),
        (
            "c",
            put("c/status"),
            with_status("c", json!({ "a": 7 }), json!({ "n": 1 })),
        ),
    ] {
        let created = send(&server, &post, widget(name, json!({ "a": "x" }))).await;
        assert_ne!(created.body["metadata"]["managedFields"], Value::Null);
        let mut body = body;
        body["metadata"]["resourceVersion"] = created.body["metadata"]["resourceVersion"].clone();
        let updated = send(&server, &request, body).await;
        assert_eq!(updated.code, 200, "{}", updated.body);
        assert_eq!(
            updated.body["metadata"].get("managedFields"),
            None,
            "{request}"
        );
    }
}

#[tokio::test]
async fn a_default_of_the_status_is_filled_in_when_an_object_is_read() {
    let phase = json!({ "type": "string" });
    let whole = json!({ "type": "object", "default": { "phase": "Pending" },
        "properties": { "phase": phase } });
    let nested = json!({ "type": "object", "default": {},
        "properties": { "phase": { "type": "string", "default": "Pending" } } });
    for status in [whole, nested] {
        let server = server(&version(status)).await;
        let pending = json!({ "phase": "Pending" });
        for (query, name) in [("?dryRun=All", "a"), ("", "a"), ("", "b")] {
            let sent = with_status(name, json!({ "a": "x" }), json!({ "phase": "Other" }));
            let created = send(&server, &format!("POST {WIDGETS}{query}"), sent).await;
            assert_eq!(created.code, 201, "{}", created.body);
            assert_eq!(created.body["status"], pending);
        }
        let held = get(&server, &format!("{WIDGETS}/a")).await;
        assert_eq!(held["status"], pending);
        assert_eq!(get(&server, WIDGETS).await["items"][1]["status"], pending);
        let mut changed = held.clone();
        changed["spec"]["a"] = "y".into();
        changed.as_object_mut().unwrap().remove("status");
        let updated = send(&server, &format!("PUT {WIDGETS}/a"), changed).await;
        assert_eq!(updated.body["status"], pending, "{}", updated.body);
    }
}

#[tokio::test]
async fn null_on_the_way_to_the_replicas_is_as_if_they_were_absent() {
    let status = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let server = server(&version(status)).await;
    for (name, spec) in [("a", json!({ "g": null })), ("b", Value::Null)] {
        let created = send(&server, &format!("POST {WIDGETS}"), widget(name, spec)).await;
        assert_eq!(created.code, 201, "{}", created.body);
        let scale = get(&server, &format!("{WIDGETS}/{name}/scale")).await;
        let why = r#"Internal error occurred: the spec replicas field ".spec.g.r" does not exist"#;
        assert_eq!(scale["message"], why);
    }
}
