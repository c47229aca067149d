//! Authorization modes, one after the other.

use kubeproof_apiserver::Authorization;
use kubeproof_apiserver::json::{Value, json};

use super::{ADMIN, ApiServer, CONFIGMAPS, send};

fn server(modes: &[Authorization]) -> ApiServer {
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    builder.authorization_modes(modes.to_vec()).build()
}

const JANE: &[(&str, &str)] = &[ADMIN, ("impersonate-user", "jane")];

#[tokio::test]
async fn the_first_mode_with_an_opinion_decides_and_masters_need_none() {
    use Authorization::{AlwaysAllow, AlwaysDeny, Rbac};
    let refusal = "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API \
                   group \"\" in the namespace \"default\"";
    let everything = format!("{refusal}: Everything is forbidden.");
    let rows: &[(&[Authorization], &str)] = &[
        (&[AlwaysAllow], ""),
        (&[Rbac, AlwaysAllow], ""),
        (&[AlwaysDeny, AlwaysAllow], ""),
        (&[Rbac], refusal),
        (&[AlwaysDeny], &everything),
        (&[Rbac, AlwaysDeny], &everything),
        (&[], refusal),
    ];
    for (modes, message) in rows {
        let server = server(modes);
        let list = format!("GET {CONFIGMAPS}");
        assert_eq!(send(&server, &list, &[ADMIN], Value::Null).await.0, 200);
        let (code, answer) = send(&server, &list, JANE, Value::Null).await;
        match *message {
            "" => assert_eq!(code, 200),
            message => assert_eq!((code, &answer["message"]), (403, &json!(message))),
        }
    }
}

#[tokio::test]
async fn the_reasons_of_all_modes_are_listed_line_by_line() {
    let server = server(&[Authorization::Rbac, Authorization::AlwaysDeny]);
    let binding = json!({
        "metadata": { "name": "b" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gone" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane" }],
    });
    let bindings = "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(send(&server, bindings, &[ADMIN], binding).await.0, 201);
    let missing = "clusterrole.rbac.authorization.k8s.io \"gone\" not found";
    let reason = format!("RBAC: {missing}\nEverything is forbidden.");
    let review = json!({ "spec": {
        "user": "jane",
        "resourceAttributes": { "verb": "get", "resource": "pods", "namespace": "default" },
    } });
    let reviews = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";
    let (_, answer) = send(&server, reviews, &[ADMIN], review).await;
    assert_eq!(
        answer["status"],
        json!({ "allowed": false, "reason": reason })
    );
}

#[tokio::test]
async fn the_flag_shows_the_modes_and_decisions_are_counted_by_mode() {
    let server = server(&[Authorization::Node, Authorization::Rbac]);
    let text = async |path: &str| {
        let headers = [ADMIN, ("accept", "text/plain")];
        let response = super::respond(&server, path, &headers, "").await;
        let (_, body) = crate::support::requests::read(response).await;
        String::from_utf8(body.to_vec()).unwrap()
    };
    let flags = text("GET /flagz").await;
    assert!(flags.contains("authorization-mode: [Node,RBAC]"), "{flags}");
    let kubelet = [
        ADMIN,
        ("impersonate-user", "system:node:n"),
        ("impersonate-group", "system:nodes"),
    ];
    assert_eq!(
        send(&server, "GET /api/v1/services", &kubelet, Value::Null)
            .await
            .0,
        200
    );
    let metrics = text("GET /metrics").await;
    let decided = "apiserver_authorization_decisions_total{decision=\"allowed\",name=\"node\",type=\"Node\"} 1";
    assert!(metrics.contains(decided), "{metrics}");
}

#[tokio::test]
async fn a_review_reports_which_selectors_do_not_count() {
    let server = server(&[Authorization::Rbac]);
    let reviews = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";
    let term = |operator: &str, values: &[&str]| json!({ "key": "k", "operator": operator, "values": values });
    let field = "spec.resourceAttributes.fieldSelector";
    let label = "spec.resourceAttributes.labelSelector";
    let rows = [
        (
            "fieldSelector",
            json!({ "rawSelector": "a=b" }),
            String::new(),
        ),
        (
            "fieldSelector",
            json!({ "rawSelector": "a" }),
            format!("{field} ignored due to parse error"),
        ),
        (
            "fieldSelector",
            json!({ "requirements": [term("In", &["x"]), term("In", &["x", "y"])] }),
            format!("{field} partially ignored due to parse error"),
        ),
        (
            "labelSelector",
            json!({ "requirements": [term("Near", &["x"])] }),
            format!("{label} ignored due to parse error"),
        ),
        (
            "labelSelector",
            json!({ "requirements": [term("In", &["x", "y"]), term("Exists", &[])] }),
            String::new(),
        ),
    ];
    for (name, selector, want) in rows {
        let mut review = json!({ "spec": {
            "user": "jane", "resourceAttributes": { "verb": "list", "resource": "pods" },
        } });
        review["spec"]["resourceAttributes"][name] = selector;
        let (code, answer) = send(&server, reviews, &[ADMIN], review).await;
        assert_eq!(code, 201, "{answer}");
        let error = answer["status"]["evaluationError"].as_str();
        assert_eq!(error.unwrap_or_default(), want);
    }
}
