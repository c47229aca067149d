//! Impersonation: headers of any bytes, and the modes that permit one.

use http::HeaderValue;
use kubeproof_apiserver::json::{Value, json};

use super::{ADMIN, ApiServer, SELF, send, server};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Grants rules to the user `proxy`, who impersonates others by its service account's token.
async fn grant(server: &ApiServer, rules: Value) -> String {
    let role = json!({ "metadata": { "name": "proxy" }, "rules": rules });
    let request = format!("POST {RBAC}/clusterroles");
    assert_eq!(send(server, &request, &[ADMIN], role).await.0, 201);
    let binding = json!({
        "metadata": { "name": "proxy" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "proxy" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "proxy" }],
    });
    let request = format!("POST {RBAC}/clusterrolebindings");
    assert_eq!(send(server, &request, &[ADMIN], binding).await.0, 201);
    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({ "metadata": { "name": "proxy" } });
    send(server, &format!("POST {ACCOUNTS}"), &[ADMIN], account).await;
    let request = format!("POST {ACCOUNTS}/proxy/token");
    let (_, issued) = send(server, &request, &[ADMIN], json!({})).await;
    format!("Bearer {}", issued["status"]["token"].as_str().unwrap())
}

/// The message of the answer to `GET path`, or its kind.
async fn ask(server: &ApiServer, bearer: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut all = vec![("authorization", bearer)];
    all.extend(headers);
    let (_, body) = send(server, &format!("GET {path}"), &all, Value::Null).await;
    let text = body["message"].as_str().or(body["kind"].as_str());
    text.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_name_of_any_bytes_is_another_user() {
    let server = server();
    let rows: [(&[u8], &str); 4] = [
        ("jörg".as_bytes(), "jörg"),
        (b"j\xf6rg", "j\u{fffd}rg"),
        (b"\xff", "\u{fffd}"),
        (b"<a&b>", "&lt;a&amp;b&gt;"),
    ];
    for (bytes, shown) in rows {
        let headers = [
            ("authorization", HeaderValue::from_static(ADMIN.1)),
            ("impersonate-user", HeaderValue::from_bytes(bytes).unwrap()),
        ];
        let request = "GET /api/v1/secrets";
        let (code, status) = send(&server, request, &headers, Value::Null).await;
        let want = format!(
            "secrets is forbidden: User \"{shown}\" cannot list resource \"secrets\" in API group \
             \"\" at the cluster scope"
        );
        assert_eq!((code, status["message"].as_str()), (403, Some(&*want)));
    }
    // A group, uid or extra alone names no user, whatever its bytes are.
    for name in [
        "impersonate-group",
        "impersonate-uid",
        "impersonate-extra-a",
    ] {
        let headers = [
            ("authorization", HeaderValue::from_static(ADMIN.1)),
            (name, HeaderValue::from_bytes(b"\xf6").unwrap()),
        ];
        let (code, _) = send(&server, "GET /api", &headers, Value::Null).await;
        assert_eq!(code, 400, "{name}");
    }
    let headers = [(
        "authorization",
        HeaderValue::from_bytes(b"Bearer t\xf6k").unwrap(),
    )];
    let (code, _) = send(&server, "GET /api", &headers, Value::Null).await;
    assert_eq!(code, 401);
}

#[tokio::test]
async fn who_may_impersonate_nobody_is_refused_by_the_first_mode_that_applies() {
    let server = server();
    let bearer = grant(&server, json!([])).await;
    let rows = [
        ("jane", "user-info"),
        ("system:serviceaccount:default:proxy", "serviceaccount"),
        ("system:serviceaccount:default:a:b", "user-info"),
        ("system:node:n1", "arbitrary-node"),
        ("system:node:N_1", "user-info"),
    ];
    for (user, mode) in rows {
        let headers = [("impersonate-user", user)];
        assert_eq!(
            ask(&server, &bearer, "/api/v1/pods", &headers).await,
            format!(
                "pods is forbidden: User \"system:serviceaccount:default:proxy\" cannot \
                 impersonate-on:{mode}:list resource \"pods\" in API group \"\" at the cluster scope"
            ),
        );
    }
    let headers = [("impersonate-user", "jane")];
    assert_eq!(
        ask(&server, &bearer, "/metrics", &headers).await,
        "forbidden: User \"system:serviceaccount:default:proxy\" cannot \
         impersonate-on:user-info:get path \"/metrics\""
    );
}

#[tokio::test]
async fn the_mode_that_last_succeeded_words_the_refusal() {
    let server = server();
    let rules = json!([{
        "apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate"],
    }]);
    let bearer = grant(&server, rules).await;
    let joe = [("impersonate-user", "joe")];
    let refused = ask(&server, &bearer, "/api", &joe).await;
    assert!(
        refused.contains("impersonate-on:user-info:get"),
        "{refused}"
    );
    let jane = [("impersonate-user", "jane")];
    assert_eq!(ask(&server, &bearer, "/api", &jane).await, "APIVersions");
    assert_eq!(
        ask(&server, &bearer, "/api", &joe).await,
        "users \"joe\" is forbidden: User \"system:serviceaccount:default:proxy\" cannot impersonate \
         resource \"users\" in API group \"\" at the cluster scope"
    );
}

