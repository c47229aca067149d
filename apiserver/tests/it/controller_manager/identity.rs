//! `--use-service-account-credentials`, and who may speak to the process itself.

use kubeproof_apiserver::json::{Value, json};

use super::client::{Client, METADATA_LIST};

const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";

/// Accounts of controllers, and what each lists.
const LISTS: &[(&str, &[&str])] = &[
    (
        "attachdetach-controller",
        &["/apis/storage.k8s.io/v1/volumeattachments", "/api/v1/nodes"],
    ),
    (
        "certificate-controller",
        &["/apis/certificates.k8s.io/v1/certificatesigningrequests"],
    ),
    (
        "clusterrole-aggregation-controller",
        &["/apis/rbac.authorization.k8s.io/v1/clusterroles"],
    ),
    (
        "cronjob-controller",
        &["/apis/batch/v1/cronjobs", "/apis/batch/v1/jobs"],
    ),
    (
        "daemon-set-controller",
        &[
            "/apis/apps/v1/daemonsets",
            "/apis/apps/v1/controllerrevisions",
        ],
    ),
    (
        "deployment-controller",
        &[
            "/apis/apps/v1/deployments",
            "/apis/apps/v1/replicasets",
            "/api/v1/pods",
        ],
    ),
    (
        "device-taint-eviction-controller",
        &["/apis/resource.k8s.io/v1/resourceslices"],
    ),
    (
        "disruption-controller",
        &[
            "/apis/policy/v1/poddisruptionbudgets",
            "/apis/apps/v1/statefulsets",
        ],
    ),
    (
        "endpoint-controller",
        &["/api/v1/services", "/api/v1/endpoints"],
    ),
    (
        "endpointslice-controller",
        &["/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/nodes"],
    ),
    ("endpointslicemirroring-controller", &["/api/v1/endpoints"]),
    (
        "ephemeral-volume-controller",
        &["/api/v1/persistentvolumeclaims"],
    ),
    ("expand-controller", &["/api/v1/persistentvolumes"]),
    (
        "generic-garbage-collector",
        &["/api/v1/secrets", "/apis/policy/v1/poddisruptionbudgets"],
    ),
    (
        "horizontal-pod-autoscaler",
        &["/apis/autoscaling/v2/horizontalpodautoscalers"],
    ),
    ("job-controller", &["/apis/batch/v1/jobs", "/api/v1/pods"]),
    (
        "namespace-controller",
        &["/api/v1/namespaces", "/api/v1/secrets"],
    ),
    ("node-controller", &["/api/v1/nodes", "/api/v1/pods"]),
    (
        "persistent-volume-binder",
        &[
            "/apis/storage.k8s.io/v1/storageclasses",
            "/api/v1/persistentvolumes",
        ],
    ),
    ("pod-garbage-collector", &["/api/v1/pods", "/api/v1/nodes"]),
    ("pv-protection-controller", &["/api/v1/persistentvolumes"]),
    (
        "pvc-protection-controller",
        &["/api/v1/persistentvolumeclaims"],
    ),
    ("replicaset-controller", &["/apis/apps/v1/replicasets"]),
    (
        "replication-controller",
        &["/api/v1/replicationcontrollers"],
    ),
    (
        "resource-claim-controller",
        &["/apis/resource.k8s.io/v1/resourceclaims"],
    ),
    (
        "resourcequota-controller",
        &["/api/v1/resourcequotas", "/api/v1/services"],
    ),
    (
        "service-cidrs-controller",
        &["/apis/networking.k8s.io/v1/servicecidrs"],
    ),
    (
        "statefulset-controller",
        &[
            "/apis/apps/v1/statefulsets",
            "/api/v1/persistentvolumeclaims",
        ],
    ),
    ("ttl-after-finished-controller", &["/apis/batch/v1/jobs"]),
    ("ttl-controller", &["/api/v1/nodes"]),
    (
        "validatingadmissionpolicy-status-controller",
        &["/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"],
    ),
    (
        "volumeattributesclass-protection-controller",
        &["/apis/storage.k8s.io/v1/volumeattributesclasses"],
    ),
];

/// The client of a controller, as client-go's dynamic client builder makes it.
async fn controller(root: &Client, name: &str) -> Client {
    let uri = format!("{ACCOUNTS}/{name}");
    if root.get(&uri).await.code == 404 {
        let account = json!({
            "kind": "ServiceAccount", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "kube-system"},
        });
        root.post(ACCOUNTS, &account).await.expect(201);
    }
    let request = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "spec": {"audiences": null, "expirationSeconds": 3600, "boundObjectRef": null},
        "status": {"token": "", "expirationTimestamp": null},
    });
    let issued = root
        .post(&format!("{uri}/token"), &request)
        .await
        .expect(201);
    assert!(issued.at("/status/expirationTimestamp").is_string());
    root.holding(&issued.text("/status/token"))
}

