//! Webhooks that know tokens and permissions.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{
    AuthenticationWebhook, Authorization, AuthorizationWebhook, WebhookKubeconfig,
};

use super::{ADMIN, ApiServer, CONFIGMAPS, RBAC, SELF, send};
use crate::support::webhook_server::{Reply, WebhookServer};

const NEVER: Duration = Duration::ZERO;
const JANE: &[(&str, &str)] = &[ADMIN, ("impersonate-user", "jane")];
const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A kubeconfig for `webhook` with these fields of a user.
fn kubeconfig(webhook: &WebhookServer, path: &str, user: &Value) -> WebhookKubeconfig {
    let config = json!({
        "clusters": [{ "name": "c", "cluster": {
            "server": format!("https://{}{path}", webhook.address),
            "certificate-authority-data": webhook.ca_bundle(),
        } }],
        "users": [{ "name": "u", "user": user }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    let missing = |_: &str| Err(io::Error::other("no file"));
    WebhookKubeconfig::read(config.to_string().as_bytes(), missing).unwrap()
}

fn authorizer(webhook: &WebhookServer) -> AuthorizationWebhook {
    let config = kubeconfig(webhook, "/authorize", &json!({ "token": "mine" }));
    AuthorizationWebhook::new(config, "v1").unwrap()
}

fn server(modes: Vec<Authorization>) -> ApiServer {
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    builder.authorization_modes(modes).build()
}

/// The answer to a SubjectAccessReview.
fn status(status: Value) -> Reply {
    Reply::Json(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status,
    }))
}

/// Allows what `allows` says, and has no opinion about the rest.
async fn permitting(allows: impl Fn(&Value) -> bool + Send + Sync + 'static) -> WebhookServer {
    WebhookServer::start(move |review| match allows(&review["spec"]) {
        true => status(json!({ "allowed": true, "reason": "the webhook says so" })),
        false => status(json!({ "allowed": false, "reason": "not by the webhook" })),
    })
    .await
}

#[tokio::test]
async fn a_webhook_is_asked_what_no_earlier_mode_allows() {
    let webhook = permitting(|spec| spec["resourceAttributes"]["verb"] == "list").await;
    let modes = vec![
        Authorization::Rbac,
        Authorization::Webhook(authorizer(&webhook)),
    ];
    let server = server(modes);
    let list = format!("GET {CONFIGMAPS}?labelSelector=a%3Db,c&fieldSelector=metadata.name!%3Dx");
    assert_eq!(send(&server, &list, &[ADMIN], Value::Null).await.0, 200);
    assert_eq!(
        webhook.seen().len(),
        0,
        "members of system:masters need no webhook"
    );
    let own = [
        ADMIN,
        ("impersonate-user", "jane"),
        ("impersonate-group", "devs"),
    ];
    assert_eq!(send(&server, &list, &own, Value::Null).await.0, 200);
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "resourceAttributes": {
                "namespace": "default",
                "verb": "list",
                "version": "v1",
                "resource": "configmaps",
                "fieldSelector": { "requirements": [
                    { "key": "metadata.name", "operator": "NotIn", "values": ["x"] },
                ] },
                "labelSelector": { "requirements": [
                    { "key": "a", "operator": "In", "values": ["b"] },
                    { "key": "c", "operator": "Exists" },
                ] },
            },
            "user": "jane",
            "groups": ["devs", "system:authenticated"],
        },
        "status": { "allowed": false },
    });
    assert_eq!(webhook.seen(), [review]);
    assert_eq!(webhook.seen_header("authorization"), ["Bearer mine"]);
    // What roles grant needs no webhook, and a refusal has its reason.
    assert_eq!(send(&server, "GET /api", JANE, Value::Null).await.0, 200);
    let (code, answer) = send(&server, "GET /metrics", JANE, Value::Null).await;
    let message = "forbidden: User \"jane\" cannot get path \"/metrics\": not by the webhook";
    assert_eq!((code, &answer["message"]), (403, &json!(message)));
    let asked = &webhook.seen()[1]["spec"]["nonResourceAttributes"];
    assert_eq!(asked, &json!({ "path": "/metrics", "verb": "get" }));
    assert_eq!(webhook.seen().len(), 2);
}

