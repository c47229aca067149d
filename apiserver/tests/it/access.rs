//! Authentication and authorization at the wire: tokens, impersonation, roles and reviews.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authenticators;
mod impersonation;
mod keys;
mod modes;
mod node;
mod tokens;
mod webhooks;

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Authorization};

use crate::support::requests::{answer, respond};

/// The headers of a request without credentials.
const NOBODY: &[(&str, &str)] = &[];
const ADMIN: (&str, &str) = ("authorization", "Bearer secret");
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn server() -> ApiServer {
    let token = Some("secret".to_owned());
    ApiServer::builder().token(token).build()
}

/// Sends `METHOD PATH` with headers and answers the code and the body.
async fn send(
    server: &ApiServer,
    request: &str,
    headers: &[(&str, impl AsRef<[u8]>)],
    body: Value,
) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let answer = answer(respond(server, request, headers, body).await).await;
    (answer.code, answer.body)
}

#[tokio::test]
async fn credentials_decide_between_a_user_nobody_and_a_refusal() {
    let server = server();
    let rows: &[(&str, &str, u16)] = &[
        (CONFIGMAPS, "Bearer secret", 200),
        (CONFIGMAPS, "bearer secret", 200),
        (CONFIGMAPS, "Bearer wrong", 401),
        ("/readyz", "Bearer wrong", 401),
        ("/readyz", "", 200),
        ("/version", "", 200),
        ("/apis", "", 403),
        (CONFIGMAPS, "", 403),
        (CONFIGMAPS, "Basic YTpi", 403),
        (CONFIGMAPS, "Bearer", 403),
    ];
    for (path, credentials, want) in rows {
        let request = format!("GET {path}");
        let headers = [("authorization", *credentials)];
        let (code, _) = send(&server, &request, &headers, Value::Null).await;
        assert_eq!(code, *want, "{path} with {credentials:?}");
    }
}

#[tokio::test]
async fn without_a_token_of_its_own_a_server_refuses_one_that_it_does_not_know() {
    let server = ApiServer::builder().build();
    let robot = json!({"metadata": {"name": "robot"}});
    send(&server, &format!("POST {ACCOUNTS}"), NOBODY, robot).await;
    let request = format!("POST {ACCOUNTS}/robot/token");
    let (_, issued) = send(&server, &request, NOBODY, json!({})).await;
    let bearer = format!("Bearer {}", issued["status"]["token"].as_str().unwrap());
    let own = [("authorization", bearer.as_str())];
    let secrets = "GET /api/v1/secrets";
    assert_eq!(send(&server, secrets, &own, Value::Null).await.0, 403);
    let request = format!("DELETE {ACCOUNTS}/robot");
    assert_eq!(send(&server, &request, NOBODY, Value::Null).await.0, 200);
    assert_eq!(send(&server, secrets, &own, Value::Null).await.0, 401);
    assert_eq!(send(&server, secrets, NOBODY, Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_path_that_no_route_has_is_still_authorized_as_upstream_reads_it() {
    let server = server();
    let rows = [
        (
            "/api/v1//secrets",
            "forbidden: User \"jane\" cannot get resource \"\"",
        ),
        (
            "/apis/apps/v1//x",
            ".apps \"x\" is forbidden: User \"jane\" cannot get resource \"\"",
        ),
        (
            "/api/v1/proxy/namespaces/ns/services/s/y",
            "services \"s\" is forbidden: User \"jane\" cannot proxy resource \"services\" in API \
             group \"\" in the namespace \"ns\"",
        ),
    ];
    for (path, want) in rows {
        let request = format!("GET {path}");
        let jane = [ADMIN, ("impersonate-user", "jane")];
        let (code, status) = send(&server, &request, &jane, Value::Null).await;
        let message = status["message"].as_str().unwrap();
        assert_eq!((code, message.starts_with(want)), (403, true), "{message}");
        let (code, _) = send(&server, &request, &[ADMIN], Value::Null).await;
        assert_eq!(code, 404, "{path}");
    }
}

#[tokio::test]
async fn a_connection_by_get_needs_the_right_to_create_it() {
    let server = server();
    let names = ["exec", "attach", "portforward"].map(|name| format!("pods/{name}"));
    let role = json!({"metadata": {"name": "getter"}, "rules": [
        {"apiGroups": [""], "resources": names, "verbs": ["get"]},
    ]});
    send(&server, &format!("POST {RBAC}/roles"), &[ADMIN], role).await;
    for role in ["getter", "gone"] {
        let binding = json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
        });
        let request = format!("POST {RBAC}/rolebindings");
        assert_eq!(send(&server, &request, &[ADMIN], binding).await.0, 201);
    }
    for name in ["exec", "attach", "portforward"] {
        let request = format!("GET /api/v1/namespaces/default/pods/p/{name}?stdout=1&command=ls");
        let jane = [ADMIN, ("impersonate-user", "jane")];
        let (code, status) = send(&server, &request, &jane, Value::Null).await;
        assert_eq!(code, 403);
        assert_eq!(
            status["message"],
            "pods \"p\" is forbidden: RBAC: role.rbac.authorization.k8s.io \"gone\" not found"
        );
        let (code, _) = send(&server, &request, &[ADMIN], Value::Null).await;
        assert_eq!(
            code, 404,
            "the administrator is asked for a pod that exists"
        );
    }
}

#[tokio::test]
async fn the_administrator_s_rules_are_listed_once() {
    let server = server();
    let request = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let question = json!({"spec": {"namespace": "default"}});
    let (_, review) = send(&server, request, &[ADMIN], question).await;
    let rules = review["status"]["resourceRules"].as_array().unwrap();
    let all = rules
        .iter()
        .filter(|rule| rule["resources"] == json!(["*"]));
    assert_eq!(all.count(), 1, "{rules:?}");
}

#[tokio::test]
async fn an_impersonated_user_may_do_what_roles_grant() {
    let server = server();
    let role = json!({"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["own"], "verbs": ["get"]},
    ]});
    let (code, _) = send(&server, &format!("POST {RBAC}/roles"), &[ADMIN], role).await;
    assert_eq!(code, 201);
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    let (code, _) = send(
        &server,
        &format!("POST {RBAC}/rolebindings"),
        &[ADMIN],
        binding,
    )
    .await;
    assert_eq!(code, 201);
    let rows: &[(&str, &str, u16)] = &[
        ("jane", "GET /api/v1/namespaces/default/configmaps", 200),
        (
            "jane",
            "GET /api/v1/namespaces/default/configmaps?watch=1",
            403,
        ),
        (
            "jane",
            "DELETE /api/v1/namespaces/default/configmaps/a",
            403,
        ),
        ("jane", "GET /api/v1/namespaces/kube-system/configmaps", 403),
        ("jane", "GET /api/v1/configmaps", 403),
        ("jane", "GET /api/v1/namespaces/default/secrets/own", 404),
        ("jane", "GET /api/v1/namespaces/default/secrets/other", 403),
        (
            "jane",
            "GET /apis/apps/v1/namespaces/default/deployments/d",
            403,
        ),
        (
            "jane",
            "GET /apis/apps/v1/namespaces/default/deployments/d/scale",
            404,
        ),
        ("jane", "GET /apis", 200),
        ("joe", "GET /api/v1/namespaces/default/configmaps", 403),
    ];
    for (user, request, want) in rows {
        let headers = [ADMIN, ("impersonate-user", *user)];
        let (code, status) = send(&server, request, &headers, Value::Null).await;
        assert_eq!(code, *want, "{user}: {request}: {}", status["message"]);
    }
}

