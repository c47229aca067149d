//! Effects of the built-in admission plugins on writes: limit ranges, pod security, service
//! accounts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::{Answer, send};

const PODS: &str = "POST /api/v1/namespaces/default/pods";

fn pod(name: &str, container: Value) -> Value {
    let mut own = json!({ "name": "c", "image": "i:1" });
    own.as_object_mut()
        .unwrap()
        .extend(container.as_object().unwrap().clone());
    json!({ "metadata": { "name": name }, "spec": { "containers": [own] } })
}

async fn label_default(server: &ApiServer, labels: Value) -> Answer {
    let patch = json!({ "metadata": { "labels": labels } });
    send(server, "PATCH /api/v1/namespaces/default", patch).await
}

#[tokio::test]
async fn a_limit_range_fills_in_what_containers_do_not_say() {
    let server = ApiServer::builder().build();
    let limits = json!([{
        "type": "Container", "default": { "cpu": "500m", "memory": "1Gi" },
        "defaultRequest": { "cpu": "100m" }, "max": { "cpu": "1" }, "min": { "cpu": "50m" },
        "maxLimitRequestRatio": { "cpu": "4" },
    }]);
    let range = json!({ "metadata": { "name": "l" }, "spec": { "limits": limits } });
    send(
        &server,
        "POST /api/v1/namespaces/default/limitranges",
        range,
    )
    .await;
    let request = json!({ "resources": { "requests": { "cpu": "200m" } } });
    let created = send(&server, PODS, pod("a", request)).await;
    assert_eq!(
        created.body["spec"]["containers"][0]["resources"],
        json!({ "limits": { "cpu": "500m", "memory": "1Gi" },
            "requests": { "cpu": "200m", "memory": "1Gi" } }),
    );
    assert_eq!(
        created.body["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c"
    );
    let much = json!({ "resources": { "requests": { "cpu": "40m" }, "limits": { "cpu": "2" } } });
    let refused = send(&server, PODS, pod("b", much)).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "pods \"b\" is forbidden: [minimum cpu usage per Container is 50m, but request is 40m, \
         maximum cpu usage per Container is 1, but limit is 2, cpu max limit to request ratio per \
         Container is 4, but provided ratio is 50.000000]"
    );
}

#[tokio::test]
async fn claims_stay_within_the_limits_of_their_namespace() {
    let server = ApiServer::builder().build();
    let limits = json!([{
        "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" },
    }]);
    let range = json!({ "metadata": { "name": "l" }, "spec": { "limits": limits } });
    send(
        &server,
        "POST /api/v1/namespaces/default/limitranges",
        range,
    )
    .await;
    let claim = |size: &str| {
        json!({ "metadata": { "name": "c" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } },
        } })
    };
    let claims = "POST /api/v1/namespaces/default/persistentvolumeclaims";
    let refused = send(&server, claims, claim("3Gi")).await;
    assert_eq!(
        refused.message(),
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per \
         PersistentVolumeClaim is 2Gi, but request is 3Gi"
    );
    assert_eq!(send(&server, claims, claim("1Gi")).await.code, 201);
}

