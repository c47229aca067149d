//! Nobody grants what they do not have.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::{send, send_as};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server on which `eve` may write all of RBAC but has little else.
async fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    let rules = json!([
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"],
          "verbs": ["get", "create", "update", "patch"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] },
    ]);
    let role = json!({ "metadata": { "name": "writer" }, "rules": rules });
    send(&server, &format!("POST {RBAC}/clusterroles"), role).await;
    let binding = json!({
        "metadata": { "name": "eve" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve" }],
    });
    send(
        &server,
        &format!("POST {RBAC}/clusterrolebindings"),
        binding,
    )
    .await;
    server
}

fn role(rules: Value) -> Value {
    json!({ "metadata": { "name": "r" }, "rules": rules })
}

#[tokio::test]
async fn a_role_grants_no_more_than_its_writer_has() {
    let server = server().await;
    let roles = format!("POST {RBAC}/namespaces/default/roles");
    let rules = json!([
        { "apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"] },
    ]);
    let refused = send_as(&server, "eve", &roles, role(rules)).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"eve\" \
         (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
         held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}"
    );
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let created = send_as(&server, "eve", &roles, role(rules)).await;
    assert_eq!((created.code, created.warnings.len()), (201, 0));
}

#[tokio::test]
async fn a_binding_grants_no_more_than_its_writer_has() {
    let server = server().await;
    let bindings = format!("POST {RBAC}/namespaces/default/rolebindings");
    let binding = |role: &str| {
        json!({
            "metadata": { "name": "b" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        })
    };
    let refused = send_as(&server, "eve", &bindings, binding("cluster-admin")).await;
    assert_eq!(refused.code, 403);
    assert!(
        refused
            .message()
            .contains("{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}"),
        "{}",
        refused.message()
    );
    let refused = send_as(&server, "eve", &bindings, binding("none")).await;
    assert_eq!(
        refused.message(),
        "rolebindings.rbac.authorization.k8s.io \"none\" not found"
    );
    let clusters = format!("POST {RBAC}/clusterrolebindings");
    let refused = send_as(&server, "eve", &clusters, binding("none")).await;
    assert_eq!(
        refused.message(),
        "clusterrolebindings.rbac.authorization.k8s.io \"none\" not found"
    );
    let mut to_role = binding("none");
    to_role["roleRef"]["kind"] = "Role".into();
    let refused = send_as(&server, "eve", &clusters, to_role).await;
    assert_eq!(
        (refused.code, refused.message()),
        (400, "Namespace parameter required.")
    );
    assert_eq!(
        send_as(&server, "eve", &bindings, binding("writer"))
            .await
            .code,
        201
    );
}

#[tokio::test]
async fn who_writes_a_role_needs_all_that_it_grants_but_to_let_it_go() {
    let server = server().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
    let created = send(&server, &format!("POST {roles}"), role(rules.clone())).await;
    let replace = |metadata: Value| {
        let mut replacement = created.body.clone();
        for (field, value) in metadata.as_object().unwrap() {
            replacement["metadata"][field] = value.clone();
        }
        replacement
    };
    let put = format!("PUT {roles}/r");
    let labelled = replace(json!({ "labels": { "a": "b" } }));
    assert_eq!(send_as(&server, "eve", &put, labelled).await.code, 403);
    let held = replace(json!({ "finalizers": ["example.com/f"] }));
    assert_eq!(send_as(&server, "eve", &put, held).await.code, 200);
    let bindings = format!("POST {RBAC}/namespaces/default/rolebindings");
    let odd = json!({
        "metadata": { "name": "b" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Zap", "name": "r" },
    });
    let refused = send_as(&server, "eve", &bindings, odd).await;
    assert_eq!(
        (refused.code, refused.message()),
        (500, "unsupported role reference kind: \"Zap\"")
    );
}

#[tokio::test]
async fn the_right_to_escalate_one_role_is_not_one_to_create_it() {
    let server = server().await;
    let rules = json!([{
        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "clusterroles"],
        "resourceNames": ["r"], "verbs": ["escalate"],
    }]);
    let escalate = json!({ "metadata": { "name": "escalate" }, "rules": rules });
    send(&server, &format!("POST {RBAC}/clusterroles"), escalate).await;
    let binding = json!({
        "metadata": { "name": "escalate" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "escalate" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve" }],
    });
    send(
        &server,
        &format!("POST {RBAC}/clusterrolebindings"),
        binding,
    )
    .await;
    let all = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    for roles in [
        format!("{RBAC}/clusterroles"),
        format!("{RBAC}/namespaces/default/roles"),
    ] {
        let created = send_as(&server, "eve", &format!("POST {roles}"), role(all.clone())).await;
        assert_eq!(created.code, 403, "{roles}");
        let put = send_as(&server, "eve", &format!("PUT {roles}/r"), role(all.clone())).await;
        assert_eq!(put.code, 201, "{roles}: {}", put.message());
    }
}

#[tokio::test]
async fn a_refusal_names_roles_that_are_bound_and_missing() {
    let server = server().await;
    let binding = json!({
        "metadata": { "name": "gone" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gone" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve" }],
    });
    send(
        &server,
        &format!("POST {RBAC}/clusterrolebindings"),
        binding,
    )
    .await;
    let refused = send_as(&server, "eve", "GET /api/v1/secrets", Value::Null).await;
    let missing = ": RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found";
    assert!(
        refused.message().ends_with(missing),
        "{}",
        refused.message()
    );
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
    let refused = send_as(
        &server,
        "eve",
        &format!("POST {RBAC}/clusterroles"),
        role(rules),
    )
    .await;
    let unresolved =
        "; resolution errors: [clusterroles.rbac.authorization.k8s.io \"gone\" not found]";
    assert!(
        refused.message().ends_with(unresolved),
        "{}",
        refused.message()
    );
}