#[tokio::test]
async fn a_service_account_token_is_good_until_its_account_is_gone() {
    let server = server();
    let robot = json!({"metadata": {"name": "robot"}});
    let (_, account) = send(&server, &format!("POST {ACCOUNTS}"), &[ADMIN], robot).await;
    let request = format!("POST {ACCOUNTS}/robot/token");
    let (code, issued) = send(&server, &request, &[ADMIN], json!({})).await;
    assert_eq!(code, 201);
    let token = issued["status"]["token"].as_str().unwrap();
    assert_eq!(token.split('.').count(), 3, "the form of a JWT");
    let bearer = format!("Bearer {token}");
    let own = [("authorization", bearer.as_str())];
    let (_, review) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
    let info = &review["status"]["userInfo"];
    assert_eq!(info["username"], "system:serviceaccount:default:robot");
    assert_eq!(info["uid"], account["metadata"]["uid"]);
    let (code, status) = send(&server, &format!("GET {CONFIGMAPS}"), &own, Value::Null).await;
    assert_eq!(code, 403, "{}", status["message"]);
    let headers = [own[0], ("impersonate-user", "jane")];
    let (code, status) = send(&server, "GET /apis", &headers, Value::Null).await;
    assert_eq!(code, 403, "{}", status["message"]);
    let request = format!("DELETE {ACCOUNTS}/robot");
    send(&server, &request, &[ADMIN], Value::Null).await;
    let (code, _) = send(&server, &format!("POST {SELF}"), &own, json!({})).await;
    assert_eq!(code, 401);
}