#[tokio::test]
async fn a_restricted_namespace_refuses_pods_and_warns_of_templates() {
    let server = ApiServer::builder().build();
    let privileged = json!({ "securityContext": { "privileged": true } });
    assert_eq!(
        send(&server, PODS, pod("a", privileged.clone())).await.code,
        201
    );
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    let labelled = label_default(&server, labels).await;
    assert_eq!(
        labelled.warnings,
        [
            "299 - \"existing pods in namespace \\\"default\\\" violate the new PodSecurity \
             enforce level \\\"restricted:latest\\\"\"",
            "299 - \"a: privileged, allowPrivilegeEscalation != false, unrestricted capabilities, \
             runAsNonRoot != true, seccompProfile\"",
        ]
    );
    let refused = send(&server, PODS, pod("b", json!({}))).await;
    assert_eq!(refused.code, 403);
    let details = "allowPrivilegeEscalation != false (container \"c\" must set \
         securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \
         \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or \
         container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or \
         container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\")";
    assert_eq!(
        refused.message(),
        format!("pods \"b\" is forbidden: violates PodSecurity \"restricted:latest\": {details}")
    );
    let template = json!({
        "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let deployment = json!({ "metadata": { "name": "d" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } }, "template": template,
    } });
    let created = send(
        &server,
        "POST /apis/apps/v1/namespaces/default/deployments",
        deployment,
    )
    .await;
    assert_eq!(created.code, 201);
    assert_eq!(created.warnings.len(), 1);
    let warning = created.warnings[0].replace('\\', "");
    assert_eq!(
        warning,
        format!("299 - \"would violate PodSecurity \"restricted:latest\": {details}\"")
    );
    let fit = json!({ "securityContext": {
        "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
        "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" },
    } });
    assert_eq!(send(&server, PODS, pod("c", fit)).await.code, 201);
}

#[tokio::test]
async fn a_baseline_namespace_refuses_what_reaches_the_node() {
    let server = ApiServer::builder().build();
    label_default(
        &server,
        json!({ "pod-security.kubernetes.io/enforce": "baseline",
            "pod-security.kubernetes.io/enforce-version": "v1.30" }),
    )
    .await;
    let own = json!({
        "ports": [{ "containerPort": 80, "hostPort": 80 }],
        "securityContext": { "capabilities": { "add": ["SYS_ADMIN"] } },
    });
    let mut own = pod("a", own);
    own["spec"]["hostPID"] = true.into();
    own["spec"]["volumes"] = json!([{ "name": "v", "hostPath": { "path": "/" } }]);
    let refused = send(&server, PODS, own).await;
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: violates PodSecurity \"baseline:v1.30\": non-default capabilities \
         (container \"c\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add), host \
         namespaces (hostPID=true), hostPath volumes (volume \"v\"), hostPort (container \"c\" uses \
         hostPort 80)"
    );
    let odd = json!({ "pod-security.kubernetes.io/warn": "strict" });
    let refused = label_default(&server, odd).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.message(),
        "Namespace \"default\" is invalid: metadata.labels[pod-security.kubernetes.io/warn]: \
         Invalid value: \"strict\": must be one of privileged, baseline, restricted"
    );
}

async fn quota(server: &ApiServer, spec: Value, used: Value) {
    let object = json!({ "metadata": { "name": "q" }, "spec": spec });
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let created = send(server, &format!("POST {quotas}"), object).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let status = json!({ "status": { "hard": spec["hard"], "used": used } });
    send(server, &format!("PATCH {quotas}/q/status"), status).await;
}

async fn used(server: &ApiServer) -> Value {
    let quota = "GET /api/v1/namespaces/default/resourcequotas/q";
    send(server, quota, Value::Null).await.body["status"]["used"].clone()
}

#[tokio::test]
async fn a_quota_counts_pods_and_refuses_what_is_beyond() {
    let server = ApiServer::builder().build();
    let hard = json!({ "pods": "2", "requests.cpu": "1", "count/configmaps": "9" });
    let none = json!({ "pods": "0", "requests.cpu": "0", "count/configmaps": "1" });
    quota(&server, json!({ "hard": hard }), none).await;
    let refused = send(&server, PODS, pod("a", json!({}))).await;
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    let asking = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
    assert_eq!(
        send(&server, PODS, pod("a", asking("600m"))).await.code,
        201
    );
    let refused = send(&server, PODS, pod("b", asking("500m"))).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: \
         requests.cpu=600m, limited: requests.cpu=1"
    );
    assert_eq!(
        send(&server, PODS, pod("b", asking("400m"))).await.code,
        201
    );
    let want = json!({ "pods": "2", "requests.cpu": "1", "count/configmaps": "1" });
    assert_eq!(used(&server).await, want);
    let refused = send(&server, PODS, pod("c", asking("1m"))).await;
    assert_eq!(
        refused.message(),
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1m, used: \
         pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1"
    );
}