#[tokio::test]
async fn a_denial_ends_the_chain_and_v1beta1_names_groups_in_the_singular() {
    let webhook = WebhookServer::start(|review| match &review["spec"]["user"] {
        user if user == "mallory" => status(json!({ "denied": true, "reason": "never" })),
        user if user == "confused" => status(json!({ "denied": true, "allowed": true })),
        _ => status(json!({})),
    })
    .await;
    let config = kubeconfig(&webhook, "", &json!({}));
    let config = AuthorizationWebhook::new(config, "v1beta1").unwrap();
    let modes = vec![Authorization::Webhook(config), Authorization::AlwaysAllow];
    let server = server(modes);
    let list = format!("GET {CONFIGMAPS}");
    assert_eq!(send(&server, &list, JANE, Value::Null).await.0, 200);
    let seen = &webhook.seen()[0];
    assert_eq!(seen["apiVersion"], "authorization.k8s.io/v1beta1");
    assert_eq!(seen["spec"]["group"], json!(["system:authenticated"]));
    assert_eq!(webhook.seen_header("authorization"), [""]);
    let mallory = [ADMIN, ("impersonate-user", "mallory")];
    let (code, answer) = send(&server, &list, &mallory, Value::Null).await;
    assert_eq!(code, 403);
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.ends_with("in the namespace \"default\": never"),
        "{message}"
    );
    let review = |user: &str| {
        json!({ "spec": {
            "user": user, "resourceAttributes": { "verb": "get", "resource": "pods" },
        } })
    };
    let (_, answer) = send(&server, REVIEWS, &[ADMIN], review("mallory")).await;
    let denied = json!({ "allowed": false, "denied": true, "reason": "never" });
    assert_eq!(answer["status"], denied);
    let (_, answer) = send(&server, REVIEWS, &[ADMIN], review("confused")).await;
    let why = "webhook subject access review returned both allow and deny response";
    let denied = json!({ "allowed": false, "denied": true, "evaluationError": why });
    assert_eq!(answer["status"], denied);
    let refused = AuthorizationWebhook::new(kubeconfig(&webhook, "", &json!({})), "v2");
    let text =
        "unsupported webhook authorizer version \"v2\", supported versions are \"v1\", \"v1beta1\"";
    assert_eq!(refused.unwrap_err().to_string(), text);
}

#[tokio::test]
async fn a_webhook_that_fails_is_an_internal_error_unless_another_mode_allows() {
    let webhook = WebhookServer::start(|_| Reply::Text(403, "<no>")).await;
    let list = format!("GET {CONFIGMAPS}");
    let failing = Authorization::Webhook(authorizer(&webhook));
    let server = server(vec![failing.clone(), Authorization::Rbac]);
    let response = super::respond(&server, &list, JANE, "").await;
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
    let (code, text) = crate::support::requests::read(response).await;
    let want = "Internal Server Error: \"/api/v1/namespaces/default/configmaps\": &lt;no&gt;\n";
    assert_eq!((code, text.as_ref()), (500, want.as_bytes()));
    assert_eq!(send(&server, "GET /api", JANE, Value::Null).await.0, 200);
    let review = json!({ "spec": {
        "user": "jane", "resourceAttributes": { "verb": "get", "resource": "pods" },
    } });
    let (_, answer) = send(&server, REVIEWS, &[ADMIN], review).await;
    assert_eq!(
        answer["status"],
        json!({ "allowed": false, "evaluationError": "<no>" })
    );
}

#[tokio::test]
async fn answers_are_remembered_for_their_time_and_passing_failures_tried_again() {
    let calls = AtomicUsize::new(0);
    let webhook = WebhookServer::start(move |review| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::Text(500, "soon"),
        _ => status(json!({ "allowed": review["spec"]["user"] == "jane" })),
    })
    .await;
    let list = format!("GET {CONFIGMAPS}");
    let bob = [ADMIN, ("impersonate-user", "bob")];
    let remembers = authorizer(&webhook);
    let forgets = authorizer(&webhook).cache_ttls(Duration::from_mins(1), NEVER);
    for (webhook_mode, calls) in [(remembers, 3), (forgets, 3)] {
        let server = server(vec![Authorization::Webhook(webhook_mode)]);
        let before = webhook.seen().len();
        for _ in 0..2 {
            assert_eq!(send(&server, &list, JANE, Value::Null).await.0, 200);
            assert_eq!(send(&server, &list, &bob, Value::Null).await.0, 403);
        }
        // The first server has tried once more, and the second has asked about bob twice.
        assert_eq!(webhook.seen().len() - before, calls);
    }
}