#[tokio::test]
async fn a_fresh_server_holds_the_roles_of_a_cluster() {
    let server = server();
    const CLUSTER: &str = "/apis/rbac.authorization.k8s.io/v1";
    let (code, roles) = send(
        &server,
        &format!("GET {CLUSTER}/clusterroles"),
        &[ADMIN],
        Value::Null,
    )
    .await;
    assert_eq!((code, roles["items"].as_array().unwrap().len()), (200, 70));
    let (_, admin) = send(
        &server,
        &format!("GET {CLUSTER}/clusterroles/cluster-admin"),
        &[ADMIN],
        Value::Null,
    )
    .await;
    assert_eq!(admin["rules"][0]["verbs"], json!(["*"]));
    assert_eq!(
        admin["metadata"]["managedFields"][0]["manager"],
        "kube-apiserver"
    );
    let scheduler = [ADMIN, ("impersonate-user", "system:kube-scheduler")];
    let (code, _) = send(&server, "GET /api/v1/pods", &scheduler, Value::Null).await;
    assert_eq!(code, 200);
    let (code, refusal) = send(&server, "GET /api/v1/secrets", &scheduler, Value::Null).await;
    assert_eq!(code, 403, "{refusal}");
    let path = format!("DELETE {CLUSTER}/clusterrolebindings/system:kube-scheduler");
    let (code, _) = send(&server, &path, &[ADMIN], Value::Null).await;
    assert_eq!(code, 200);
    let (code, _) = send(&server, "GET /api/v1/pods", &scheduler, Value::Null).await;
    assert_eq!(code, 403);
}

#[tokio::test]
async fn under_always_allow_nobody_is_refused() {
    let server = ApiServer::builder()
        .token(Some("secret".to_owned()))
        .authorization(Authorization::AlwaysAllow)
        .build();
    let (code, _) = send(&server, &format!("GET {CONFIGMAPS}"), NOBODY, Value::Null).await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn components_are_healthy_once_they_are_said_to_run() {
    let server = server();
    server.set_component_running("scheduler");
    let path = "GET /api/v1/componentstatuses";
    let (_, list) = send(&server, path, &[ADMIN], Value::Null).await;
    let items = list["items"].as_array().unwrap().iter();
    let statuses: Vec<_> = items
        .map(|item| (&item["metadata"]["name"], &item["conditions"][0]["status"]))
        .collect();
    let (yes, no) = (json!("True"), json!("False"));
    let names = ["controller-manager", "etcd-0", "scheduler"].map(|name| json!(name));
    assert_eq!(
        statuses,
        [(&names[0], &no), (&names[1], &yes), (&names[2], &yes)]
    );
}

#[tokio::test]
async fn a_question_about_access_has_no_name_and_whole_selectors() {
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1";
    let server = server();
    let asked = |more: Value| {
        let mut attributes = json!({ "verb": "get", "resource": "pods", "namespace": "default" });
        let fields = more.as_object().into_iter().flatten();
        for (field, value) in fields {
            attributes[field] = value.clone();
        }
        json!({ "user": "u", "resourceAttributes": attributes })
    };
    let path = "spec.resourceAttributes";
    let rows = [
        (
            "subjectaccessreviews",
            json!({ "metadata": { "name": "x" }, "spec": asked(json!({})) }),
            "metadata: Invalid value: {\"name\":\"x\",\"managedFields\":[".to_owned(),
            ": must be empty",
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({ "metadata": { "labels": { "a": "b" } }, "spec": asked(json!({})) }),
            "metadata: Invalid value: {\"namespace\":\"default\",\"labels\":{\"a\":\"b\"}"
                .to_owned(),
            ": must be empty except for namespace",
        ),
        (
            "selfsubjectaccessreviews",
            json!({ "spec": asked(json!({ "fieldSelector": {} })) }),
            format!("{path}.fieldSelector.requirements: Required value: "),
            "when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
        ),
        (
            "subjectaccessreviews",
            json!({ "spec": asked(json!({ "labelSelector": {
                "rawSelector": "a=b", "requirements": [{ "key": "", "operator": "In" }],
            } })) }),
            format!("[{path}.labelSelector.rawSelector: Invalid value: \"a=b\": may not"),
            "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]",
        ),
    ];
    for (resource, body, start, end) in rows {
        let request = format!("POST {REVIEWS}/{resource}");
        let (code, status) = send(&server, &request, &[ADMIN], body).await;
        let message = status["message"].as_str().unwrap_or_default();
        let rest = message.strip_prefix(".authorization.k8s.io \"\" is invalid: ");
        assert_eq!(code, 422, "{status}");
        assert!(
            rest.is_some_and(|rest| rest.starts_with(&start)),
            "{message}"
        );
        assert!(message.ends_with(end), "{message}");
    }
    // One that is of the cluster has no namespace, whatever it says.
    let body = json!({ "metadata": { "namespace": "n" }, "spec": asked(json!({})) });
    let request = format!("POST {REVIEWS}/selfsubjectaccessreviews");
    let (code, answer) = send(&server, &request, &[ADMIN], body).await;
    assert_eq!(
        (code, &answer["metadata"]["namespace"]),
        (201, &Value::Null)
    );
}