#[tokio::test]
async fn a_quota_with_scopes_counts_only_what_is_in_them() {
    let server = ApiServer::builder().build();
    let spec = json!({ "hard": { "pods": "1" }, "scopes": ["BestEffort"] });
    quota(&server, spec, json!({ "pods": "0" })).await;
    let asking = json!({ "resources": { "requests": { "cpu": "1" } } });
    assert_eq!(send(&server, PODS, pod("a", asking)).await.code, 201);
    assert_eq!(used(&server).await, json!({ "pods": "0" }));
    assert_eq!(send(&server, PODS, pod("b", json!({}))).await.code, 201);
    assert_eq!(send(&server, PODS, pod("c", json!({}))).await.code, 403);
}

#[tokio::test]
async fn a_pod_is_shown_the_token_of_its_service_account_if_that_is_asked_for() {
    let server = ApiServer::builder().build();
    let plain = send(&server, PODS, pod("p", json!({}))).await;
    assert_eq!(plain.code, 201, "{}", plain.message());
    assert!(plain.body["spec"]["serviceAccountName"].is_null());

    let server = ApiServer::builder().service_account_admission().build();
    let refused = send(&server, PODS, pod("p", json!({}))).await;
    assert_eq!(
        refused.message(),
        "pods \"p\" is forbidden: error looking up service account default/default: \
         serviceaccount \"default\" not found"
    );
    let accounts = "POST /api/v1/namespaces/default/serviceaccounts";
    let account =
        json!({ "metadata": { "name": "default" }, "imagePullSecrets": [{ "name": "s" }] });
    assert_eq!(send(&server, accounts, account).await.code, 201);
    let container = json!({ "volumeMounts": [] });
    let spec = send(&server, PODS, pod("p", container)).await.body["spec"].take();
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "s" }]));
    let mount = &spec["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], spec["volumes"][0]["name"]);
    assert_eq!(
        mount["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
    let sources = &spec["volumes"][0]["projected"]["sources"];
    let token = json!({ "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } });
    assert_eq!(sources[0], token);
    assert_eq!(sources.as_array().unwrap().len(), 3);

    let mut without = pod("q", json!({}));
    without["spec"]["automountServiceAccountToken"] = false.into();
    let spec = send(&server, PODS, without).await.body["spec"].take();
    assert_eq!(spec["serviceAccountName"], "default");
    assert!(spec["volumes"].is_null());
}

#[tokio::test]
async fn an_ingress_without_a_class_has_the_newest_default() {
    let server = ApiServer::builder().build();
    let class = |name: &str, is_default: &str| {
        json!({ "metadata": { "name": name, "annotations": {
            "ingressclass.kubernetes.io/is-default-class": is_default } },
            "spec": { "controller": "a.io/c" } })
    };
    for (name, is_default) in [("c", "false"), ("b", "true"), ("a", "true")] {
        let path = "POST /apis/networking.k8s.io/v1/ingressclasses";
        let created = send(&server, path, class(name, is_default)).await;
        assert_eq!(created.code, 201);
    }
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    let annotation = "kubernetes.io/ingress.class";
    for (name, annotations, class, want) in [
        ("x", json!({}), json!(null), json!("a")),
        ("y", json!({}), json!("c"), json!("c")),
        ("z", json!({ annotation: "c" }), json!(null), json!(null)),
    ] {
        let ingress = json!({ "metadata": { "name": name, "annotations": annotations },
            "spec": { "defaultBackend": backend, "ingressClassName": class } });
        let path = "POST /apis/networking.k8s.io/v1/namespaces/default/ingresses";
        let created = send(&server, path, ingress).await;
        assert_eq!(created.body["spec"]["ingressClassName"], want, "{name}");
    }
}
