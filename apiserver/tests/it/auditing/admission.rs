//! What admission leaves in audit events.

use std::sync::Arc;

use futures::future::BoxFuture;
use kubeproof_apiserver::Webhook;

use super::*;

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// The annotations of an event without those of authorization.
fn annotations(event: &Value) -> Value {
    let mut annotations = event["annotations"].clone();
    let own = annotations.as_object_mut().unwrap();
    own.retain(|key, _| !key.starts_with("authorization.k8s.io/"));
    annotations
}

async fn created(server: &ApiServer, path: &str, object: Value) {
    let created = send(server, &format!("POST {path}"), object).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

fn rules() -> Value {
    json!([{
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
    }])
}

#[tokio::test(start_paused = true)]
async fn policies_leave_failures_and_annotations() {
    let (server, events) = audited("{level: Metadata, omitStages: [RequestReceived]}");
    let spec = json!({
        "matchConstraints": {"resourceRules": rules()},
        "validations": [
            {"expression": "true"},
            {"expression": "object.metadata.name != 'bad'", "message": "a <bad> name"},
        ],
        "auditAnnotations": [
            {"key": "name", "valueExpression": "' ' + object.metadata.name"},
            {"key": "none", "valueExpression": "null"},
        ],
    });
    let policy = json!({"metadata": {"name": "p.example.com"}, "spec": spec});
    created(
        &server,
        &format!("{HOOKS}/validatingadmissionpolicies"),
        policy,
    )
    .await;
    for binding in ["b", "c"] {
        let spec = json!({"policyName": "p.example.com", "validationActions": ["Warn", "Audit"]});
        let binding = json!({"metadata": {"name": binding}, "spec": spec});
        created(
            &server,
            &format!("{HOOKS}/validatingadmissionpolicybindings"),
            binding,
        )
        .await;
    }
    events.all();
    created(&server, CONFIGMAPS, json!({"metadata": {"name": "good"}})).await;
    assert_eq!(
        annotations(&events.only()),
        json!({"p.example.com/name": "good"})
    );
    created(&server, CONFIGMAPS, json!({"metadata": {"name": "bad"}})).await;
    let failure = r#"[{"message":"a \u003cbad\u003e name","policy":"p.example.com","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    let want = json!({
        "p.example.com/name": "bad",
        "validation.policy.admission.k8s.io/validation_failure": failure,
    });
    assert_eq!(annotations(&events.only()), want);
}

#[tokio::test(start_paused = true)]
async fn pod_security_leaves_its_policy_and_violations() {
    let (server, events) = audited("{level: Metadata, omitStages: [RequestReceived]}");
    let pod = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]},
        })
    };
    created(&server, "/api/v1/namespaces/default/pods", pod("a")).await;
    let enforced = "pod-security.kubernetes.io/enforce-policy";
    assert_eq!(
        annotations(&events.only()),
        json!({enforced: "privileged:latest"})
    );
    let labels = json!({"pod-security.kubernetes.io/audit": "baseline"});
    let namespace = json!({"metadata": {"name": "n", "labels": labels}});
    created(&server, "/api/v1/namespaces", namespace).await;
    events.all();
    created(&server, "/api/v1/namespaces/n/pods", pod("a")).await;
    let violations =
        "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    let want = json!({
        enforced: "privileged:latest",
        "pod-security.kubernetes.io/audit-violations": violations,
    });
    assert_eq!(annotations(&events.only()), want);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("a")["spec"]});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let set = json!({"metadata": {"name": "r"}, "spec": spec});
    created(&server, "/apis/apps/v1/namespaces/n/replicasets", set).await;
    let want = json!({"pod-security.kubernetes.io/audit-violations": violations});
    assert_eq!(annotations(&events.only()), want);
}

/// A webhook that labels objects on `/label`, and otherwise admits them.
#[derive(Debug)]
struct Hook;

impl Webhook for Hook {
    fn answer(&self, _: ApiServer, path: &str, document: Value) -> BoxFuture<'static, Value> {
        let mut response = json!({
            "uid": document["request"]["uid"], "allowed": true, "auditAnnotations": {"seen": "yes"},
        });
        if path == "/label" {
            // [{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]
            response["patch"] =
                "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7ImEiOiJiIn19XQ=="
                    .into();
            response["patchType"] = "JSONPatch".into();
        }
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        Box::pin(async { review })
    }
}

#[tokio::test]
async fn webhooks_leave_mutations_patches_failures_and_annotations() {
    for (level, with_patch) in [("Metadata", false), ("Request", true)] {
        let events = Events::default();
        let rule = format!("{{level: {level}, omitStages: [RequestReceived]}}");
        let server = ApiServer::builder()
            .answer_service("default", "hook", 443, Arc::new(Hook))
            .audit(events.audit(&rule))
            .build();
        let hook = |name: &str, client: Value| {
            json!({
                "name": name, "clientConfig": client, "rules": rules(), "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "timeoutSeconds": 1,
            })
        };
        let service =
            |path: &str| json!({"service": {"namespace": "default", "name": "hook", "path": path}});
        let missing = json!({"service": {"namespace": "default", "name": "missing"}});
        let mutating = json!({
            "metadata": {"name": "m"},
            "webhooks": [
                hook("label.example.com", service("/label")),
                hook("missing.example.com", missing.clone()),
            ],
        });
        created(
            &server,
            &format!("{HOOKS}/mutatingwebhookconfigurations"),
            mutating,
        )
        .await;
        let validating = json!({
            "metadata": {"name": "v"},
            "webhooks": [
                hook("check.example.com", service("/")),
                hook("missing.example.com", missing),
            ],
        });
        created(
            &server,
            &format!("{HOOKS}/validatingwebhookconfigurations"),
            validating,
        )
        .await;
        events.all();
        created(&server, CONFIGMAPS, json!({"metadata": {"name": "a"}})).await;
        let mutated = |webhook: &str, mutated: bool| {
            format!(
                r#"{{"configuration":"m","webhook":"{webhook}.example.com","mutated":{mutated}}}"#
            )
        };
        let mut want = json!({
            "check.example.com/seen": "yes",
            "label.example.com/seen": "yes",
            "mutation.webhook.admission.k8s.io/round_0_index_0": mutated("label", true),
            "mutation.webhook.admission.k8s.io/round_0_index_1": mutated("missing", false),
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1": "missing.example.com",
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "missing.example.com",
        });
        if with_patch {
            want["patch.webhook.admission.k8s.io/round_0_index_0"] = r#"{"configuration":"m","webhook":"label.example.com","patch":[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}],"patchType":"JSONPatch"}"#.into();
        }
        assert_eq!(annotations(&events.only()), want, "{level}");
    }
}
