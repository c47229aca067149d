//! Admission webhooks behind real TLS: their selection, their reviews, and the effect of their
//! answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod certificates;
mod metrics;
mod subresources;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock};

use crate::support::ports::RefusingPort;
use crate::support::requests::{Answer, send};
use crate::support::webhook_server::{Reply, WebhookServer};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// A webhook of that name for all that is done to config maps.
fn for_configmaps(name: &str, client_config: Value) -> Value {
    json!({
        "name": name,
        "clientConfig": client_config,
        "rules": [{
            "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

/// Stores a configuration with these webhooks.
async fn configure(server: &ApiServer, kind: &str, name: &str, webhooks: Value) {
    let plural = format!("{}s", kind.to_lowercase());
    let configuration = json!({ "metadata": { "name": name }, "webhooks": webhooks });
    let created = send(
        server,
        &format!("POST {CONFIGURATIONS}/{plural}"),
        configuration,
    )
    .await;
    assert_eq!(created.code, 201, "{}", created.body);
}

async fn validating(server: &ApiServer, webhook: Value) {
    configure(
        server,
        "ValidatingWebhookConfiguration",
        "validating",
        json!([webhook]),
    )
    .await;
}

async fn mutating(server: &ApiServer, webhook: Value) {
    configure(
        server,
        "MutatingWebhookConfiguration",
        "mutating",
        json!([webhook]),
    )
    .await;
}

/// The answer to a review with these fields in addition to its uid.
fn response(review: &Value, fields: Value) -> Reply {
    let mut response = fields;
    response["uid"] = review["request"]["uid"].clone();
    Reply::Json(json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
    }))
}

fn allow(review: &Value) -> Reply {
    response(review, json!({ "allowed": true }))
}

fn patch(review: &Value, operations: Value) -> Reply {
    let patch = STANDARD.encode(operations.to_string());
    let fields = json!({ "allowed": true, "patch": patch, "patchType": "JSONPatch" });
    response(review, fields)
}

async fn create(server: &ApiServer, name: &str) -> Answer {
    let body = json!({ "metadata": { "name": name } });
    send(server, &format!("POST {CONFIGMAPS}"), body).await
}

#[tokio::test]
async fn a_validating_webhook_refuses_in_its_own_words_and_nothing_is_stored() {
    let hook = WebhookServer::start(|review| {
        let status = json!({ "message": "no", "code": 409, "reason": "Conflict" });
        response(
            review,
            json!({ "allowed": false, "status": status, "warnings": ["beware"] }),
        )
    })
    .await;
    let server = ApiServer::builder().build();
    validating(
        &server,
        for_configmaps("deny.example.com", hook.by_url("/x")),
    )
    .await;
    let refused = create(&server, "a").await;
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.message(),
        r#"admission webhook "deny.example.com" denied the request: no"#
    );
    assert_eq!(refused.body["reason"], "Conflict");
    assert_eq!(refused.warnings, [r#"299 - "beware""#]);
    let got = send(&server, &format!("GET {CONFIGMAPS}/a"), Value::Null).await;
    assert_eq!(got.code, 404);
    let secret = json!({ "metadata": { "name": "s" } });
    let other = send(&server, "POST /api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(other.code, 201, "no rule is about secrets");
}

#[tokio::test]
async fn a_mutating_webhook_changes_the_object_before_it_is_validated() {
    let hook = WebhookServer::start(|review| {
        patch(
            review,
            json!([{ "op": "add", "path": "/data", "value": { "added": "yes" } }]),
        )
    })
    .await;
    let checker = WebhookServer::start(|review| {
        let is_mutated = review["request"]["object"]["data"]["added"] == "yes";
        response(review, json!({ "allowed": is_mutated }))
    })
    .await;
    let server = ApiServer::builder().build();
    mutating(
        &server,
        for_configmaps("mutate.example.com", hook.by_url("/m")),
    )
    .await;
    validating(
        &server,
        for_configmaps("check.example.com", checker.by_url("/v")),
    )
    .await;
    let created = create(&server, "a").await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.body["data"], json!({ "added": "yes" }));
    let first = &hook.seen()[0]["request"];
    assert_eq!(first["operation"], "CREATE");
    assert_eq!(first["object"]["metadata"]["uid"], Value::Null);
    assert_eq!(first["oldObject"], Value::Null);
    assert_eq!(first["userInfo"]["username"], "kubernetes-admin");
    let second = &checker.seen()[0]["request"];
    assert_eq!(
        second["object"]["metadata"]["uid"],
        created.body["metadata"]["uid"]
    );
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_fails_closed_or_open_as_its_policy_says() {
    let hook = WebhookServer::start(|_| Reply::Silence).await;
    let server = ApiServer::builder().build();
    let mut webhook = for_configmaps("slow.example.com", hook.by_url("/x"));
    webhook["timeoutSeconds"] = 1.into();
    validating(&server, webhook.clone()).await;
    let refused = create(&server, "a").await;
    assert_eq!(refused.code, 500);
    assert_eq!(refused.body["reason"], "InternalError");
    let expected = format!(
        r#"Internal error occurred: failed calling webhook "slow.example.com": failed to call webhook: Post "https://{}/x?timeout=1s": context deadline exceeded"#,
        hook.address
    );
    assert_eq!(refused.message(), expected);
    webhook["failurePolicy"] = "Ignore".into();
    let path = format!("PATCH {CONFIGURATIONS}/validatingwebhookconfigurations/validating");
    let ignored = send(&server, &path, json!({ "webhooks": [webhook] })).await;
    assert_eq!(ignored.code, 200, "{}", ignored.body);
    assert_eq!(create(&server, "a").await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn simulated_time_stands_still_while_a_webhook_is_asked() {
    let epoch = "2024-01-01T00:00:00Z".parse().unwrap();
    let hook = WebhookServer::start(|review| {
        let is_slow = review["request"]["name"] == "slow";
        if is_slow {
            Reply::Silence
        } else {
            allow(review)
        }
    })
    .await;
    let server = ApiServer::builder().clock(Clock::simulated(epoch)).build();
    let mut webhook = for_configmaps("v.example.com", hook.by_url("/x"));
    webhook["timeoutSeconds"] = 1.into();
    validating(&server, webhook).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(create(&server, "quick").await.code, 201);
    let refused = create(&server, "slow").await;
    assert!(refused.message().ends_with("context deadline exceeded"));
    assert_eq!(hook.seen().len(), 2);
    assert_eq!(begun.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test]
async fn a_webhook_that_cannot_be_asked_is_reported_as_upstream_does() {
    let hook = WebhookServer::start(|_| Reply::Text(500, "broken\n")).await;
    let stranger = WebhookServer::start(allow).await;
    let port = RefusingPort::bind();
    let nobody = port.address;
    let untrusted = json!({
        "url": format!("https://{}/x", hook.address), "caBundle": stranger.ca_bundle(),
    });
    let misnamed = json!({
        "url": format!("https://localhost:{}/x", hook.address.port()),
        "caBundle": hook.ca_bundle(),
    });
    let refused = format!("dial tcp {nobody}: connect: connection refused");
    let x509 = "tls: failed to verify certificate: x509";
    for (client_config, url, why) in [
        (
            hook.by_url("/x"),
            None,
            r#"an error on the server ("broken") has prevented the request from succeeding"#,
        ),
        (
            json!({ "url": format!("https://{nobody}/x") }),
            Some(format!("https://{nobody}/x")),
            &refused,
        ),
        (
            untrusted,
            Some(format!("https://{}/x", hook.address)),
            // Both authorities have the same name.
            &format!(
                "{x509}: certificate signed by unknown authority (possibly because of \"x509: ECDSA \
                 verification failure\" while trying to verify candidate authority certificate \
                 \"rcgen self signed cert\")"
            ),
        ),
        (
            misnamed,
            Some(format!("https://localhost:{}/x", hook.address.port())),
            &format!("{x509}: certificate is valid for hook.default.svc, not localhost"),
        ),
        (
            json!({ "service": { "namespace": "default", "name": "absent", "path": "/x" } }),
            Some("https://absent.default.svc:443/x".to_owned()),
            r#"service "absent" not found"#,
        ),
    ] {
        let server = ApiServer::builder().build();
        validating(&server, for_configmaps("v.example.com", client_config)).await;
        let answer = create(&server, "a").await;
        let post = url.map_or_else(String::new, |url| {
            format!("Post {:?}: ", url + "?timeout=10s")
        });
        let expected = format!(
            r#"Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: {post}{why}"#
        );
        assert_eq!((answer.code, answer.message()), (500, expected.as_str()));
    }
}

#[tokio::test]
async fn only_the_webhooks_that_match_are_asked() {
    let hook = WebhookServer::start(allow).await;
    let server = ApiServer::builder().build();
    let mut by_label = for_configmaps("label.example.com", hook.by_url("/label"));
    by_label["objectSelector"] = json!({ "matchLabels": { "tier": "front" } });
    let mut by_namespace = for_configmaps("namespace.example.com", hook.by_url("/namespace"));
    by_namespace["namespaceSelector"] = json!({ "matchLabels": { "watched": "yes" } });
    let mut by_condition = for_configmaps("condition.example.com", hook.by_url("/condition"));
    by_condition["matchConditions"] = json!([
        { "name": "updates", "expression": "request.operation == 'UPDATE'" },
        { "name": "data", "expression": "object.data.size() != oldObject.data.size()" },
    ]);
    let mut deletions = for_configmaps("deletions.example.com", hook.by_url("/deletions"));
    deletions["rules"][0]["operations"] = json!(["DELETE"]);
    let all = json!([by_label, by_namespace, by_condition, deletions]);
    configure(&server, "ValidatingWebhookConfiguration", "all", all).await;

    let body = json!({ "metadata": { "name": "a" }, "data": { "x": "y" } });
    assert_eq!(
        send(&server, &format!("POST {CONFIGMAPS}"), body)
            .await
            .code,
        201
    );
    assert!(hook.seen().is_empty());

    let object = format!("PATCH {CONFIGMAPS}/a");
    let labelled = json!({ "metadata": { "labels": { "tier": "front" } } });
    assert_eq!(send(&server, &object, labelled).await.code, 200);
    assert_eq!(hook.seen().len(), 1, "the new labels match");
    let unlabelled = json!({ "metadata": { "labels": null } });
    assert_eq!(send(&server, &object, unlabelled).await.code, 200);
    assert_eq!(hook.seen().len(), 2, "the old labels match");

    let filled = json!({ "data": { "z": "1" } });
    assert_eq!(send(&server, &object, filled).await.code, 200);
    assert_eq!(hook.seen().len(), 3, "the conditions hold");

    let watched = json!({ "metadata": { "labels": { "watched": "yes" } } });
    let patched = send(&server, "PATCH /api/v1/namespaces/default", watched).await;
    assert_eq!(patched.code, 200);
    assert_eq!(create(&server, "b").await.code, 201);
    assert_eq!(hook.seen().len(), 4, "the namespace matches");

    let deleted = send(&server, &format!("DELETE {CONFIGMAPS}/b"), Value::Null).await;
    assert_eq!(deleted.code, 200);
    let seen = hook.seen();
    let last = &seen.last().unwrap()["request"];
    assert_eq!(last["operation"], "DELETE");
    assert_eq!(last["oldObject"]["metadata"]["name"], "b");
    assert_eq!(last["object"], Value::Null);
}

#[tokio::test]
async fn a_webhook_sees_again_what_others_have_changed_behind_it() {
    let add = |key: &'static str| {
        move |review: &Value| {
            let data = &review["request"]["object"]["data"];
            if data.is_null() {
                return patch(
                    review,
                    json!([{ "op": "add", "path": "/data", "value": { key: "" } }]),
                );
            }
            if data[key].is_null() {
                let path = format!("/data/{key}");
                return patch(review, json!([{ "op": "add", "path": path, "value": "" }]));
            }
            allow(review)
        }
    };
    let (first, second) = (
        WebhookServer::start(add("first")).await,
        WebhookServer::start(add("second")).await,
    );
    let server = ApiServer::builder().build();
    let mut again = for_configmaps("first.example.com", first.by_url("/"));
    again["reinvocationPolicy"] = "IfNeeded".into();
    let once = for_configmaps("second.example.com", second.by_url("/"));
    configure(
        &server,
        "MutatingWebhookConfiguration",
        "both",
        json!([again, once]),
    )
    .await;
    let created = create(&server, "a").await;
    assert_eq!(created.body["data"], json!({ "first": "", "second": "" }));
    assert_eq!((first.seen().len(), second.seen().len()), (2, 1));
}

#[tokio::test]
async fn a_dry_run_asks_only_webhooks_without_side_effects() {
    let hook = WebhookServer::start(allow).await;
    let server = ApiServer::builder().build();
    validating(&server, for_configmaps("v.example.com", hook.by_url("/"))).await;
    let path = format!("POST {CONFIGMAPS}?dryRun=All");
    let body = json!({ "metadata": { "name": "a" } });
    assert_eq!(send(&server, &path, body).await.code, 201);
    let request = &hook.seen()[0]["request"];
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["options"]["dryRun"], json!(["All"]));

    let mut careful = for_configmaps("careful.example.com", hook.by_url("/"));
    careful["sideEffects"] = "NoneOnDryRun".into();
    mutating(&server, careful).await;
    let body = json!({ "metadata": { "name": "b" } });
    assert_eq!(send(&server, &path, body.clone()).await.code, 201);
    assert_eq!(hook.seen()[1]["request"]["dryRun"], true);
    let create = format!("POST {CONFIGMAPS}");
    assert_eq!(send(&server, &create, body).await.code, 201);
    assert_eq!(hook.seen()[3]["request"]["dryRun"], false);

    for effects in ["Some", "Unknown"] {
        let mut effective = for_configmaps("effective.example.com", hook.by_url("/"));
        effective["sideEffects"] = effects.into();
        let body = json!({ "metadata": { "name": "no" }, "webhooks": [effective] });
        let path = format!("POST {CONFIGURATIONS}/mutatingwebhookconfigurations");
        let refused = send(&server, &path, body).await;
        let cause = &refused.body["details"]["causes"][0];
        assert_eq!(cause["field"], "webhooks[0].sideEffects");
        let message =
            format!("Unsupported value: {effects:?}: supported values: \"None\", \"NoneOnDryRun\"");
        assert_eq!(cause["message"], message);
    }
}

#[tokio::test]
async fn a_configuration_is_refused_with_all_its_faults() {
    let server = ApiServer::builder().build();
    let webhook = json!({
        "name": "short",
        "clientConfig": {},
        "rules": [{
            "operations": ["*", "CREATE"], "apiGroups": [], "apiVersions": [""],
            "resources": ["*/*", "pods"], "scope": "Some",
        }],
        "timeoutSeconds": 31,
        "matchConditions": [{ "name": "c", "expression": "object." }],
        "admissionReviewVersions": ["v2"],
    });
    let body = json!({ "metadata": { "name": "bad" }, "webhooks": [webhook] });
    let path = format!("POST {CONFIGURATIONS}/validatingwebhookconfigurations");
    let refused = send(&server, &path, body).await;
    assert_eq!(refused.code, 422);
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "webhooks[0].name",
            "webhooks[0].rules[0].operations",
            "webhooks[0].rules[0].apiGroups",
            "webhooks[0].rules[0].apiVersions[0]",
            "webhooks[0].rules[0].resources",
            "webhooks[0].rules[0].scope",
            "webhooks[0].sideEffects",
            "webhooks[0].timeoutSeconds",
            "webhooks[0].clientConfig",
            "webhooks[0].matchConditions[0].expression",
            "webhooks[0].admissionReviewVersions",
        ]
    );
}

#[tokio::test]
async fn webhooks_find_services_where_the_server_was_configured_to() {
    let hook = WebhookServer::start(|review| {
        let status = json!({ "message": review["request"]["subResource"] });
        response(review, json!({ "allowed": false, "status": status }))
    })
    .await;
    let server = ApiServer::builder()
        .resolve_service("default", "hook", 443, hook.address)
        .build();
    let client_config = json!({
        "service": { "namespace": "default", "name": "hook", "path": "/v" },
        "caBundle": hook.ca_bundle(),
    });
    let mut webhook = for_configmaps("v.example.com", client_config);
    webhook["rules"][0]["resources"] = json!(["pods/binding"]);
    validating(&server, webhook).await;
    let pod = json!({
        "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let pods = "/api/v1/namespaces/default/pods";
    let account = json!({ "metadata": { "name": "default" } });
    let accounts = "POST /api/v1/namespaces/default/serviceaccounts";
    send(&server, accounts, account).await;
    assert_eq!(send(&server, &format!("POST {pods}"), pod).await.code, 201);
    let binding = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n" } });
    let refused = send(&server, &format!("POST {pods}/p/binding"), binding).await;
    assert_eq!(
        refused.message(),
        r#"admission webhook "v.example.com" denied the request: binding"#
    );
    let request = &hook.seen()[0]["request"];
    assert_eq!(request["object"]["kind"], "Binding");
    assert_eq!(request["namespace"], "default");
}

/// Kubernetes API, `WebhookClientConfig.caBundle`: "If unspecified, system trust roots on the apiserver are used."
#[tokio::test]
async fn a_webhook_without_a_bundle_is_checked_by_the_authorities_of_the_server() {
    let hook = WebhookServer::start(allow).await;
    let stranger = WebhookServer::start(allow).await;
    for (trusted, named, code) in [
        (None, None, 500),
        (Some(&hook), None, 201),
        (Some(&stranger), None, 500),
        (Some(&stranger), Some(&hook), 201),
        (Some(&hook), Some(&stranger), 500),
    ] {
        let mut builder = ApiServer::builder();
        if let Some(trusted) = trusted {
            let pem = trusted.ca_pem();
            builder = builder.webhook_authorities(pem.as_bytes()).unwrap();
        }
        let server = builder.build();
        let mut client_config = json!({ "url": format!("https://{}/x", hook.address) });
        if let Some(named) = named {
            client_config["caBundle"] = named.ca_bundle().into();
        }
        validating(&server, for_configmaps("v.example.com", client_config)).await;
        assert_eq!(create(&server, "a").await.code, code);
    }
    let empty = ApiServer::builder().webhook_authorities(b"");
    assert_eq!(empty.unwrap_err().to_string(), "there is no certificate");
}

/// A webhook that answers without end must not fill the server's memory.
#[tokio::test]
async fn an_answer_is_read_up_to_a_limit() {
    let hook = WebhookServer::start(|review| {
        let fields = json!({ "allowed": true, "warnings": ["x".repeat(20 * 1024 * 1024)] });
        response(review, fields)
    })
    .await;
    let server = ApiServer::builder().build();
    let webhook = for_configmaps("large.example.com", hook.by_url("/"));
    validating(&server, webhook).await;
    let refused = create(&server, "a").await;
    assert_eq!(refused.code, 500);
    let message = refused.message();
    assert!(
        message.contains("/?timeout=10s\": response body is larger than 16"),
        "{message}"
    );
    assert!(message.ends_with(" bytes"), "{message}");
}