#[tokio::test]
async fn rules_of_admission_ask_the_webhook_too() {
    let webhook = permitting(|spec| {
        let asked = &spec["resourceAttributes"];
        let is_special = ["escalate", "approve", "ship"].contains(&asked["verb"].as_str().unwrap());
        // Jane may do all that a request asks for itself, and one of three special things.
        !is_special || spec["groups"][0] == asked["verb"]
    })
    .await;
    let server = server(vec![Authorization::Webhook(authorizer(&webhook))]);
    let policy = json!({
        "metadata": { "name": "p" },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"],
            }] },
            "validations": [{
                "expression": "authorizer.group('').resource('ships').check('ship').allowed()",
            }],
        },
    });
    let binding = json!({
        "metadata": { "name": "b" },
        "spec": { "policyName": "p", "validationActions": ["Deny"] },
    });
    let group = "POST /apis/admissionregistration.k8s.io/v1";
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        let (code, answer) = send(&server, &format!("{group}/{plural}"), &[ADMIN], object).await;
        assert_eq!(code, 201, "{answer}");
    }
    let role = json!({
        "metadata": { "name": "r" },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
    });
    let map = json!({ "metadata": { "name": "m" } });
    let key = rcgen::KeyPair::generate().unwrap();
    let signed = rcgen::CertificateParams::default().serialize_request(&key);
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let wanted = json!({
        "metadata": { "name": "csr" },
        "spec": {
            "request": STANDARD.encode(signed.unwrap().pem().unwrap()),
            "signerName": "example.com/signer",
            "usages": ["client auth"],
        },
    });
    let (code, mut wanted) = send(&server, &format!("POST {requests}"), &[ADMIN], wanted).await;
    assert_eq!(code, 201, "{wanted}");
    wanted["status"]["conditions"] = json!([{ "type": "Approved", "status": "True" }]);
    let rows = [
        (format!("POST {CONFIGMAPS}"), map, "ship"),
        (format!("POST {RBAC}/roles"), role, "escalate"),
        (format!("PUT {requests}/csr/approval"), wanted, "approve"),
    ];
    for (request, body, verb) in &rows {
        for (group, want) in [("nobody", false), (*verb, true)] {
            let own = [
                ADMIN,
                ("impersonate-user", "jane"),
                ("impersonate-group", group),
            ];
            let (code, answer) = send(&server, request, &own, body.clone()).await;
            assert_eq!(code < 400, want, "{request} as {group}: {answer}");
        }
        let asked = webhook.seen();
        let mut asked = asked
            .iter()
            .map(|review| &review["spec"]["resourceAttributes"]["verb"]);
        assert!(asked.any(|own| own == verb));
    }
}

