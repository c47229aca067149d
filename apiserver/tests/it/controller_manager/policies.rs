//! Disruption budgets, autoscaling, aggregated roles, signing requests, admission policies.

use kubeproof_apiserver::json::{Value, json};

use super::client::{Client, STRATEGIC, containers, options};

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn set() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 3, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": containers()},
    }})
}

#[tokio::test]
async fn the_disruption_controller_finds_out_how_many_pods_are_expected_by_scale() {
    let client = Client::new();
    client.made(SETS, set()).await;
    // The scale client asks discovery for the kind of the subresource.
    let resources = client.get("/apis/apps/v1").await.expect(200);
    let found = resources.at("/resources").as_array().unwrap().iter();
    let scale = found
        .clone()
        .find(|found| found["name"] == "statefulsets/scale")
        .unwrap();
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
    );
    let scale = client.get(&format!("{SETS}/web/scale")).await.expect(200);
    assert_eq!(scale.at("/kind"), "Scale");
    assert_eq!(scale.at("/apiVersion"), "autoscaling/v1");
    assert_eq!(scale.at("/spec/replicas"), 3);
}

#[tokio::test]
async fn the_disruption_controller_writes_how_many_disruptions_are_allowed() {
    let client = Client::new();
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    let mut budget = client.made(budgets, budget).await.body;
    let condition = json!({
        "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    budget["status"] = json!({
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
        "disruptedPods": {"web-2": "2026-01-01T00:00:00Z"}, "conditions": [condition],
    });
    let written = client
        .put(&format!("{budgets}/web/status"), &budget)
        .await
        .expect(200);
    assert_eq!(written.at("/status"), &budget["status"]);
    let stale = client.put(&format!("{budgets}/web/status"), &budget).await;
    assert_eq!(stale.expect(409).at("/reason"), "Conflict");
}

#[tokio::test]
async fn the_autoscaler_reads_and_writes_scales() {
    let client = Client::new();
    client.made(SETS, set()).await;
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"kind": "StatefulSet", "name": "web", "apiVersion": "apps/v1"});
    let scaler =
        json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 5, "scaleTargetRef": target}});
    let mut scaler = client.made(scalers, scaler).await.body;
    let mut scale = client
        .get(&format!("{SETS}/web/scale"))
        .await
        .expect(200)
        .body;
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = json!(5);
    client
        .put(&format!("{SETS}/web/scale"), &scale)
        .await
        .expect(200);
    client
        .put(&format!("{SETS}/web/scale"), &scale)
        .await
        .expect(409);
    assert_eq!(
        client
            .get(&format!("{SETS}/web"))
            .await
            .at("/spec/replicas"),
        5
    );
    scaler["status"] = json!({
        "observedGeneration": 1, "currentReplicas": 3, "desiredReplicas": 5, "currentMetrics": null,
        "conditions": [{
            "type": "AbleToScale", "status": "True", "reason": "SucceededRescale", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let written = client
        .put(&format!("{scalers}/web/status"), &scaler)
        .await
        .expect(200);
    assert_eq!(written.at("/status/desiredReplicas"), 5);
}

#[tokio::test]
async fn roles_are_aggregated_by_server_side_apply() {
    let client = Client::new();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rule = json!({"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]});
    let labels = json!({"rbac.example.com/aggregate": "true"});
    client
        .made(
            roles,
            json!({"metadata": {"name": "part", "labels": labels}, "rules": [rule]}),
        )
        .await;
    let whole = json!({
        "metadata": {"name": "whole"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]},
    });
    client.made(roles, whole).await;
    let applied = json!({
        "kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "whole"}, "rules": [rule],
    });
    let uri = format!("{roles}/whole");
    let manager = "clusterrole-aggregation-controller";
    let aggregated = client.apply(&uri, manager, &applied).await.expect(200);
    assert_eq!(aggregated.at("/rules"), &json!([rule]));
    assert!(aggregated.at("/aggregationRule").is_object());
    let again = client.apply(&uri, manager, &applied).await.expect(200);
    assert_eq!(again.version(), aggregated.version(), "nothing has changed");
}

#[tokio::test]
async fn signing_requests_are_approved_signed_and_cleaned_up() {
    let client = Client::new();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    client
        .get(&format!("{requests}?limit=500&resourceVersion=0"))
        .await
        .expect(200);
    let review = json!({
        "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
        "spec": {
            "resourceAttributes": {
                "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
                "version": "*", "subresource": "selfnodeclient",
            },
            "user": "system:node:n", "groups": ["system:nodes", "system:authenticated"],
        },
        "status": {"allowed": false},
    });
    let decided = client
        .post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            &review,
        )
        .await
        .expect(201);
    assert!(decided.at("/status/allowed").is_boolean());
}

#[tokio::test]
async fn the_status_of_admission_policies_is_applied() {
    let client = Client::new();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]});
    let policy = json!({
        "metadata": {"name": "few"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.spec.replicas <= 5"}],
        },
    });
    client.made(policies, policy).await;
    // It checks the expressions against the schemas of the API.
    let paths = client.get("/openapi/v3").await.expect(200);
    let apps = paths.text("/paths/apis~1apps~1v1/serverRelativeURL");
    let schemas = client.get_as("application/json", &apps).await.expect(200);
    assert!(
        schemas
            .at("/components/schemas/io.k8s.api.apps.v1.Deployment")
            .is_object()
    );
    let status = json!({
        "kind": "ValidatingAdmissionPolicy", "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "few"},
        "status": {"observedGeneration": 1, "typeChecking": {}},
    });
    let uri = format!("{policies}/few/status");
    let checked = client
        .apply(&uri, "validatingadmissionpolicy-status", &status)
        .await
        .expect(200);
    assert_eq!(checked.at("/status/observedGeneration"), 1);
    let own = options("admissionregistration.k8s.io/v1", json!({}));
    client
        .delete(&format!("{policies}/few"), &own)
        .await
        .expect(200);
}

#[tokio::test]
async fn protection_of_volume_attributes_classes_is_a_finalizer() {
    let client = Client::new();
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let class = json!({"metadata": {"name": "fast"}, "driverName": "csi.example.com", "parameters": {"iops": "1"}});
    let mut class = client.made(classes, class).await.body;
    class["metadata"]["finalizers"] = json!(["kubernetes.io/vac-protection"]);
    let uri = format!("{classes}/fast");
    client.put(&uri, &class).await.expect(200);
    client
        .delete(&uri, &options("storage.k8s.io/v1", json!({})))
        .await
        .expect(200);
    let free = json!({"metadata": {"finalizers": null}});
    client.patch(STRATEGIC, &uri, &free).await.expect(200);
    client.get(&uri).await.expect(404);
}