#[tokio::test]
async fn each_controller_has_an_account_a_token_and_the_rights_of_its_bootstrap_role() {
    let root = Client::with_token();
    for (name, lists) in LISTS {
        let client = controller(&root, name).await;
        let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
        let itself = client
            .post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review)
            .await;
        let user = itself.expect(201).text("/status/userInfo/username");
        assert_eq!(user, format!("system:serviceaccount:kube-system:{name}"));
        for uri in *lists {
            client.get(&format!("{uri}?limit=500")).await.expect(200);
        }
        if ![
            "generic-garbage-collector",
            "namespace-controller",
            "resourcequota-controller",
        ]
        .contains(name)
        {
            client.get("/api/v1/secrets").await.expect(403);
        }
    }
}

#[tokio::test]
async fn controllers_may_make_what_they_are_there_for() {
    let root = Client::with_token();
    let accounts = controller(&root, "service-account-controller").await;
    let account = json!({
        "kind": "ServiceAccount", "apiVersion": "v1",
        "metadata": {"name": "default", "namespace": "default"},
    });
    accounts
        .post("/api/v1/namespaces/default/serviceaccounts", &account)
        .await
        .expect(201);
    let publisher = controller(&root, "root-ca-cert-publisher").await;
    let map = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "name": "kube-root-ca.crt", "namespace": "default",
            "annotations": {"kubernetes.io/description": "Contains a CA bundle"},
        },
        "data": {"ca.crt": ""},
    });
    publisher
        .post("/api/v1/namespaces/default/configmaps", &map)
        .await
        .expect(201);
    let collector = controller(&root, "generic-garbage-collector").await;
    let listed = collector
        .get_as(METADATA_LIST, "/api/v1/namespaces/default/configmaps")
        .await;
    assert_eq!(listed.expect(200).at("/items").as_array().unwrap().len(), 1);
    let gone =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    let uri = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    collector.delete(uri, &gone).await.expect(200);
    publisher.delete(uri, &gone).await.expect(403);
}

#[tokio::test]
async fn the_token_controller_fills_the_secret_of_an_account() {
    let client = Client::new();
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = client.made(accounts, account).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let secret = json!({
        "metadata": {"name": "robot-token", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    });
    let mut secret = client.made(secrets, secret).await.body;
    let selector =
        "fieldSelector=type%3Dkubernetes.io%2Fservice-account-token&limit=500&resourceVersion=0";
    let listed = client
        .get(&format!("/api/v1/secrets?{selector}"))
        .await
        .expect(200);
    assert_eq!(listed.at("/items").as_array().unwrap().len(), 1);
    secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!(account.uid());
    secret["data"] = json!({"token": "dG9rZW4=", "namespace": "ZGVmYXVsdA==", "ca.crt": "Y2E="});
    client
        .put(&format!("{secrets}/robot-token"), &secret)
        .await
        .expect(200);
}

#[tokio::test]
async fn the_endpoint_of_the_process_asks_who_a_caller_is_and_what_it_may_do() {
    let root = Client::with_token();
    let client = controller(&root, "ttl-controller").await;
    drop(client);
    let review = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "spec": {"token": "secret"}, "status": {"user": {}},
    });
    let known = root
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await
        .expect(201);
    assert_eq!(known.at("/status/authenticated"), true);
    let review = |user: &str| {
        json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                "user": user, "groups": ["system:authenticated"],
            },
            "status": {"allowed": false},
        })
    };
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let nobody = root.post(reviews, &review("somebody")).await.expect(201);
    assert_eq!(nobody.at("/status/allowed"), false);
}

#[tokio::test]
async fn without_a_client_authority_its_delegated_authentication_finds_no_config_map() {
    let root = Client::with_token();
    let base = "/api/v1/namespaces/kube-system/configmaps";
    let uri = format!("{base}/extension-apiserver-authentication");
    assert_eq!(root.get(&uri).await.expect(404).at("/reason"), "NotFound");
    let selector = "fieldSelector=metadata.name%3Dextension-apiserver-authentication&limit=500";
    let listed = root
        .get(&format!("{base}?{selector}&resourceVersion=0"))
        .await
        .expect(200);
    assert_eq!(listed.at("/items"), &json!([]));
    // A holder of the Role may read this config map, and no other there.
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
            "name": "extension-apiserver-authentication-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "ttl-controller", "namespace": "kube-system"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings";
    root.made(bindings, binding).await;
    let reader = controller(&root, "ttl-controller").await;
    reader.get(&uri).await.expect(404);
    reader
        .get(&format!("{base}/kube-root-ca.crt"))
        .await
        .expect(403);
    assert_eq!(
        Value::Null,
        reader
            .get(&format!("{base}?{selector}"))
            .await
            .expect(200)
            .at("/x")
            .clone()
    );
}
