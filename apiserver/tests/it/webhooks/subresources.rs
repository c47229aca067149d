//! Reviews by webhooks of subresources, and of objects that are not stored.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::{allow, for_configmaps, mutating, patch, response, send, validating};
use crate::support::webhook_server::WebhookServer;

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A webhook for everything that is done to these resources.
fn for_resources(hook: &WebhookServer, groups: Value, resources: Value) -> Value {
    let mut webhook = for_configmaps("below.example.com", hook.by_url("/below"));
    webhook["rules"][0]["apiGroups"] = groups;
    webhook["rules"][0]["apiVersions"] = json!(["*"]);
    webhook["rules"][0]["resources"] = resources;
    webhook
}

async fn create(server: &ApiServer, path: &str, object: Value) -> Value {
    let created = send(server, &format!("POST {path}"), object).await;
    assert_eq!(created.code, 201, "{}", created.body);
    created.body
}

async fn create_pod(server: &ApiServer) {
    let account = json!({ "metadata": { "name": "default" } });
    create(
        server,
        "/api/v1/namespaces/default/serviceaccounts",
        account,
    )
    .await;
    let pod = json!({
        "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    create(server, PODS, pod).await;
}

#[tokio::test]
async fn a_connection_is_asked_about_by_its_options() {
    let hook = WebhookServer::start(|review| response(review, json!({ "allowed": false }))).await;
    let server = ApiServer::builder().build();
    create_pod(&server).await;
    let webhook = for_resources(&hook, json!([""]), json!(["pods/*", "services/*"]));
    validating(&server, webhook).await;
    let exec = format!("POST {PODS}/p/exec?stdin=true&stdout=1&tty=false&command=a&command=b+c");
    let refused = send(&server, &exec, Value::Null).await;
    let message = r#"admission webhook "below.example.com" denied the request without explanation"#;
    assert_eq!((refused.code, refused.message()), (400, message));
    let request = &hook.seen()[0]["request"];
    let options = json!({
        "kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "stdout": true,
        "command": ["a", "b c"],
    });
    assert_eq!(request["object"], options);
    assert_eq!(request["operation"], "CONNECT");
    assert_eq!(
        request["kind"],
        json!({ "group": "", "version": "v1", "kind": "PodExecOptions" })
    );
    assert_eq!(request["subResource"], "exec");
    assert_eq!(request["name"], "p");
    assert_eq!(request["namespace"], "default");
    assert_eq!(request["options"], Value::Null);
    assert_eq!(request["oldObject"], Value::Null);
    for (path, kind, field, value) in [
        (
            "p/attach?container=c",
            "PodAttachOptions",
            "container",
            json!("c"),
        ),
        (
            "p/portforward?ports=80,443&ports=8080",
            "PodPortForwardOptions",
            "ports",
            json!([80, 443, 8080]),
        ),
        ("p:80/proxy/a/b", "PodProxyOptions", "path", json!("/a/b")),
    ] {
        let refused = send(&server, &format!("GET {PODS}/{path}"), Value::Null).await;
        assert_eq!(refused.message(), message, "{path}");
        let seen = hook.seen();
        let object = &seen.last().unwrap()["request"]["object"];
        assert_eq!((&object["kind"], &object[field]), (&json!(kind), &value));
    }
}

#[tokio::test]
async fn a_webhook_may_change_the_options_of_a_connection() {
    let hook = WebhookServer::start(|review| {
        let container = json!([{ "op": "add", "path": "/container", "value": "other" }]);
        patch(review, container)
    })
    .await;
    let server = ApiServer::builder().build();
    create_pod(&server).await;
    mutating(
        &server,
        for_resources(&hook, json!([""]), json!(["pods/exec"])),
    )
    .await;
    let exec = format!("POST {PODS}/p/exec?stdin=true&container=c");
    let refused = send(&server, &exec, Value::Null).await;
    assert_eq!(refused.message(), "container other is not valid for pod p");
}

#[tokio::test]
async fn a_scale_is_shown_and_changed_as_a_scale() {
    let hook = WebhookServer::start(|review| {
        let replicas = json!([{ "op": "replace", "path": "/spec/replicas", "value": 5 }]);
        patch(review, replicas)
    })
    .await;
    let checker = WebhookServer::start(allow).await;
    let server = ApiServer::builder().build();
    let template = json!({
        "metadata": { "labels": { "a": "b" } },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let deployment = json!({
        "metadata": { "name": "d", "labels": { "tier": "front" } },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "a": "b" } }, "template": template },
    });
    create(&server, DEPLOYMENTS, deployment).await;
    let resources = || json!(["*/scale"]);
    mutating(&server, for_resources(&hook, json!(["apps"]), resources())).await;
    validating(&server, for_resources(&checker, json!(["*"]), resources())).await;
    let path = format!("PATCH {DEPLOYMENTS}/d/scale");
    let scaled = send(&server, &path, json!({ "spec": { "replicas": 3 } })).await;
    assert_eq!(scaled.code, 200, "{}", scaled.body);
    assert_eq!(scaled.body["spec"]["replicas"], 5);
    let stored = send(&server, &format!("GET {DEPLOYMENTS}/d"), Value::Null).await;
    assert_eq!(stored.body["spec"]["replicas"], 5);
    let first = &hook.seen()[0]["request"];
    assert_eq!(first["object"]["kind"], "Scale");
    assert_eq!(first["object"]["spec"]["replicas"], 3);
    assert_eq!(first["oldObject"]["spec"]["replicas"], 2);
    assert_eq!(first["oldObject"]["kind"], "Scale");
    assert_eq!(first["kind"]["kind"], "Scale");
    assert_eq!(first["kind"]["group"], "autoscaling");
    assert_eq!(first["resource"]["resource"], "deployments");
    assert_eq!(first["requestSubResource"], "scale");
    assert_eq!(first["operation"], "UPDATE");
    assert_eq!(first["options"]["kind"], "UpdateOptions");
    let second = &checker.seen()[0]["request"];
    assert_eq!(second["object"]["spec"]["replicas"], 5);
    let mut negative = for_resources(&hook, json!(["apps"]), resources());
    negative["matchConditions"] = json!([{ "name": "s", "expression": "object.kind != 'Scale'" }]);
    let path = "PATCH /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/mutating";
    send(&server, path, json!({ "webhooks": [negative] })).await;
    let path = format!("PATCH {DEPLOYMENTS}/d/scale");
    let scaled = send(&server, &path, json!({ "spec": { "replicas": 1 } })).await;
    assert_eq!(scaled.body["spec"]["replicas"], 1);
}

#[tokio::test]
async fn tokens_and_reviews_are_asked_about() {
    let hook = WebhookServer::start(allow).await;
    let server = ApiServer::builder().build();
    create_pod(&server).await;
    validating(&server, for_resources(&hook, json!(["*"]), json!(["*/*"]))).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create(
        &server,
        &format!("{accounts}/default/token"),
        json!({ "spec": {} }),
    )
    .await;
    let review = json!({ "spec": { "user": "a", "resourceAttributes": { "verb": "get" } } });
    create(
        &server,
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        review,
    )
    .await;
    let eviction = json!({ "metadata": { "name": "p" } });
    create(&server, &format!("{PODS}/p/eviction"), eviction).await;
    let seen = hook.seen();
    let reviews: Vec<String> = seen
        .iter()
        .map(|review| {
            let request = &review["request"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (operation, kind) = (text(&request["operation"]), text(&request["kind"]["kind"]));
            let (resource, below) = (
                text(&request["resource"]["resource"]),
                text(&request["subResource"]),
            );
            let name = text(&request["name"]);
            format!("{operation} {kind} {resource}/{below} {name}")
        })
        .collect();
    assert_eq!(
        reviews,
        [
            "CREATE TokenRequest serviceaccounts/token default",
            "CREATE SubjectAccessReview subjectaccessreviews/ ",
            "CREATE Eviction pods/eviction p",
        ]
    );
    let token = &seen[0]["request"]["object"];
    assert_eq!(token["spec"]["expirationSeconds"], 3600);
    assert_eq!(token["metadata"]["name"], "default");
}

#[tokio::test]
async fn a_collection_is_asked_about_object_by_object() {
    let hook = WebhookServer::start(allow).await;
    let server = ApiServer::builder().build();
    for name in ["a", "b"] {
        let path = "/api/v1/namespaces/default/secrets";
        create(&server, path, json!({ "metadata": { "name": name } })).await;
    }
    let mut webhook = for_resources(&hook, json!([""]), json!(["secrets"]));
    webhook["rules"][0]["operations"] = json!(["DELETE"]);
    validating(&server, webhook).await;
    let path = "DELETE /api/v1/namespaces/default/secrets?gracePeriodSeconds=5";
    assert_eq!(send(&server, path, Value::Null).await.code, 200);
    let seen = hook.seen();
    let names: Vec<&Value> = seen
        .iter()
        .map(|review| &review["request"]["oldObject"]["metadata"]["name"])
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(seen[0]["request"]["name"], Value::Null);
    let options = json!({
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 5,
    });
    assert_eq!(seen[0]["request"]["options"], options);
}
