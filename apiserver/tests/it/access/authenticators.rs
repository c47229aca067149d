//! Tokens of a file, and servers that know no anonymous user.

use std::time::Duration;

use kubeproof_apiserver::TokenFile;
use kubeproof_apiserver::json::{Value, json};

use super::tokens::{issue, payload};
use super::{ADMIN, ApiServer, NOBODY, SELF, send};

const TOKENS: &[u8] = b"t1,alice,u1,\"admins,devs\"\nt2,bob,u2\nt3,system:anonymous,\n";

fn with_tokens() -> kubeproof_apiserver::ApiServerBuilder {
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    builder.token_file(TokenFile::read("tokens.csv", TOKENS).unwrap())
}

#[tokio::test]
async fn a_token_of_the_file_names_its_user() {
    let server = with_tokens().build();
    let rows = [
        (
            "t1",
            json!({
                "username": "alice", "uid": "u1",
                "groups": ["admins", "devs", "system:authenticated"],
            }),
        ),
        (
            "t2",
            json!({ "username": "bob", "uid": "u2", "groups": ["system:authenticated"] }),
        ),
    ];
    for (token, want) in &rows {
        let bearer = format!("Bearer {token}");
        let own = [("authorization", bearer.as_str())];
        let (code, answer) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
        assert_eq!((code, &answer["status"]["userInfo"]), (201, want));
        let reviews = "POST /apis/authentication.k8s.io/v1/tokenreviews";
        let question = json!({ "spec": { "token": token } });
        let (_, review) = send(&server, reviews, &[ADMIN], question).await;
        assert_eq!(&review["status"]["user"], want);
        let foreign = json!({ "spec": { "token": token, "audiences": ["other"] } });
        let (_, review) = send(&server, reviews, &[ADMIN], foreign).await;
        assert_eq!(review["status"]["error"], "invalid bearer token");
    }
    let unknown = [("authorization", "Bearer t4")];
    let (code, _) = send(&server, &format!("POST {SELF}"), &unknown, json!({})).await;
    assert_eq!(code, 401);
}

#[tokio::test]
async fn without_anonymous_requests_everybody_shows_credentials() {
    for (builder, want) in [
        (with_tokens(), 200),
        (with_tokens().refuse_anonymous(), 401),
    ] {
        let server = builder.build();
        let (code, _) = send(&server, "GET /readyz", NOBODY, Value::Null).await;
        assert_eq!(code, want);
        let (code, _) = send(&server, "GET /readyz", &[ADMIN], Value::Null).await;
        assert_eq!(code, 200);
    }
}

#[tokio::test]
async fn audiences_and_keys_of_the_issuer_can_be_set() {
    let server = with_tokens()
        .api_audiences(vec!["api".to_owned(), "vault".to_owned()])
        .service_account_jwks_uri("https://keys.test/jwks")
        .build();
    let token = issue(&server, "robot", json!({})).await;
    assert_eq!(payload(&token)["aud"], json!(["api", "vault"]));
    let discovery = "GET /.well-known/openid-configuration";
    let (_, document) = send(&server, discovery, &[ADMIN], Value::Null).await;
    assert_eq!(document["jwks_uri"], "https://keys.test/jwks");
    let foreign = issue(&server, "robot", json!({ "audiences": ["x"] })).await;
    for (token, want) in [(token, 201), (foreign, 401)] {
        let bearer = format!("Bearer {token}");
        let own = [("authorization", bearer.as_str())];
        let (code, _) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
        assert_eq!(code, want);
    }
}

#[tokio::test]
async fn the_lifetime_of_a_token_can_be_limited() {
    let server = with_tokens()
        .service_account_max_token_expiration(Duration::from_secs(7200))
        .build();
    let seconds = |token: &str| {
        let claims = payload(token);
        claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap()
    };
    for (wanted, granted) in [(3600, 3600), (7200, 7200), (7201, 7200)] {
        let spec = json!({ "expirationSeconds": wanted });
        let token = issue(&server, "robot", spec.clone()).await;
        assert_eq!(seconds(&token), granted);
        let request = "POST /api/v1/namespaces/default/serviceaccounts/robot/token";
        let body = json!({ "spec": spec }).to_string();
        let answer = super::respond(&server, request, &[ADMIN], body).await;
        let answer = super::answer(answer).await;
        assert_eq!(answer.body["spec"]["expirationSeconds"], granted);
        let shortened = "requested expiration of 7201 seconds shortened to 7200 seconds";
        let warned = answer.warnings.iter().any(|own| own.contains(shortened));
        assert_eq!(warned, wanted > granted, "{:?}", answer.warnings);
    }
}

#[tokio::test]
async fn projected_tokens_need_not_outlive_their_time() {
    for (builder, lifetime) in [
        (with_tokens(), 31_536_000),
        (with_tokens().without_extended_tokens(), 3607),
    ] {
        let server = builder.build();
        let pod = json!({ "metadata": { "name": "p" }, "spec": {
            "serviceAccountName": "robot", "nodeName": "n",
            "containers": [{ "name": "c", "image": "i" }],
        } });
        let pods = "POST /api/v1/namespaces/default/pods";
        assert_eq!(send(&server, pods, &[ADMIN], pod).await.0, 201);
        let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
        let spec = json!({ "expirationSeconds": 3607, "boundObjectRef": bound });
        let claims = payload(&issue(&server, "robot", spec).await);
        let issued = claims["iat"].as_i64().unwrap();
        assert_eq!(claims["exp"].as_i64(), Some(issued + lifetime));
    }
}

/// Source: plugin/pkg/auth/authenticator/token/bootstrap/bootstrap_test.go.
#[tokio::test]
async fn a_bootstrap_token_names_its_user_while_its_secret_permits_it() {
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    let server = builder.clone().bootstrap_tokens().build();
    let whole = json!({
        "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:workers", "expiration": "9999-01-01T00:00:00Z",
    });
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let changes = [
        (json!({}), 201),
        (json!({ "token-id": "abcdeg" }), 401),
        (json!({ "token-secret": "0123456789abcdeg" }), 401),
        (json!({ "usage-bootstrap-authentication": null }), 401),
        (json!({ "auth-extra-groups": "system:masters" }), 401),
        (json!({ "expiration": "2020-01-01T00:00:00Z" }), 401),
    ];
    let own = [("authorization", "Bearer abcdef.0123456789abcdef")];
    for (change, want) in changes {
        let mut data = whole.clone();
        for (key, value) in change.as_object().unwrap() {
            data[key] = value.clone();
        }
        data.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let secret = json!({
            "metadata": { "name": "bootstrap-token-abcdef" },
            "type": "bootstrap.kubernetes.io/token", "stringData": data,
        });
        let (code, _) = send(&server, &format!("POST {secrets}"), &[ADMIN], secret).await;
        assert_eq!(code, 201);
        let (code, answer) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
        assert_eq!(code, want, "{change}");
        if want == 201 {
            let user = json!({
                "username": "system:bootstrap:abcdef",
                "groups": ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"],
            });
            assert_eq!(answer["status"]["userInfo"], user);
        }
        let delete = format!("DELETE {secrets}/bootstrap-token-abcdef");
        send(&server, &delete, &[ADMIN], Value::Null).await;
    }
    let (code, _) = send(&builder.build(), &format!("POST {SELF}"), &own, json!({})).await;
    assert_eq!(code, 401);
}
