//! Tokens of service accounts: who has signed them, how others verify them, and when they end.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{Clock, TokenKeyError, TokenKeys};
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};

use super::{ACCOUNTS, ADMIN, ApiServer, CONFIGMAPS, NOBODY, SELF, send, server};

const DISCOVERY: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";
const RSA: &[u8] = include_bytes!("rsa.pem");

/// Creates the account `name` and answers a token of it, for `spec`.
pub(super) async fn issue(server: &ApiServer, name: &str, spec: Value) -> String {
    let account = json!({ "metadata": { "name": name } });
    send(server, &format!("POST {ACCOUNTS}"), &[ADMIN], account).await;
    let request = format!("POST {ACCOUNTS}/{name}/token");
    let (code, issued) = send(server, &request, &[ADMIN], json!({ "spec": spec })).await;
    assert_eq!(code, 201, "{issued}");
    issued["status"]["token"].as_str().unwrap().to_owned()
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

pub(super) fn payload(token: &str) -> Value {
    decoded(token.split('.').nth(1).unwrap())
}

/// The result of a TokenReview of `token`: the user, or the error.
async fn review(server: &ApiServer, token: &str) -> String {
    let request = "POST /apis/authentication.k8s.io/v1/tokenreviews";
    let question = json!({ "spec": { "token": token } });
    let (_, answer) = send(server, request, &[ADMIN], question).await;
    let status = &answer["status"];
    let text = status["error"].as_str();
    let text = text.or(status["user"]["username"].as_str());
    text.unwrap().to_owned()
}

/// Code, content type, `Cache-Control` and body of the answer to a request of the administrator.
async fn fetch(server: &ApiServer, request: &str, accept: &str) -> (u16, String, String, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(ADMIN.0, ADMIN.1)
        .header("accept", accept);
    let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
    let response = server.handle(request).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let (code, kind, cache) = (
        response.status(),
        header("content-type"),
        header("cache-control"),
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (
        code.as_u16(),
        kind,
        cache,
        serde_json::from_slice(&body).unwrap(),
    )
}

#[tokio::test]
async fn a_token_is_verified_by_the_published_key() {
    let server = server();
    let token = issue(&server, "robot", json!({})).await;
    let (code, kind, cache, keys) = fetch(&server, &format!("GET {KEYS}"), "*/*").await;
    assert_eq!((code, kind.as_str()), (200, "application/jwk-set+json"));
    assert_eq!(cache, "public, max-age=3600");
    let key = &keys["keys"][0];
    let header = decoded(token.split('.').next().unwrap());
    assert_eq!(header, json!({ "alg": key["alg"], "kid": key["kid"] }));
    let half = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let point = [vec![4], half("x"), half("y")].concat();
    let key = VerifyingKey::from_sec1_bytes(&point).unwrap();
    let (message, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let signature = Signature::from_slice(&signature).unwrap();
    key.verify(message.as_bytes(), &signature).unwrap();

    server.set_external_url("https://api.test:6443");
    let (code, kind, cache, document) = fetch(&server, &format!("GET {DISCOVERY}"), "*/*").await;
    assert_eq!((code, kind.as_str()), (200, "application/json"));
    assert_eq!(cache, "public, max-age=3600");
    let want = json!({
        "issuer": "https://kubernetes.default.svc",
        "jwks_uri": "https://api.test:6443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    assert_eq!(document, want);
    assert_eq!(payload(&token)["iss"], document["issuer"]);
}

#[tokio::test]
async fn discovery_of_the_issuer_is_routed_as_upstream_routes_it() {
    let server = server();
    let not_acceptable =
        "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json";
    let rows = [
        ("GET /openid/v1/jwks/", "*/*", 200, ""),
        ("GET /.well-known/openid-configuration/", "*/*", 200, ""),
        (
            "GET /openid/v1/jwks",
            "application/json",
            406,
            not_acceptable,
        ),
        (
            "POST /openid/v1/jwks",
            "*/*",
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "GET /openid/v1/jwks/x",
            "*/*",
            404,
            "the server could not find the requested resource",
        ),
    ];
    for (request, accept, want, message) in rows {
        let (code, _, _, body) = fetch(&server, request, accept).await;
        let said = body["message"].as_str().unwrap_or_default();
        assert_eq!((code, said), (want, message), "{request}");
    }
    let (_, _, _, root) = fetch(&server, "GET /", "*/*").await;
    let paths = root["paths"].as_array().unwrap();
    assert!(paths.contains(&json!(DISCOVERY)) && paths.contains(&json!(KEYS)));
    // Every service account may read both paths; an anonymous client may not.
    let bearer = format!("Bearer {}", issue(&server, "robot", json!({})).await);
    for path in [DISCOVERY, KEYS] {
        let request = format!("GET {path}");
        let own = [("authorization", bearer.as_str())];
        assert_eq!(send(&server, &request, &own, Value::Null).await.0, 200);
        assert_eq!(send(&server, &request, NOBODY, Value::Null).await.0, 403);
    }
}

#[tokio::test]
async fn what_has_been_tampered_with_is_refused_in_upstream_s_words() {
    let server = server();
    let token = issue(&server, "robot", json!({})).await;
    let parts: Vec<&str> = token.split('.').collect();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut claims = payload(&token);
    claims["sub"] = "system:serviceaccount:kube-system:x".into();
    let changed = encode(claims.clone());
    claims["iss"] = "https://example.com".into();
    let foreign = encode(claims);
    let none = encode(json!({ "alg": "none" }));
    let unknown = encode(json!({ "alg": "ES256", "kid": "x" }));
    let bare = encode(json!({ "alg": "ES256" }));
    let primitive = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]";
    let no_keys = "[invalid bearer token, invalid signature, no keys found]";
    let whose = "system:serviceaccount:default:robot";
    let rows = [
        (token.clone(), whose),
        (format!("{}.{changed}.{}", parts[0], parts[2]), primitive),
        (format!("{}.{}.", parts[0], parts[1]), primitive),
        (format!("{none}.{}.", parts[1]), primitive),
        (format!("{bare}.{}.{}", parts[1], parts[2]), primitive),
        (format!("{unknown}.{}.{}", parts[1], parts[2]), no_keys),
        (
            format!("{}.{foreign}.{}", parts[0], parts[2]),
            "invalid bearer token",
        ),
        (
            format!("x.{}.{}", parts[1], parts[2]),
            "invalid bearer token",
        ),
        (format!("{token}.x"), "invalid bearer token"),
        ("junk".to_owned(), "invalid bearer token"),
    ];
    for (token, want) in rows {
        assert_eq!(review(&server, &token).await, want, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_with_a_seed_issue_the_same_tokens_and_others_share_nothing() {
    let server = |random: bool| {
        let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
        let builder = ApiServer::builder().clock(Clock::simulated(epoch));
        let builder = builder.token(Some("secret".to_owned()));
        if random { builder.random() } else { builder }.build()
    };
    let (one, other) = (server(false), server(false));
    let token = issue(&one, "robot", json!({})).await;
    assert_eq!(issue(&other, "robot", json!({})).await, token);
    assert_eq!(
        issue(&one.fork(), "robot", json!({})).await,
        issue(&one, "robot", json!({})).await
    );

    let (one, other) = (server(true), server(true));
    let tokens = [
        issue(&one, "robot", json!({})).await,
        issue(&other, "robot", json!({})).await,
    ];
    let claims = tokens.each_ref().map(|token| payload(token));
    for path in ["/jti", "/kubernetes.io/serviceaccount/uid"] {
        assert_ne!(claims[0].pointer(path), claims[1].pointer(path), "{path}");
    }
    let bearer = format!("Bearer {}", tokens[0]);
    let own = [("authorization", bearer.as_str())];
    for (server, want) in [(&one, 201), (&one.fork(), 201), (&other, 401)] {
        let (code, _) = send(server, &format!("POST {SELF}"), &own, json!({})).await;
        assert_eq!(code, want);
    }
    let namespace = "GET /api/v1/namespaces/kube-system";
    let (_, first) = send(&one, namespace, &[ADMIN], Value::Null).await;
    let (_, second) = send(&other, namespace, &[ADMIN], Value::Null).await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

#[tokio::test]
async fn given_keys_sign_and_others_verify() {
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let p384 = p384.serialize_pem().into_bytes();
    let p256 = rcgen::KeyPair::generate().unwrap();
    let public = p256.public_key_pem().into_bytes();
    let p256 = p256.serialize_pem().into_bytes();
    let with = |signing: &[u8], verifying: &[Vec<u8>]| {
        let keys = TokenKeys::read(signing, verifying).unwrap();
        let builder = ApiServer::builder().token(Some("secret".to_owned()));
        builder.service_account_keys(keys).build()
    };
    for (signing, algorithm) in [(RSA, "RS256"), (&p384, "ES384"), (&p256, "ES256")] {
        let server = with(signing, &[]);
        let token = issue(&server, "robot", json!({})).await;
        let header = decoded(token.split('.').next().unwrap());
        assert_eq!(header["alg"], algorithm);
        // A server that has never seen the token knows it by the key, and only by the key.
        let same = with(&p256, &[public.clone(), p384.clone(), RSA.to_vec()]);
        let refusal = review(&same, &token).await;
        let missing = "[invalid bearer token, serviceaccounts \"robot\" not found]";
        assert_eq!(refusal, missing);
        let (_, _, _, keys) = fetch(&same, &format!("GET {KEYS}"), "*/*").await;
        let names: Vec<_> = keys["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| &key["alg"])
            .collect();
        assert_eq!(names, ["ES256", "ES384", "RS256"]);
        let stranger = with(&p256, &[]);
        if algorithm != "ES256" {
            let refusal = review(&stranger, &token).await;
            assert_eq!(
                refusal,
                "[invalid bearer token, invalid signature, no keys found]"
            );
        }
    }
    let ed25519 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let refused = TokenKeys::read(ed25519.serialize_pem().as_bytes(), &[]);
    assert_eq!(refused.unwrap_err(), TokenKeyError::Unsupported);
    assert_eq!(
        TokenKeys::read(b"x", &[]).unwrap_err(),
        TokenKeyError::Missing("private")
    );
    let refused = TokenKeys::read(RSA, &[b"x".to_vec()]);
    assert_eq!(refused.unwrap_err(), TokenKeyError::Missing("public"));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_a_minute_after_its_time() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    let server = builder.token(Some("secret".to_owned())).build();
    let token = issue(&server, "robot", json!({ "expirationSeconds": 600 })).await;
    tokio::time::advance(Duration::from_secs(660)).await;
    assert_eq!(
        review(&server, &token).await,
        "system:serviceaccount:default:robot"
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    let expired = "[invalid bearer token, service account token has expired]";
    assert_eq!(review(&server, &token).await, expired);
    let bearer = format!("Bearer {token}");
    let own = [("authorization", bearer.as_str())];
    assert_eq!(
        send(&server, &format!("GET {CONFIGMAPS}"), &own, Value::Null)
            .await
            .0,
        401
    );
}

#[tokio::test]
async fn a_token_of_a_pod_names_its_node_and_may_outlive_its_time() {
    let server = server();
    issue(&server, "robot", json!({})).await;
    let node = json!({ "metadata": { "name": "n1" } });
    let (_, node) = send(&server, "POST /api/v1/nodes", &[ADMIN], node).await;
    for (pod, host) in [("p", "n1"), ("q", "gone")] {
        let pod = json!({ "metadata": { "name": pod }, "spec": {
            "serviceAccountName": "robot", "nodeName": host,
            "containers": [{ "name": "c", "image": "i" }],
        } });
        let (code, answer) = send(
            &server,
            "POST /api/v1/namespaces/default/pods",
            &[ADMIN],
            pod,
        )
        .await;
        assert_eq!(code, 201, "{answer}");
    }
    let bound = |pod: &str, seconds: i64| {
        json!({
            "expirationSeconds": seconds,
            "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": pod },
        })
    };
    let claims = payload(&issue(&server, "robot", bound("p", 3600)).await);
    let want = json!({ "name": "n1", "uid": node["metadata"]["uid"] });
    assert_eq!(claims["kubernetes.io"]["node"], want);
    let token = issue(&server, "robot", bound("q", 3600)).await;
    assert_eq!(
        payload(&token)["kubernetes.io"]["node"],
        json!({ "name": "gone" })
    );
    let bearer = format!("Bearer {token}");
    let own = [("authorization", bearer.as_str())];
    let (_, review) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
    let extra = &review["status"]["userInfo"]["extra"];
    assert_eq!(
        extra["authentication.kubernetes.io/node-name"],
        json!(["gone"])
    );
    assert_eq!(extra["authentication.kubernetes.io/node-uid"], Value::Null);
    // 3607 seconds are what kubelets ask for.
    for (seconds, lifetime, warning) in [(3607, 31_536_000, Some(3607)), (3606, 3606, None)] {
        let claims = payload(&issue(&server, "robot", bound("p", seconds)).await);
        let second = |claim: &Value| claim.as_i64();
        let issued = second(&claims["iat"]).unwrap();
        assert_eq!(second(&claims["exp"]), Some(issued + lifetime));
        let warn = second(&claims["kubernetes.io"]["warnafter"]);
        assert_eq!(warn, warning.map(|warning| issued + warning));
    }
}

#[tokio::test(start_paused = true)]
async fn uses_of_a_projected_token_are_counted_as_valid_and_later_as_stale() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    let server = builder.token(Some("secret".to_owned())).build();
    let pod = json!({ "metadata": { "name": "p" },
        "spec": { "nodeName": "n", "serviceAccountName": "robot",
            "containers": [{ "name": "c", "image": "i" }] } });
    let pods = "POST /api/v1/namespaces/default/pods";
    assert_eq!(send(&server, pods, &[ADMIN], pod).await.0, 201);
    let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
    let spec = json!({ "expirationSeconds": 3607, "boundObjectRef": bound });
    let bearer = format!("Bearer {}", issue(&server, "robot", spec).await);
    let used = async || {
        let own = [("authorization", bearer.as_str())];
        let (code, _) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
        assert_eq!(code, 201);
        let request = Request::get("/metrics").header(ADMIN.0, ADMIN.1);
        let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        let body = server.handle(request).await.into_body();
        let text = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        ["valid", "stale"].map(|kind| {
            let start = format!("serviceaccount_{kind}_tokens_total ");
            let mut lines = text.lines();
            let count = lines.find_map(|line| line.strip_prefix(&start));
            count.unwrap().parse::<u32>().unwrap()
        })
    };
    assert_eq!(used().await, [1, 0]);
    tokio::time::advance(Duration::from_secs(3_608)).await;
    assert_eq!(used().await, [1, 1]);
}

#[tokio::test]
async fn a_request_for_a_token_may_name_the_uid_that_the_account_has() {
    let server = server();
    let uid = payload(&issue(&server, "robot", json!({})).await);
    let uid = uid.pointer("/kubernetes.io/serviceaccount/uid").unwrap();
    let request = format!("POST {ACCOUNTS}/robot/token");
    let own = json!({ "metadata": { "uid": uid }, "spec": {} });
    assert_eq!(send(&server, &request, &[ADMIN], own).await.0, 201);
    let other = json!({ "metadata": { "uid": "x" }, "spec": {} });
    let (code, status) = send(&server, &request, &[ADMIN], other).await;
    let want = format!(
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the UID in the \
         token request (x) does not match the UID of the service account ({})",
        uid.as_str().unwrap()
    );
    assert_eq!((code, status["message"].as_str()), (409, Some(&*want)));
}
