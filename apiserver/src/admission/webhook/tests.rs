//! What no client can configure any more, but an older cluster may have stored.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::Phase;
use crate::admission::request::GROUP;
use crate::json::{Value, json};
use crate::server::ApiServer;
use crate::storage::{Change, ObjectKey, Transaction};

async fn create_config_map(server: &ApiServer, query: &str) -> (u16, Value) {
    let path = format!("/api/v1/namespaces/default/configmaps{query}");
    let body = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Full::new(body)).unwrap();
    let response = server.handle(request).await;
    let code = response.status().as_u16();
    let answer = response.into_body().bytes().cloned().unwrap();
    (code, serde_json::from_slice(&answer).unwrap())
}

#[tokio::test]
async fn a_webhook_with_side_effects_refuses_dry_runs_unasked_and_whatever_its_policy() {
    for (phase, kind) in [
        (Phase::Mutating, "MutatingWebhookConfiguration"),
        (Phase::Validating, "ValidatingWebhookConfiguration"),
    ] {
        let server = ApiServer::builder().build();
        let state = server.core();
        let configuration = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": kind,
            "metadata": { "name": "old", "uid": "u" },
            "webhooks": [{
                "name": "side.example.com",
                // Nobody listens there: who is asked is ignored.
                "clientConfig": { "url": "https://127.0.0.1:1/" },
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "rules": [{
                    "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["configmaps"], "scope": "*",
                }],
                "sideEffects": "Some",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
            }],
        });
        let commit = Transaction {
            key: &ObjectKey::new(None, "old"),
            expected: None,
            change: Change::Put(configuration),
            time: state.clock.now(),
            user_agent: &Arc::from(""),
        };
        let table = state.webhooks.table(phase, &state.storage);
        table.commit(commit).unwrap();

        let (code, refused) = create_config_map(&server, "?dryRun=All").await;
        let message = r#"admission webhook "side.example.com" does not support dry run"#;
        assert_eq!((code, &refused["reason"]), (400, &json!("BadRequest")));
        assert_eq!(refused["message"], message);
        let (code, _) = create_config_map(&server, "").await;
        assert_eq!(code, 201, "the policy is to go on");
    }
}