#[tokio::test]
async fn a_webhook_knows_the_holders_of_tokens() {
    let webhook = WebhookServer::start(|review| {
        let status = match review["spec"]["token"].as_str().unwrap() {
            "t1" => json!({ "authenticated": true, "user": {
                "username": "jane", "uid": "u1", "groups": ["devs"], "extra": { "k": ["v"] },
            } }),
            "elsewhere" => json!({
                "authenticated": true, "audiences": ["other"], "user": { "username": "jane" },
            }),
            "odd" => json!({ "authenticated": false, "error": "an odd token" }),
            _ => json!({ "authenticated": false }),
        };
        Reply::Json(json!({
            "apiVersion": "authentication.k8s.io/v1beta1", "kind": "TokenReview", "status": status,
        }))
    })
    .await;
    let config = kubeconfig(
        &webhook,
        "/tokens",
        &json!({ "username": "me", "password": "pw" }),
    );
    let config = AuthenticationWebhook::new(config, "v1beta1").unwrap();
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    let builder = builder.api_audiences(vec!["api".to_owned()]);
    let server = builder.authentication_webhook(config).build();
    let bearer = |token: &str| format!("Bearer {token}");
    for _ in 0..2 {
        let own = [("authorization", bearer("t1"))];
        let (code, answer) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
        assert_eq!(code, 201, "{answer}");
        let want = json!({
            "username": "jane", "uid": "u1", "groups": ["devs", "system:authenticated"],
            "extra": { "k": ["v"] },
        });
        assert_eq!(answer["status"]["userInfo"], want);
    }
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1beta1",
        "kind": "TokenReview",
        "metadata": {},
        "spec": { "token": "t1", "audiences": ["api"] },
        "status": { "user": {} },
    });
    assert_eq!(webhook.seen(), [review]);
    assert_eq!(webhook.seen_header("authorization"), ["Basic bWU6cHc="]);
    let rows = [
        ("elsewhere", "invalid bearer token"),
        ("odd", "[invalid bearer token, an odd token]"),
        ("unknown", "invalid bearer token"),
    ];
    for (token, error) in rows {
        let own = [("authorization", bearer(token))];
        let (code, _) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
        assert_eq!(code, 401, "{token}");
        let question = json!({ "spec": { "token": token } });
        let reviews = "POST /apis/authentication.k8s.io/v1/tokenreviews";
        let (_, answer) = send(&server, reviews, &[ADMIN], question).await;
        assert_eq!(answer["status"]["error"], error);
    }
    // The administrator's token is known without the webhook.
    assert!(
        webhook
            .seen()
            .iter()
            .all(|review| review["spec"]["token"] != "secret")
    );
}

#[tokio::test]
async fn a_kubeconfig_may_have_a_certificate_of_the_client() {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let client = rcgen::CertificateParams::default().signed_by(&key, &issuer);
    let client = client.unwrap().pem();
    let allows = |_: &Value| status(json!({ "allowed": true }));
    let webhook = WebhookServer::start_mutual(&issuer.pem(), allows).await;
    let config = format!(
        "clusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority: ca.pem}}}}]\n\
         users: [{{name: u, user: {{client-certificate: c.pem, client-key: k.pem}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
        webhook.address
    );
    let load = |path: &str| match path {
        "ca.pem" => Ok(webhook.ca_pem().into()),
        "c.pem" => Ok(client.clone().into()),
        "k.pem" => Ok(key.serialize_pem().into()),
        path => Err(io::Error::other(path.to_owned())),
    };
    let config = WebhookKubeconfig::read(config.as_bytes(), load).unwrap();
    let with = AuthorizationWebhook::new(config, "v1").unwrap();
    let without = AuthorizationWebhook::new(kubeconfig(&webhook, "", &json!({})), "v1");
    for (webhook, want) in [(with, 200), (without.unwrap(), 500)] {
        let server = server(vec![Authorization::Webhook(webhook)]);
        let list = format!("GET {CONFIGMAPS}");
        assert_eq!(send(&server, &list, JANE, Value::Null).await.0, want);
    }
}

#[test]
fn faults_of_a_kubeconfig_are_worded_as_in_client_go() {
    let rows = [
        (
            "{}",
            "invalid configuration: no configuration has been provided, try setting \
             KUBERNETES_MASTER environment variable",
        ),
        (
            "current-context: x",
            "invalid configuration: context was not found for specified context: x",
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]",
            "invalid configuration: [user was not specified for context \"x\", cluster \"c\" was \
             not found for context \"x\"]",
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n\
             clusters: [{name: c, cluster: {}}]\nusers: [{name: u, user: {client-certificate-data: eA==}}]",
            "invalid configuration: [no server found for cluster \"c\", client-key-data or \
             client-key must be specified for u to use the clientCert authentication method.]",
        ),
    ];
    for (text, want) in rows {
        let missing = |_: &str| Err(io::Error::other("no file"));
        let refused = WebhookKubeconfig::read(text.as_bytes(), missing).unwrap_err();
        assert_eq!(refused.to_string(), want, "{text}");
    }
}