/// A resource to list, the headers of the request, and a part of the answer.
type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], &'r str);

#[tokio::test]
async fn a_constrained_mode_needs_the_user_and_the_request_to_be_granted() {
    let server = server();
    let rules = json!([
        { "apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups", "userextras/a.io/b"],
          "verbs": ["impersonate:user-info"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["impersonate-on:user-info:list"] },
        { "nonResourceURLs": ["/api"], "verbs": ["impersonate-on:user-info:get"] },
    ]);
    let bearer = grant(&server, rules).await;
    let user = ("impersonate-user", "joe");
    assert_eq!(ask(&server, &bearer, "/api", &[user]).await, "APIVersions");
    let as_joe = "configmaps is forbidden: User \"joe\" cannot list";
    let extra = "impersonate-extra-a.io%2Fb";
    let rows: [Row<'_>; 7] = [
        ("configmaps", &[user], as_joe),
        (
            "configmaps",
            &[user, ("impersonate-group", "g"), (extra, "x")],
            as_joe,
        ),
        (
            "secrets",
            &[user],
            "cannot impersonate-on:user-info:list resource \"secrets\"",
        ),
        (
            "configmaps",
            &[user, ("impersonate-group", "system:masters")],
            "at the cluster scope: impersonating the system:masters group is not allowed",
        ),
        (
            "configmaps",
            &[user, ("impersonate-group", "")],
            "at the cluster scope: impersonating the empty string group is not allowed",
        ),
        (
            "configmaps",
            &[user, ("impersonate-extra-a.io%2Fb%4", "x")],
            "key in extra is not allowed: extra.key: Invalid value: \"a.io%2fb%4\": must be a \
             domain-prefixed path (such as \"acme.io/foo\")",
        ),
        (
            "configmaps",
            &[user, ("impersonate-extra-a.io%2F%41", "x")],
            "impersonating a non-lowercase key in extra is not allowed: \"a.io/A\"",
        ),
    ];
    for (resource, headers, want) in rows {
        let path = format!("/api/v1/{resource}");
        let message = ask(&server, &bearer, &path, headers).await;
        assert!(message.contains(want), "{message}");
    }
}

#[tokio::test]
async fn nodes_and_accounts_have_modes_and_groups_of_their_own() {
    let server = server();
    let rules = json!([
        { "apiGroups": ["authentication.k8s.io"], "resources": ["nodes", "serviceaccounts"],
          "verbs": ["impersonate:arbitrary-node", "impersonate:serviceaccount"] },
        { "apiGroups": ["*"], "resources": ["*"],
          "verbs": ["impersonate-on:arbitrary-node:create", "impersonate-on:serviceaccount:create"] },
    ]);
    let bearer = grant(&server, rules).await;
    let rows = [
        (
            "system:node:n1",
            json!(["system:nodes", "system:authenticated"]),
        ),
        (
            "system:serviceaccount:ns:a",
            json!([
                "system:serviceaccounts",
                "system:serviceaccounts:ns",
                "system:authenticated"
            ]),
        ),
    ];
    for (user, groups) in rows {
        let headers = [
            ("authorization", bearer.as_str()),
            ("impersonate-user", user),
        ];
        let (_, review) = send(&server, &format!("POST {SELF}"), &headers, json!({})).await;
        let want = json!({ "username": user, "groups": groups });
        assert_eq!(review["status"]["userInfo"], want, "{review}");
        // The mode is for the bare name; with a group the legacy one alone is left.
        let headers = [headers[0], headers[1], ("impersonate-group", "g")];
        let (code, _) = send(&server, &format!("POST {SELF}"), &headers, json!({})).await;
        assert_eq!(code, 403);
    }
}
